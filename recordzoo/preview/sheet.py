"""The contact sheet: images in rows under a heading, each with its captions."""

import math
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.preview.thumbnail import Thumbnail

BOX = (180, 180)
"""Width and height of an image's box."""

_MOST_COLUMNS = 8
_MARGIN, _GAP, _LINE = 24, 16, 18
_MIN_WIDTH = 400  # so that the heading of a single image can be read
_INK, _PALE, _PAPER, _PLACE = "#18181b", "#6b7280", "#ffffff", "#f4f4f5"
_CROSS, _WRONG = "#e5b4b4", "#fdf3f3"
_LONGEST = 200


def draw_sheet(thumbnails: Sequence[Thumbnail], title: str, subtitle: str = "") -> Image.Image:
    """Draw a contact sheet; the same arguments give the same pixels.

    Below each image are its class, its name, and its dimensions with its bytes. One that cannot be shown is a crossed
    box with the reason. Pillow's font has little more than ASCII: other characters are escaped.

    Args:
        thumbnails: At least one; no larger than `BOX`.
    """
    large, small = ImageFont.load_default(20), ImageFont.load_default(12)
    captions = [_captions(each) for each in thumbnails]
    columns = min(_MOST_COLUMNS, math.ceil(math.sqrt(len(thumbnails) * 1.4)))  # somewhat wider than high
    row = BOX[1] + max(map(len, captions)) * _LINE + _GAP
    top = _MARGIN + 3 * _LINE
    width = max(columns * (BOX[0] + _GAP) - _GAP, _MIN_WIDTH)
    height = top + math.ceil(len(thumbnails) / columns) * row + _MARGIN - _GAP
    sheet = Image.new("RGB", (width + 2 * _MARGIN, height), _PAPER)
    draw = ImageDraw.Draw(sheet)

    def write(left: int, down: int, text: str, font: Any, colour: str, room: int) -> None:  # Any: either font of Pillow
        text = drawable(cut(text, _LONGEST, len))  # names of 60,000 characters exist
        draw.text((left, down), cut(text, room, font.getlength), colour, font)

    write(_MARGIN, _MARGIN - 4, title, large, _INK, width)
    write(_MARGIN, _MARGIN + 24, subtitle, small, _PALE, width)
    for number, (thumbnail, lines) in enumerate(zip(thumbnails, captions, strict=True)):
        left, down = _MARGIN + number % columns * (BOX[0] + _GAP), top + number // columns * row
        right, bottom = left + BOX[0] - 1, down + BOX[1] - 1
        if thumbnail.image is None:
            draw.rectangle((left, down, right, bottom), fill=_WRONG, outline=_CROSS)
            draw.line((left, down, right, bottom), fill=_CROSS)
            draw.line((left, bottom, right, down), fill=_CROSS)
            for index, text in enumerate(textwrap.wrap(drawable(cut(thumbnail.reason, _LONGEST, len)), 22)[:5]):
                at = left + BOX[0] // 2, down + 60 + index * _LINE
                draw.text(at, text, _INK, small, anchor="mm", stroke_width=3, stroke_fill=_WRONG)
        else:
            draw.rectangle((left, down, right, bottom), fill=_PLACE)
            inset = (BOX[0] - thumbnail.image.width) // 2, (BOX[1] - thumbnail.image.height) // 2
            sheet.paste(thumbnail.image, (left + inset[0], down + inset[1]))
        for index, text in enumerate(lines):
            write(left, bottom + 4 + index * _LINE, text, small, _PALE if index else _INK, BOX[0])
    return sheet


def _captions(thumbnail: Thumbnail) -> list[str]:
    size = "" if thumbnail.size is None else f"{thumbnail.size[0]:,} x {thumbnail.size[1]:,}, "
    lines = [thumbnail.short_name, f"{size}{format_bytes(thumbnail.num_bytes)}"]
    return lines if thumbnail.label is None else [thumbnail.class_name, *lines]


def drawable(text: str) -> str:
    """Return a text in ASCII: accents are dropped, other characters escaped.

    >>> drawable("Bubo büho\n")
    'Bubo buho\\n'
    """
    decomposed = unicodedata.normalize("NFKD", clean(text))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return plain.encode("ascii", "backslashreplace").decode("ascii")


def cut(text: str, max_width: float, width: Callable[[str], float]) -> str:
    """Cut a text in the middle to a width; its end is as informative as its start.

    >>> cut("Black_footed_Albatross_0046_18.jpg", 20, len)
    'Black_foo...6_18.jpg'
    """
    kept = len(text)
    while kept and width(_shortened(text, kept)) > max_width:
        kept -= 1
    return _shortened(text, kept)


def _shortened(text: str, kept: int) -> str:
    """Keep so many characters, from both ends."""
    return text if kept == len(text) else text[: (kept + 1) // 2] + "..." + text[len(text) - kept // 2 :]
