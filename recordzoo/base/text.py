"""Text: decode files, escape it for a terminal, measure it in columns."""

import unicodedata
from collections.abc import Sequence

from recordzoo.errors import SourceError


def text_of(data: bytes, name: str) -> str:
    """Decode a text file as UTF-8.

    Args:
        data: The file's content.
        name: The file's name in the message.

    Raises:
        SourceError: It is not UTF-8; the message names the line.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as err:
        raise no_text(err, name) from err


def no_text(err: UnicodeDecodeError, name: str) -> SourceError:
    """Return the error for a file that cannot be decoded; it names the line and the byte."""
    before = err.object[: err.start]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return SourceError(
        f"{name}, line {line}: byte {column} (0x{err.object[err.start]:02x}) is not {err.encoding.upper()}. Get the "
        "file again, or save it in that encoding.",
        lines=[line],
    )


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


def display_width(text: str) -> int:
    """Return the width of a text in terminal columns: two for a Chinese character, none for an accent."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, columns: int) -> str:
    """Shorten a text to `columns` by cutting its middle."""
    if display_width(text) <= columns:
        return text
    start, end = "", ""
    for head, tail in zip(text, reversed(text), strict=True):
        if display_width(start + head + end) + 3 > columns:
            break
        start += head
        if display_width(start + tail + end) + 3 > columns:
            break
        end = tail + end
    return f"{start}...{end}"
