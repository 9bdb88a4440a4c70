"""Tables and lines that fit a terminal: what is too wide is wrapped at words."""

import re
import sys
import textwrap
from collections.abc import Iterable, Sequence

from recordzoo.base.text import display_width
from recordzoo.cli.chart import terminal_width

FIXED_SPACE = "\N{NO-BREAK SPACE}"
"""In a cell: a space at which it is not wrapped. It is printed as a plain one."""

_GAP = 2
_KEY = re.compile(r" *[\w ]+: +")


def wrapping_width() -> int | None:
    """Return how wide lines for people may be: the terminal's width; None elsewhere, where programs read lines."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal_width() if is_terminal else None


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Lay rows out in columns under a head.

    Args:
        head: The columns' names.
        rows: A cell for each column.
        width: Wrap cells so that lines are no longer than this, as far as their words allow; None for no limit.
    """
    lines = [head, *rows]
    widths = [max(display_width(line[i]) for line in lines) for i in range(len(head))]
    if width is not None:
        floors = [max(_longest_word(line[i]) for line in lines) for i in range(len(head))]
        widths = _narrowed(widths, floors, width - _GAP * (len(head) - 1))
    return "\n".join(text for line in lines for text in _row(line, widths)).replace(FIXED_SPACE, " ")


def wrapped(text: str, width: int | None = None) -> str:
    """Wrap the lines of a text at words; what follows "key: " stays in a column of its own."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _wrapped_line(line, width))


def _wrapped_line(line: str, width: int) -> list[str]:
    if display_width(line) <= width:
        return [line]
    key = _KEY.match(line)
    indent = len(key[0]) if key else len(line) - len(line.lstrip()) + _GAP
    return _wrap(line, width, " " * indent)


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def _longest_word(cell: str) -> int:
    start = len(cell) - len(cell.lstrip(" "))
    return start + max(map(display_width, cell.split(" ")), default=0)


def _narrowed(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Take columns from the widest that may still lose some, one by one, until all fit."""
    found = list(widths)
    while sum(found) > room:
        wide = [i for i, width in enumerate(found) if width > floors[i]]
        if not wide:
            break
        found[max(wide, key=lambda i: found[i])] -= 1
    return found


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [
        _wrap(cell, width) if display_width(cell) > width else [cell] for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, columns))
    padded = [[*column, *[""] * (height - len(column))] for column in columns]
    gap = " " * _GAP
    return [
        gap.join(text + " " * (width - display_width(text)) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*padded, strict=True)
    ]
