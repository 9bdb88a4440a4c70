"""Texts that people read or write: names of files, similar words, faults, addresses without their logins, widths."""

import codecs
import contextlib
import difflib
import io
import os
import re
import shlex
import sys
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from recordzoo.errors import ArgumentError, SourceError

WINDOWS: bool = sys.platform == "win32"

PLATFORM: str = sys.platform

_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(\..*)?", re.IGNORECASE | re.DOTALL)
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_PLAIN_WORD = re.compile(r"[\w@+=:,./\\-]+")


def is_device(name: str, *, windows: bool = WINDOWS) -> bool:
    """Whether Windows treats a path as a device: a part is CON, NUL, COM1, ..., with any extension."""
    return windows and any(map(_DEVICE.fullmatch, re.split(r"[/\\]", name)))


def as_file_name(name: str, *, windows: bool = WINDOWS) -> str:
    """Return a valid file name that resembles `name`. POSIX allows any name without "/"."""
    if not windows:
        return name
    name = _FORBIDDEN.sub("_", name).rstrip(". ") or "_"
    return f"_{name}" if is_device(name, windows=True) else name


def no_constant(text: str) -> NoReturn:
    """Raise for NaN or Infinity; the ``parse_constant`` of `json.loads`."""
    raise ValueError(f"{text} is not a number of JSON")


def quote(word: str, *, windows: bool = WINDOWS) -> str:
    """Quote a word of a command line: for a POSIX shell, or for both shells of Windows."""
    if not windows:
        return shlex.quote(word)
    return word if _PLAIN_WORD.fullmatch(word) else f'"{word}"'


_FOLDERS = {
    "state": ("Application Support", "XDG_STATE_HOME", ".local/state"),
    "cache": ("Caches", "XDG_CACHE_HOME", ".cache"),
}


def user_folder(kind: Literal["state", "cache"], platform: str = PLATFORM) -> Path:
    """Return the system's folder for program state or caches: on Linux in XDG_..._HOME, or in ~."""
    in_library, variable, in_home = _FOLDERS[kind]
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / in_library
    folder = os.environ.get(variable, "")
    return Path(folder) if os.path.isabs(folder) else Path.home() / in_home


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` abbreviates or resembles most, ignoring case; None if none is similar.

    Words of up to three letters must have the same first letter: "val" is not a misspelt "all".

    >>> closest("trian", ["train", "val"])
    'train'
    >>> closest("web", ["folder", "webdataset"])
    'webdataset'
    >>> closest("val", ["train", "test", "all"]) is None
    True
    """
    spelt = {name.casefold(): name for name in known}
    begins = [name for name in spelt if len(word) >= 3 and name.startswith(word.casefold())]
    if len(begins) == 1:
        return spelt[begins[0]]
    if len(word) <= 3:
        spelt = {name: known for name, known in spelt.items() if name[:1] == word[:1].casefold()}
    found = difflib.get_close_matches(word.casefold(), spelt, 1, 0.6)
    return spelt[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean train?" with the most similar known word; "" if none is similar."""
    found = closest(word, known)
    return f" Did you mean {found}?" if found is not None else ""


def no_split(owner: str | os.PathLike[str], split: str, known: Iterable[str]) -> ArgumentError:
    """Return the error for a split that a dataset or a record set does not have.

    Args:
        owner: The dataset's name, or the record set's path.
        split: The requested split.
        known: The existing splits.
    """
    names = list(known)
    return ArgumentError(
        f"{os.fspath(owner)} has no split {split!r}; it has {', '.join(names) or 'none'}.{did_you_mean(split, names)}",
        split=split,
        meant=closest(split, names),
    )


# A password should be quoted, but users paste it as it is: after "user:", anything that is not a port is password.
_LOGIN = r"(?P<login>[^/?#{end}]*|[^/?#@:\[\]{end}]*:(?!\d*(?:[/?#{end}]|$))[^{end}]*)@"
_IN_URL = re.compile(r"(?P<scheme>(?:[a-z][a-z0-9+.-]*:)?//)?" + _LOGIN.format(end=r"\n"), re.IGNORECASE)
# One slash: a URL that went through `Path`.
_SCHEME = r"(?P<scheme>[a-z][a-z0-9+.-]+:/{1,2})"
_IN_TEXT = re.compile(_SCHEME + _LOGIN.format(end=r"\s'\""), re.IGNORECASE)
_IN_ADDRESS = re.compile(_SCHEME + _LOGIN.format(end=r"\n"), re.IGNORECASE)
_IS_ADDRESS = re.compile(_SCHEME, re.IGNORECASE)


def public_url(url: str) -> str:
    """Return a URL without its login: ``http://user:secret@host/a`` → ``http://host/a``."""
    match = _IN_URL.match(url)
    return f"{match['scheme'] or ''}{url[match.end() :]}" if match else url


def shown(address: str) -> str:
    """Return a user's address without its logins and its query, which may be a signature. A path stays as it is.

    Chains of file systems are covered: ``zip://a::http://me:secret@host/b?c`` → ``zip://host/b``.
    """
    if not _IS_ADDRESS.search(address):
        return address
    return _IN_ADDRESS.sub(r"\g<scheme>", address).partition("?")[0]


def public_text(text: str, *given: str) -> str:
    """Remove the logins from all URLs in a text, such as the message of another package's error.

    Args:
        text: The text.
        given: Addresses whose queries are removed too. The queries of a dataset's files are not secret.
    """
    for address in given:
        _, mark, query = address.partition("?")
        if query and _IS_ADDRESS.search(address):
            text = text.replace(mark + query, "")
    return _IN_TEXT.sub(r"\g<scheme>", text)


def host(url: str) -> str:
    """Return the host and port of a URL; the URL without its login if it names no host."""
    shown = public_url(url)
    try:
        return urllib.parse.urlsplit(shown).netloc or shown
    except ValueError:  # such as http://[
        return shown


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, and the login to send there.

    Attributes:
        url: Without the login.
        login: User name and password, as HTTP's Basic authentication sends them; None if the URL has none.
    """

    url: str
    login: tuple[bytes, bytes] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Split a URL into its public part and its login."""
        match = _IN_URL.match(url)
        if match is None:
            return cls(url)
        user, _, password = match["login"].partition(":")
        login = urllib.parse.unquote_to_bytes(user), urllib.parse.unquote_to_bytes(password)
        return cls(public_url(url), login if any(login) else None)

    def __str__(self) -> str:
        return self.url


JSON = Any
"""A value from `json.loads`: a dict, a list, a str, an int, a float, a bool or None."""

TrainTest = Literal["train", "test"]
TrainVal = Literal["train", "val"]
TrainValTest = Literal["train", "val", "test"]


_OTHER_MARKS = (  # UTF-32 comes first: one of its marks begins with one of UTF-16's
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def text_of(data: bytes, name: str | os.PathLike[str]) -> str:
    """Decode a text file as UTF-8, without the byte order mark of some editors.

    Args:
        data: The file's content.
        name: The file's name in the message.

    Raises:
        SourceError: It is not UTF-8; the message names the line.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line, problem = encoding_problems(data)[0]
        raise SourceError(
            f"{os.fspath(name)}, line {line}: {problem}. Get the file again, or save it as UTF-8.", lines=[line]
        ) from err


def encoding_problems(data: bytes) -> list[tuple[int, str]]:
    """Say on which lines bytes are not UTF-8; if the file has the mark of another encoding, name that."""
    other = next((encoding for mark, encoding in _OTHER_MARKS if data.startswith(mark)), None)
    if other is not None:
        return [(1, f"the file is {other}")]
    with contextlib.suppress(UnicodeDecodeError):
        data.decode()
        return []
    found = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            line.decode()
        except UnicodeDecodeError as err:
            found.append((number, f"byte {err.start + 1} (0x{line[err.start]:02x}) is not UTF-8"))
    return found


def lines_of(text: str) -> list[str]:
    """Return the lines of a text file as editors and Python's files count them.

    `str.splitlines` would also break lines at form feeds and at separators such as U+2028, which names may have.
    """
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None)]


def clean(text: str) -> str:
    """Escape characters that are invisible or control a terminal: control and direction characters, lone surrogates.

    >>> clean("bird\\x1b[2J.jpg")
    'bird\\\\x1b[2J.jpg'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def name_first(names: Sequence[str], most: int) -> str:
    """List the first names and the number of further ones.

    >>> name_first(["a.jpg", "b.jpg", "c.jpg"], 2)
    'a.jpg, b.jpg and 1 more'
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 image", "2,000 images"; `many` if it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


NUM_SHOWN = 20
"""Number of faults, or of files, that a message names."""

MAX_SHOWN = 400
"""Number of characters of a fault that a message shows."""


class Faults:
    """Collects the faults of a list, or of a directory's annotation files.

    Args:
        path: The list or the directory.
        word: The word for a line in messages: "line" or "row".
        advice: What else can be done.
    """

    def __init__(self, path: Path, word: str = "line", advice: str = "") -> None:
        self._path, self.word, self._advice = path, word, advice
        self.first = 0 if word == "row" else 1
        self._found: list[tuple[int | None, str]] = []

    def add(self, what: str, line: int | None = None) -> None:
        """Add a fault, maybe of a line; a long one, such as one with a cell, is cut."""
        self._found.append((line, shorten(what, MAX_SHOWN)))

    def raise_if_any(self) -> None:
        """Raise an error that names the faults.

        Raises:
            SourceError: There are faults.
        """
        if not self._found:
            return
        found = sorted(dict.fromkeys(self._found), key=lambda fault: fault[0] or 0)
        lines: dict[str, list[str]] = {}
        for line, what in found[:NUM_SHOWN]:
            lines.setdefault(what, []).extend([] if line is None else [str(line)])
        shown = []
        for what, at in lines.items():
            where = f"{self.word}{'s' if len(at) > 1 else ''} {', '.join(at)}: "
            shown.append(where + what if at else what)
        more = f"; and {len(found) - NUM_SHOWN} more" if len(found) > NUM_SHOWN else ""
        raise SourceError(
            f"{self._path} cannot be used: {'; '.join(shown)}{more}.{self._advice}",
            path=str(self._path),
            lines=[line for line, _ in found],
            problems=tuple(what for _, what in found),
        )


def display_width(text: str) -> int:
    """Return the width of a text in terminal columns: two for a Chinese character, none for an accent."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, columns: float, width: Callable[[str], float] = display_width) -> str:
    """Shorten a text to `columns` by cutting its middle: the end of a name tells as much as its start.

    >>> shorten("Black_footed_Albatross_0046_18.jpg", 20)
    'Black_foo...6_18.jpg'

    Args:
        text: The text.
        columns: Maximum width.
        width: Measures a text.
    """
    if width(text) <= columns:
        return text
    start, end = "", ""
    for head, tail in zip(text, reversed(text), strict=True):
        if width(f"{start}{head}...{end}") > columns:
            break
        start += head
        if width(f"{start}...{tail}{end}") > columns:
            break
        end = tail + end
    return f"{start}...{end}"
