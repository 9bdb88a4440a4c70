"""A remote file becomes a complete, verified local one: resumed after any interruption, from any host that has it.

The states of the file on disk are in docs/decisions/downloads.md: `partial` holds them, `transfer` moves between them,
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
    """A raw file that can be downloaded, and what is known of it.

    Attributes:
        name: What it is called locally, whatever a server calls it.
        urls: Where it is, the best address first. A login (``https://user:password@host/...``) is sent, not shown.
        size_bytes: Its size, if known.
        md5: Its MD5 in hexadecimal, if known.
        sha256: Its SHA-256 in hexadecimal, if known; compared first. A file with another one may have the MD5 instead.
        unconfirmed: Whether the MD5 may be wrong: it refuses no file.
        needs_terms: Whether its `urls` (not a mirror) may be used only after accepting the host's terms.
        instructions: A numbered recipe for people who must fetch it by hand. ``{folder}`` in it stands for the folder
            that the file goes to, ``{root}`` for the root above it, both quoted for a shell; ``{recordzoo}`` for the
            command line's name.
        folder: The folder that the file goes to, relative to the root; "" for the root itself.
        optional: Whether records are also made without it, as far as that goes.
        about_bytes: Its approximate size, where only that is known; nothing is compared with it.

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
        """Return where the file is, or goes to, under a root."""
        return root / self.folder / self.name

    @property
    def hash(self) -> tuple[str, str] | None:
        """The algorithm and the digest that the file must have; None if no certain digest is known."""
        if self.sha256:
            return "sha256", self.sha256.lower()
        return ("md5", self.md5.lower()) if self.md5 and not self.unconfirmed else None

    @property
    def second_md5(self) -> str | None:
        """The MD5 that a file of another SHA-256 may have instead: sources of the two need not mean the same bytes."""
        return self.md5.lower() if self.md5 and self.sha256 and not self.unconfirmed else None

    @property
    def likely_md5(self) -> str | None:
        """The unconfirmed MD5, where no other digest is known."""
        return self.md5.lower() if self.md5 and self.unconfirmed and not self.sha256 else None

    @property
    def expected_bytes(self) -> int | None:
        """Its size, exact or about; None if neither is known."""
        return self.about_bytes if self.size_bytes is None else self.size_bytes

    @property
    def facts(self) -> str:
        """Size and hash for people: ``1.15 GB, md5 97eceeb1...``."""
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
    """Return the local copy of a remote file, complete and verified; download or resume it if it is not there.

    A file that is there already is returned untouched and unread. Any number of processes may do this at once.

    Args:
        remote: What to fetch.
        root: Where to, into the file's own folder; that is made if need be.
        dataset: Its folder at a mirror: ``<mirror>/<dataset>/<name>``.
        mirror: A base URL tried first, with a login if need be; None: that of ``RECORDZOO_MIRROR``, if set.
        check_hash: False takes any size and content, for an archive that its host re-packed.
        accept_terms: Whether the user accepted the host's terms.
        progress: What is told of the work; None: a log line now and then.
        stop: By which another thread can end it.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address gave it, or ``RECORDZOO_OFFLINE`` is set. What was received is kept and resumed.
        StoppedError: It was told to end by `stop`. What was received is kept and resumed.
        HashMismatchError: An address gave another file; it is kept under ``<name>.bad-<hash>``.
        DiskSpaceError: There is no room left for it. What was received is kept and resumed.
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
    # They import requests, which what only asks where a file is does not need.
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
    """Make the folder, and claim or begin the unfinished file in it."""
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
    """List what interrupted downloads of a file left and nobody works on: parts, and the small files beside them."""
    return leftovers(target)


def addresses(
    remote: RemoteFile, root: Path, *, dataset: str, mirror: str | None = None, accept_terms: bool = False
) -> list[Address]:
    """List where a file may be downloaded from; the arguments are those of `fetch`.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address is known; the text says what is.
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
