"""`Url`: an address that fsspec reaches. `RemoteFile`: a raw file, and the addresses from which it can be downloaded.

The shown and pickled forms of a `Url` omit login and signature.

A login or query that was given once holds for everything below that address, in this process and in processes forked
from it. A spawned process does not get it: it needs fsspec's configuration or the environment.
"""

import os
import re
import urllib.parse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from recordzoo.base import settings
from recordzoo.base.progress import format_bytes
from recordzoo.base.settings import command
from recordzoo.base.text import Address, public_url, quote, shown
from recordzoo.errors import ArgumentError, DownloadError, TermsError

_FORM = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_CHAIN = re.compile(r"[a-z][a-z0-9+.-]*(://[^:\[]*)?::", re.IGNORECASE)  # fsspec's chains; "[" begins an IPv6 host
_COLLAPSED = re.compile(
    r"([a-z0-9+.-]+::)*((s3|gs|gcs|az|abfss?|hf|https?|memory|mongodb(\+srv)?):[/\\](?![/\\])|"
    r"[a-z0-9+.-]{2,}:[/\\][^/\\]*@)",
    re.IGNORECASE,
)
_USER_IS_SECRET = ("http", "https", "ftp", "webhdfs")
"""In other schemes a name before "@" without a password is no secret: Azure writes its container there."""

WITHOUT_SERVER = ("file", "local", "memory")
"""Schemes of this machine. In others "?" begins a query, such as a signature."""

_secrets: dict[str, tuple[str, str]] = {}  # public address → login with its "@", query with its "?"


def is_url(text: object) -> "TypeGuard[str | Url]":
    """Whether something is a URL and not a path.

    Raises:
        ArgumentError: It is a URL that went through `Path`, which removes one of its slashes.
    """
    if isinstance(text, Url):
        return True
    if isinstance(text, os.PathLike) and _COLLAPSED.match(found := os.fspath(text)):
        raise ArgumentError(f"{shown(found)!r} was a URL before it became a Path. Pass the URL as a string.")
    return isinstance(text, str) and (_FORM.fullmatch(text) or _is_chain(text)) is not None


def _is_chain(text: str) -> "re.Match[str] | None":
    return _CHAIN.match(text) if "://" in text else None


@dataclass(frozen=True, slots=True)
class Url:
    """The address of a file or folder; `str()` omits login and query.

    Attributes:
        public: The address that may be shown; it does not end in a slash.
    """

    public: str
    _login: str = field(default="", repr=False, compare=False)
    _query: str = field(default="", repr=False, compare=False)

    @classmethod
    def parse(cls, text: "str | Url") -> "Url":
        """Parse an address.

        Raises:
            ArgumentError: The text is not an address.
        """
        if isinstance(text, Url):
            return text
        if _is_chain(text):
            raise ArgumentError(
                f"{shown(text)!r} is a chain of file systems. Give the last address alone: recordzoo has its own cache."
            )
        if not _FORM.fullmatch(text):
            raise ArgumentError(f"{shown(text)!r} is no URL, such as s3://bucket/folder.")
        scheme, _, rest = text.partition("://")
        place = public_url(f"{scheme}://{rest}").partition("://")[2]
        login = rest[: len(rest) - len(place)]
        if login and ":" not in login and scheme.lower() not in _USER_IS_SECRET:
            login, place = "", rest
        takes_any_name = scheme.lower() in WITHOUT_SERVER
        place, mark, query = (place, "", "") if takes_any_name else place.partition("?")
        public = f"{scheme.lower()}://{place.rstrip('/')}"
        if login or query:
            _secrets[public] = login, mark + query
        return cls(public, *_known_secret(public))

    @property
    def scheme(self) -> str:
        """The scheme before "://", in lower case."""
        return self.public.partition("://")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.public.rpartition("/")[2]

    @property
    def parent(self) -> "Url":
        """The parent folder; a bucket or host is its own parent."""
        scheme, _, rest = self.public.partition("://")
        above = rest.rpartition("/")[0] or rest
        return Url(f"{scheme}://{above}", self._login, self._query)

    @property
    def has_query(self) -> bool:
        """Whether the address has a query."""
        return bool(self._query)

    @property
    def full(self) -> str:
        """The address with login and query, for requests; never show, log or store it."""
        scheme, _, rest = self.public.partition("://")
        return f"{scheme}://{self._login}{rest}{self._query}"

    def without_secret(self, text: str) -> str:
        """Remove this address's login and query from a text, such as another package's error."""
        for secret in (self._login, self._query, self._login.rstrip("@"), self._query.lstrip("?")):
            text = text.replace(secret, "") if secret else text
        return text

    def __truediv__(self, name: str) -> "Url":
        slash = "" if self.public.endswith("/") else "/"  # memory://
        return Url(f"{self.public}{slash}{name.strip('/')}", self._login, self._query)

    def __str__(self) -> str:
        return self.public

    def __fspath__(self) -> str:
        """Return the public address, for messages and for names below it; it does not open a file."""
        return self.public

    def __reduce__(self) -> tuple[Any, ...]:
        return Url.parse, (self.public,)


def _known_secret(public: str) -> tuple[str, str]:
    """Return the login and query that were given for an address or one above it."""
    while public.rpartition("/")[0] and not public.endswith("://"):
        if public in _secrets:
            return _secrets[public]
        public = public.rpartition("/")[0]
    return _secrets.get(public, ("", ""))


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
    """List the addresses of a file; takes the arguments of `fetch`.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address is known; the text gives the known facts.
    """
    remote, target = with_folder(remote, root), remote.path(root)
    mirror = settings.mirror(mirror)
    urls = list(remote.urls) if accept_terms or not remote.needs_terms else []
    if mirror:
        urls.insert(0, f"{mirror}/{urllib.parse.quote(dataset)}/{urllib.parse.quote(remote.name)}")
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
