"""Captions: text in the font's characters, cut in the middle to a width."""

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path

from PIL import ImageFont

from recordzoo.base.text import clean
from recordzoo.errors import ArgumentError

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

_NO_CHARACTER = "\uffff"
_CUT = "..."


def load_font(size: int, path: Path | None = None) -> Font:
    """Load a font file, or the font that Pillow carries, which has little more than ASCII.

    Raises:
        ArgumentError: The file is no font.
    """
    if path is None:
        return ImageFont.load_default(size)
    try:
        return ImageFont.truetype(str(path), size)
    except OSError as err:
        raise ArgumentError(f"--font {path} is no font that can be read: {err}.", path=str(path)) from err


def drawable(text: str, font: Font) -> str:
    """Return a text that the font can draw: control characters escaped, missing accents dropped or escaped.

    >>> drawable("Bubo büho\\n", load_font(12))
    'Bubo buho\\\\n'
    """
    return "".join(_drawable(character, font) for character in clean(text))


def is_drawable(text: str, font: Font) -> bool:
    """Whether the font has every character of a text."""
    return all(_has(character, font) for character in text)


def _drawable(character: str, font: Font) -> str:
    if _has(character, font):
        return character
    plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    if plain and all(_has(c, font) for c in plain):
        return plain
    return character.encode("unicode_escape").decode("ascii")


@functools.lru_cache(1 << 16)
def _has(character: str, font: Font) -> bool:
    if character.isascii():
        return True
    if not isinstance(font, ImageFont.FreeTypeFont):
        return False
    return bytes(font.getmask(character)) != bytes(font.getmask(_NO_CHARACTER))


def cut(text: str, max_width: float, width: Callable[[str], float]) -> str:
    """Cut a text in the middle to a width; its end is as informative as its start.

    >>> cut("Black_footed_Albatross_0046_18.jpg", 20, len)
    'Black_foo...6_18.jpg'
    """
    if width(text) <= max_width:
        return text
    low, high = 0, len(text)  # how many characters stay
    while low < high:
        kept = (low + high + 1) // 2
        low, high = (kept, high) if width(_shortened(text, kept)) <= max_width else (low, kept - 1)
    return _shortened(text, low)


def _shortened(text: str, kept: int) -> str:
    return text[: (kept + 1) // 2] + _CUT + text[len(text) - kept // 2 :]


def wrap(text: str, max_width: float, max_lines: int, width: Callable[[str], float]) -> list[str]:
    """Break a text into lines at its spaces; the last one is cut if there would be more."""
    lines: list[str] = []
    words = text.split()
    while words and len(lines) < max_lines - 1:
        count = 1
        while count < len(words) and width(" ".join(words[: count + 1])) <= max_width:
            count += 1
        lines.append(cut(" ".join(words[:count]), max_width, width))
        words = words[count:]
    return [*lines, cut(" ".join(words), max_width, width)] if words else lines
