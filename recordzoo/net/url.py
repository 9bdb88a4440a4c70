"""`Url`: an address of a file or folder that fsspec reaches. Its shown and pickled forms omit login and signature.

A login or query that was given once holds for everything below that address, in this process and in processes forked
from it. A spawned process does not get it: it needs fsspec's configuration or the environment.
"""

import os
import re
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from recordzoo.base.text import public_url, shown
from recordzoo.errors import ArgumentError

_FORM = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_CHAIN = re.compile(r"[a-z][a-z0-9+.-]*(://[^:]*)?::", re.IGNORECASE)  # fsspec's chains of file systems
_COLLAPSED = re.compile(
    r"([a-z0-9+.-]+::)*((s3|gs|gcs|az|abfss?|hf|https?|memory|mongodb(\+srv)?):[/\\](?![/\\])|"
    r"[a-z0-9+.-]{2,}:[/\\][^/\\]*@)",
    re.IGNORECASE,
)
_USER_IS_SECRET = ("http", "https", "ftp", "webhdfs")
"""In other schemes a name before "@" without a password is no secret: Azure writes its container there."""

_NAMES_TAKE_QUESTION_MARKS = ("file", "local", "memory")
"""In other schemes "?" begins a query, such as a signature."""

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
        takes_any_name = scheme.lower() in _NAMES_TAKE_QUESTION_MARKS
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
