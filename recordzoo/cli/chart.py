"""A bar chart as text."""

import shutil
import sys
from collections.abc import Sequence

from recordzoo.base.text import clean, display_width, shorten

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_PLAIN = "#"
_MOST_NAME = 40  # columns of a name, and never more than a third of the width


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
    """Cut the end of a text off, so that it takes so many columns at most."""
    while text and display_width(text) > columns - 4:
        text = text[: -max(1, (display_width(text) - columns) // 2)]
    return f"{text.rstrip()} ..."


def terminal_width() -> int:
    """Return the width of the terminal that stdout goes to; 80 columns where it goes elsewhere."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where the shell closed it: >&-
    return shutil.get_terminal_size((80, 24)).columns if is_terminal else 80


def encodable(text: str) -> str:
    """Escape what the encoding of stdout does not have, before it is known how wide the text is."""
    return text.encode(_encoding(), "backslashreplace").decode(_encoding())


def has_blocks() -> bool:
    """Whether the encoding of stdout has block characters."""
    return encodable(_EIGHTHS) == _EIGHTHS


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "ascii"


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - display_width(text))


def _bar(count: int, most: int, room: int, blocks: bool) -> str:
    if not count:
        return ""
    if not blocks:
        return _PLAIN * max(1, round(count * room / most))
    eighths = max(1, round(count * room * 8 / most))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
