"""A bar chart as an image: a group of bars for each loader, the numbers written at their ends."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, PngImagePlugin

from recordzoo.base import durable
from recordzoo.preview.captions import Font, cut, drawable, load_font

_SCALE = 2  # pixels a point, for screens with many
_WIDTH, _MARGIN, _GAP = 840, 24, 12
_BAR, _BAR_GAP, _GROUP_GAP = 16, 3, 12
_MOST_LABEL = 260
_TITLE, _TEXT = 20, 13  # font sizes
_INK, _PALE, _PAPER, _AXIS = "#18181b", "#6b7280", "#ffffff", "#d4d4d8"
_OURS, _OTHERS = ("#0d9488", "#99d5cf"), ("#8b8f98", "#cfd2d8")
"""Colours of the first and the second series."""


@dataclass(frozen=True)
class Group:
    """The bars of one loader: a number for each series (None: no bar), and a note after the first number."""

    label: str
    values: Sequence[float | None]
    note: str = ""
    is_ours: bool = False


def draw_chart(groups: Sequence[Group], title: str, subtitle: str = "", series: Sequence[str] = ()) -> Image.Image:
    """Draw horizontal bars under a heading; `series` are the names of the bars of a group, at most two."""
    return _Chart(groups, title, subtitle, series).image


def write_chart(path: Path, chart: Image.Image) -> None:
    """Write a chart as a small PNG, in one rename."""
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", "recordzoo bench")
    buffer = io.BytesIO()
    chart.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True, pnginfo=info)
    durable.replace_file(path, buffer.getvalue())


class _Chart:
    """The canvas while it is drawn on; all numbers are in points."""

    def __init__(self, groups: Sequence[Group], title: str, subtitle: str, series: Sequence[str]) -> None:
        self._text, self._title = load_font(_TEXT * _SCALE), load_font(_TITLE * _SCALE)
        num_bars = max((len(group.values) for group in groups), default=1)
        self._group_height = num_bars * (_BAR + _BAR_GAP) - _BAR_GAP
        top = _MARGIN + 28 + (20 if subtitle else 0) + (22 if series else 0) + 10
        height = top + len(groups) * (self._group_height + _GROUP_GAP) - _GROUP_GAP + _MARGIN
        self.image = Image.new("RGB", (_WIDTH * _SCALE, height * _SCALE), _PAPER)
        self._draw = ImageDraw.Draw(self.image)
        self._write(_MARGIN, _MARGIN + 10, title, self._title)
        if subtitle:
            self._write(_MARGIN, _MARGIN + 36, subtitle, self._text, _PALE)
        if series:
            self._draw_legend(series, top - 22)
        self._draw_groups(groups, top)

    def _draw_legend(self, series: Sequence[str], middle: int) -> None:
        left = float(_MARGIN)
        for name, ours, others in zip(series, _OURS, _OTHERS, strict=False):
            self._box(left, middle - 5, 10, 10, ours)
            self._box(left + 12, middle - 5, 10, 10, others)
            self._write(left + 28, middle, name, self._text, _PALE)
            left += 28 + self._width(name) + 24

    def _draw_groups(self, groups: Sequence[Group], top: int) -> None:
        labels = [cut(drawable(g.label, self._text), _MOST_LABEL, self._width) for g in groups]
        start = _MARGIN + max(map(self._width, labels), default=0) + _GAP
        ends = [[_ending(g, number) for number in range(len(g.values))] for g in groups]
        room = _WIDTH - _MARGIN - start - 8 - max((self._width(text) for texts in ends for text in texts), default=0)
        most = max((value or 0 for g in groups for value in g.values), default=0) or 1
        self._box(start - 1, top - 6, 1, len(groups) * (self._group_height + _GROUP_GAP), _AXIS)
        for row, (group, label, texts) in enumerate(zip(groups, labels, ends, strict=True)):
            down = top + row * (self._group_height + _GROUP_GAP)
            middle = down + self._group_height / 2
            self._write(start - _GAP - self._width(label), middle, label, self._text)
            for number, (value, text) in enumerate(zip(group.values, texts, strict=True)):
                at = down + number * (_BAR + _BAR_GAP)
                length = room * (value or 0) / most
                self._box(start, at, length, _BAR, (_OURS if group.is_ours else _OTHERS)[number])
                self._write(start + length + 8, at + _BAR / 2, text, self._text, _PALE if number else _INK)

    def _box(self, left: float, top: float, width: float, height: float, colour: str) -> None:
        right, bottom = (left + width) * _SCALE - 1, (top + height) * _SCALE - 1
        if width > 0 and height > 0:
            self._draw.rectangle((left * _SCALE, top * _SCALE, max(right, left * _SCALE), bottom), fill=colour)

    def _write(self, left: float, middle: float, text: str, font: Font, colour: str = _INK) -> None:
        """Write a line of text around its middle."""
        text = cut(drawable(text, font), (_WIDTH - _MARGIN - left) * _SCALE, font.getlength)
        height = font.getbbox("0")[1] + font.getbbox("0")[3]
        self._draw.text((left * _SCALE, middle * _SCALE - height / 2), text, colour, font)

    def _width(self, text: str) -> int:
        return math.ceil(self._text.getlength(text) / _SCALE)


def _ending(group: Group, number: int) -> str:
    value = group.values[number]
    text = "-" if value is None else f"{value:,.0f}"
    return f"{text}   {group.note}" if group.note and not number else text
