"""Download a file, complete and verified: resumed after any interruption, from any host that has it.

docs/decisions/downloads.md lists the states of the file on disk. `partial` holds them, `transfer` moves between them,
`answer` is one answer of a server.
"""

import urllib.parse
from dataclasses import dataclass, replace
from pathlib import Path

from recordzoo.base import crash_points, settings
from recordzoo.base.addresses import Address
from recordzoo.base.program import command
from recordzoo.base.progress import LogProgress, Progress, format_bytes
from recordzoo.errors import ArgumentError, DiskSpaceError, DownloadError, PrepareError, TermsError
from recordzoo.net.crew import Stop
from recordzoo.net.part import NO_ROOM
from recordzoo.net.partial import CHECKING, PartialFile, leftovers
from recordzoo.system.names import quote

__all__ = ["CHECKING", "RemoteFile", "addresses", "fetch", "unfinished"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A raw file that can be downloaded, and its known facts.

    Attributes:
        name: Its local name, whatever its name on a server.
        urls: Its addresses, the best one first. A login (``https://user:password@host/...``) is sent, not shown.
        size_bytes: Its size, if known.
        md5: Its MD5 in hexadecimal, if known.
        sha256: Its SHA-256 in hexadecimal, if known; compared first. A file with another SHA-256 may match the MD5.
        unconfirmed: Whether the MD5 may be wrong: a mismatch is then no error.
        needs_terms: Whether its `urls` (not a mirror) may be used only after accepting the host's terms.
        instructions: Numbered steps to fetch it by hand. Placeholders: ``{folder}`` for the file's folder and
            ``{root}`` for the root above it, both quoted for a shell; ``{recordzoo}`` for the command line's name.
        folder: The file's folder, relative to the root; "" for the root itself.
        optional: Whether the dataset can be prepared, in part, without it.
        about_bytes: Its approximate size if the exact one is unknown; never compared.

    Raises:
        ArgumentError: `name` is not a plain file name.
    """

    name: str
    urls: tuple[str, ...] = ()
    size_bytes: int | None = None
    md5: str | None = None
    sha256: str | None = None
    needs_terms: bool = False
    instructions: str = ""
    folder: str = ""
    optional: bool = False
    about_bytes: int | None = None
    unconfirmed: bool = False

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..") or any(char in self.name for char in "/\\\0"):
            raise ArgumentError(f"RemoteFile: name is {self.name!r}; it must be a plain file name.")

    def path(self, root: Path) -> Path:
        """Return the file's path under a root."""
        return root / self.folder / self.name

    @property
    def hash(self) -> tuple[str, str] | None:
        """The algorithm and digest that the file must have; None if no confirmed digest is known."""
        if self.sha256:
            return "sha256", self.sha256.lower()
        return ("md5", self.md5.lower()) if self.md5 and not self.unconfirmed else None

    @property
    def second_md5(self) -> str | None:
        """The MD5 that a file of another SHA-256 may match instead: the two digests may describe different bytes."""
        return self.md5.lower() if self.md5 and self.sha256 and not self.unconfirmed else None

    @property
    def likely_md5(self) -> str | None:
        """The unconfirmed MD5, if no other digest is known."""
        return self.md5.lower() if self.md5 and self.unconfirmed and not self.sha256 else None

    @property
    def expected_bytes(self) -> int | None:
        """Its size, exact or approximate; None if neither is known."""
        return self.about_bytes if self.size_bytes is None else self.size_bytes

    @property
    def facts(self) -> str:
        """Size and hash for messages: ``1.15 GB, md5 97eceeb1...``."""
        about = "about " if self.size_bytes is None else ""
        size = "size unknown" if self.expected_bytes is None else about + format_bytes(self.expected_bytes)
        if self.likely_md5:
            return f"{size}, probably md5 {self.likely_md5}"
        second = f" or md5 {self.second_md5}" if self.second_md5 else ""
        return f"{size}, {' '.join(self.hash)}{second}" if self.hash else f"{size}, no known hash"


def fetch(
    remote: RemoteFile,
    root: Path,
    *,
    dataset: str,
    mirror: str | None = None,
    check_hash: bool = True,
    accept_terms: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Path:
    """Return the complete, verified local copy of a remote file; download or resume it if it is missing.

    An existing file is returned without being read. Any number of processes may call this at once.

    Args:
        remote: The file to fetch.
        root: The root folder; the file's own folder below it is created if needed.
        dataset: The file's folder at a mirror: ``<mirror>/<dataset>/<name>``.
        mirror: A base URL that is tried first; may contain a login. Default: ``RECORDZOO_MIRROR``, if set.
        check_hash: False accepts any size and content, for an archive that its host re-packed.
        accept_terms: Whether the user accepted the host's terms.
        progress: Shows the work. Default: log lines.
        stop: Lets another thread stop the download.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address has it, or ``RECORDZOO_OFFLINE`` is set. Received bytes are kept and resumed.
        StoppedError: `stop` was set. Received bytes are kept and resumed.
        HashMismatchError: An address sent another file; it is kept as ``<name>.bad-<hash>``.
        DiskSpaceError: The disk is full. Received bytes are kept and resumed.
        PrepareError: It could not be written for another reason.
    """
    target = remote.path(root)
    if target.exists():
        return target
    remote = _with_folder(remote, root)
    found = addresses(remote, root, dataset=dataset, mirror=mirror, accept_terms=accept_terms)
    if settings.offline():
        raise DownloadError(
            f"{target} is not there and RECORDZOO_OFFLINE is set, so it is not downloaded from {found[0]}. Unset it, "
            f"or put the file there ({remote.facts}).",
            path=target,
        )
    # Imported here: they import requests, which callers that only look up paths do not need.
    from recordzoo.net.http import Session
    from recordzoo.net.transfer import Transfer

    size, expected, md5 = (remote.size_bytes, remote.hash, remote.second_md5) if check_hash else (None, None, None)
    with Session() as session, _begun(target, expected[0] if expected else None) as part:
        crash_points.crash_point("download.claimed")
        telling = progress or LogProgress()
        transfer = Transfer(target, part, session, telling, size, expected, md5, remote.instructions, stop)
        transfer.run(found)
    return target


def _begun(target: Path, algorithm: str | None) -> PartialFile:
    """Create the folder, and take over or start its part file."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return PartialFile(target, algorithm)
    except OSError as err:
        kind = DiskSpaceError if err.errno in NO_ROOM else PrepareError
        raise kind(
            f"{target} cannot be written: {err.strerror}. Make room or pass a root that may be written to; or put the "
            "file there by other means.",
            path=target,
        ) from err


def unfinished(target: Path) -> list[Path]:
    """List the abandoned leftovers of interrupted downloads of a file: parts and the small files beside them."""
    return leftovers(target)


def addresses(
    remote: RemoteFile, root: Path, *, dataset: str, mirror: str | None = None, accept_terms: bool = False
) -> list[Address]:
    """List the addresses of a file; takes the arguments of `fetch`.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address is known; the text gives the known facts.
    """
    remote, target = _with_folder(remote, root), remote.path(root)
    mirror = mirror or settings.mirror()
    urls = list(remote.urls) if accept_terms or not remote.needs_terms else []
    if mirror:
        urls.insert(0, f"{mirror.rstrip('/')}/{urllib.parse.quote(dataset)}/{urllib.parse.quote(remote.name)}")
    if urls:
        return [Address.parse(url) for url in urls]
    place = f"recordzoo looks for it at {target} ({remote.facts})."
    if remote.needs_terms:
        instructions = remote.instructions.rstrip() or (
            f"{remote.name} may be downloaded only after accepting the terms of its host. If you did, pass "
            "accept_terms=True."
        )
        raise TermsError(f"{instructions}\n{place}", path=target)
    instructions = remote.instructions.rstrip()
    if not instructions:
        raise DownloadError(f"No address of {remote.name} is known; set RECORDZOO_MIRROR.\n{place}", path=target)
    raise DownloadError(f"{remote.name} must be downloaded by hand.\n{instructions}\n{place}", path=target)


def _with_folder(remote: RemoteFile, root: Path) -> RemoteFile:
    folder = quote(str(remote.path(root).parent))
    placed = remote.instructions.replace("{folder}", folder).replace("{root}", quote(str(root)))
    placed = placed.replace("{recordzoo}", command())
    return replace(remote, instructions=placed)
