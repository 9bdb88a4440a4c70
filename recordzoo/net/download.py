"""`RemoteFile`: a raw file that can be downloaded, and its addresses."""

import urllib.parse
from dataclasses import dataclass, replace
from pathlib import Path

from recordzoo.base import settings
from recordzoo.base.addresses import Address
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.errors import ArgumentError, DownloadError, TermsError
from recordzoo.system.names import quote


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


def addresses(
    remote: RemoteFile, root: Path, *, dataset: str, mirror: str | None = None, accept_terms: bool = False
) -> list[Address]:
    """List the addresses of a file; takes the arguments of `transfer.fetch`.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address is known; the text gives the known facts.
    """
    remote, target = with_folder(remote, root), remote.path(root)
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


def with_folder(remote: RemoteFile, root: Path) -> RemoteFile:
    """Fill in the placeholders of the instructions."""
    folder = quote(str(remote.path(root).parent))
    placed = remote.instructions.replace("{folder}", folder).replace("{root}", quote(str(root)))
    placed = placed.replace("{recordzoo}", command())
    return replace(remote, instructions=placed)
