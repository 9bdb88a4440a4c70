"""Tables, charts and lines that fit a terminal: long lines are wrapped at words."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from recordzoo.base.text import clean, display_width, shorten

FIXED_SPACE = "\N{NO-BREAK SPACE}"
"""A space at which a cell is not wrapped; printed as a plain space."""

_GAP = 2
_KEY = re.compile(r" *[\w ]+: +")
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MOST_NAME = 40  # columns of a name in a chart, and never more than a third of the width


def wrapping_width() -> int | None:
    """Return the maximum width of lines: the terminal's; None elsewhere, where programs read the lines."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where the shell closed it: >&-
    return shutil.get_terminal_size((80, 24)).columns if is_terminal else None


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Format rows as columns under a header.

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
    """Wrap the lines of a text at words; the text after "key: " stays in its own column."""
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
    """Narrow the widest columns, one character at a time, until the table fits."""
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
        gap.join(_padded(text, width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*padded, strict=True)
    ]


def bar_chart(rows: Sequence[tuple[str, int]], width: int, *, blocks: bool = True) -> list[str]:
    """Draw a bar for each row of a name and a number, one line each.

    Args:
        rows: Names, which are cleaned and cut, and numbers of at least 0.
        width: Columns of the terminal.
        blocks: Whether block characters can be shown; otherwise bars are of "#".
    """
    most = max((count for _, count in rows), default=0)
    names = [shorten(clean(name), min(_MOST_NAME, width // 3)) for name, _ in rows]
    name_width = max(map(display_width, names), default=0)
    number_width = len(f"{most:,}")
    room = max(1, width - name_width - number_width - 4)
    return [
        f"{_padded(name, name_width)}  {count:>{number_width},}  {_bar(count, most, room, blocks)}".rstrip()
        for name, (_, count) in zip(names, rows, strict=True)
    ]


def shorten_end(text: str, columns: int) -> str:
    """Cut off the end of a text that is wider than `columns`."""
    while text and display_width(text) > columns - 4:
        text = text[: -max(1, (display_width(text) - columns) // 2)]
    return f"{text.rstrip()} ..."


def encodable(text: str) -> str:
    """Escape characters that stdout's encoding lacks, before the text is measured."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def has_blocks() -> bool:
    """Whether the encoding of stdout has block characters."""
    return encodable(_EIGHTHS) == _EIGHTHS


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - display_width(text))


def _bar(count: int, most: int, room: int, blocks: bool) -> str:
    if not count:
        return ""
    if not blocks:
        return "#" * max(1, round(count * room / most))
    eighths = max(1, round(count * room * 8 / most))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
