"""The contact sheet: images in rows under a heading, each with its captions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

from recordzoo.preview.captions import Font, cut, drawable, load_font, wrap

BOX = (180, 180)
"""Width and height of an image's box."""

MAX_COLUMNS = 8
_MARGIN, _GAP = 24, 16
_MIN_WIDTH = 400  # so that the heading of a single image can be read
_TITLE, _SUBTITLE, _CAPTION, _DETAIL = 20, 13, 13, 11  # font sizes
_INK, _PALE, _PAPER, _PLACE = "#18181b", "#6b7280", "#ffffff", "#f4f4f5"
_LONGEST = 500
_CROSS, _WRONG = "#e5b4b4", "#fdf3f3"


@dataclass(frozen=True)
class Cell:
    """One image of a sheet, RGB and no larger than `BOX`, with a caption and smaller lines; None with the reason."""

    image: Image.Image | None
    caption: str = ""
    details: Sequence[str] = ()
    reason: str = ""


def draw_sheet(
    cells: Sequence[Cell], title: str, subtitle: str = "", *, columns: int | None = None, font: Path | None = None
) -> Image.Image:
    """Draw a contact sheet; the same arguments give the same pixels.

    Args:
        columns: By default as many as make the sheet somewhat wider than high, at most `MAX_COLUMNS`.
        font: A font file for names that are not in Latin letters.

    Raises:
        ArgumentError: The font cannot be read.
    """
    sheet = _Sheet(cells, columns, font)
    sheet.write_heading(title, subtitle)
    for number, cell in enumerate(cells):
        sheet.draw_cell(number, cell)
    return sheet.image


def columns_for(count: int) -> int:
    """Choose the number of columns that fills the last row best."""
    if count <= 4:
        return max(1, count)
    ideal = min(MAX_COLUMNS, math.ceil(math.sqrt(count * 1.4)))
    near = range(max(3, ideal - 2), min(MAX_COLUMNS, ideal + 1) + 1)
    return min(near, key=lambda columns: (-count % columns, abs(columns - ideal)))


class _Sheet:
    """The canvas while it is drawn on."""

    def __init__(self, cells: Sequence[Cell], columns: int | None, font: Path | None) -> None:
        sizes = (_TITLE, _SUBTITLE, _CAPTION, _DETAIL)
        self._title, self._subtitle, self._caption, self._detail = (load_font(size, font) for size in sizes)
        self._columns = columns or columns_for(len(cells))
        self._has_caption = any(cell.caption for cell in cells)
        details = max((len(cell.details) for cell in cells), default=0)
        text = (_line(self._caption) if self._has_caption else 0) + details * _line(self._detail)
        self._row = BOX[1] + (4 + text if text else 0) + _GAP
        self._top = _MARGIN + _line(self._title) + _line(self._subtitle) + _GAP
        width = self._columns * (BOX[0] + _GAP) - _GAP
        self._width = max(width, _MIN_WIDTH)
        rows = math.ceil(len(cells) / self._columns)
        height = self._top + rows * self._row - _GAP + _MARGIN
        self.image = Image.new("RGB", (self._width + 2 * _MARGIN, height), _PAPER)
        self._draw = ImageDraw.Draw(self.image)

    def write_heading(self, title: str, subtitle: str) -> None:
        self._write((_MARGIN, _MARGIN - 4), title, self._title, _INK, self._width)
        self._write((_MARGIN, _MARGIN + _line(self._title)), subtitle, self._subtitle, _PALE, self._width)

    def draw_cell(self, number: int, cell: Cell) -> None:
        left = _MARGIN + number % self._columns * (BOX[0] + _GAP)
        top = self._top + number // self._columns * self._row
        if cell.image is None:
            self._draw_crossed_box(left, top, cell.reason)
        else:
            self._draw.rectangle((left, top, left + BOX[0] - 1, top + BOX[1] - 1), fill=_PLACE)
            inset = ((BOX[0] - cell.image.width) // 2, (BOX[1] - cell.image.height) // 2)
            self.image.paste(cell.image, (left + inset[0], top + inset[1]))
        down = top + BOX[1] + 4
        if self._has_caption:
            self._write((left, down), cell.caption, self._caption, _INK, BOX[0])
            down += _line(self._caption)
        for detail in cell.details:
            self._write((left, down), detail, self._detail, _PALE, BOX[0])
            down += _line(self._detail)

    def _draw_crossed_box(self, left: int, top: int, reason: str) -> None:
        right, bottom = left + BOX[0] - 1, top + BOX[1] - 1
        self._draw.rectangle((left, top, right, bottom), fill=_WRONG, outline=_CROSS)
        self._draw.line((left, top, right, bottom), fill=_CROSS)
        self._draw.line((left, bottom, right, top), fill=_CROSS)
        lines = wrap(drawable(reason, self._detail), BOX[0] - 40, 5, self._detail.getlength)
        height = _line(self._detail)
        down = top + (BOX[1] - len(lines) * height) // 2
        for line in lines:
            width = math.ceil(self._detail.getlength(line))
            start = left + (BOX[0] - width) // 2
            self._draw.rectangle((start - 4, down - 2, start + width + 4, down + height - 2), fill=_WRONG)
            self._draw.text((start, down), line, _INK, self._detail)
            down += height

    def _write(self, at: tuple[int, int], text: str, font: Font, colour: str, max_width: int) -> None:
        text = drawable(cut(text, _LONGEST, len), font)  # names of 60,000 characters exist
        self._draw.text(at, cut(text, max_width, font.getlength), colour, font)


def _line(font: Font) -> int:
    """Return the height of a line of text."""
    return math.ceil(font.getbbox("Ag")[3] * 1.3)
