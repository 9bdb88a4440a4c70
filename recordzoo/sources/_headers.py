"""What the headers of an answer say, in numbers that a file can have: a server may send anything."""

import re

_MAX_DIGITS = 18
"""More than any file's size has; Python itself refuses to read some thousand digits."""

_CONTENT_RANGE = re.compile(r"bytes\s+([0-9]+)-([0-9]+)/([0-9]+|\*)")
_UNSATISFIED_RANGE = re.compile(r"bytes\s+\*/([0-9]+)")


def count(text: str) -> int | None:
    """Read a number of bytes; None if it is none, or larger than any file."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS else None


def content_range(text: str) -> tuple[int | None, int | None]:
    """Read a Content-Range header: where the body starts, and how long the whole file is; None: not said."""
    if match := _CONTENT_RANGE.fullmatch(text.strip()):
        return count(match[1]), count(match[3])
    match = _UNSATISFIED_RANGE.fullmatch(text.strip())
    return None, count(match[1]) if match else None
