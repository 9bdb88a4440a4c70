"""A contact sheet of each dataset's fake: pictures that code made, in the dataset's layout."""

import functools
import io
from dataclasses import dataclass
from html import escape

from PIL import Image, ImageOps

from docs.parts.fakes import are_wanted, seen
from recordzoo import catalogue
from recordzoo.errors import ArgumentError
from recordzoo.preview.choose import choose, picture_field
from recordzoo.preview.labels import load_labels
from recordzoo.preview.sheet import BOX, Cell, draw_sheet
from recordzoo.preview.thumbnail import make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.reader import RecordReader

LABEL = "generated pictures in this dataset's layout, not its images"
_NUMBER, _COLUMNS = 8, 4
_QUALITIES = (70, 45, 20)  # of WebP, until a sheet is small; noise, of which some fakes are made, takes most
_MOST_BYTES = 40_000


@dataclass(frozen=True)
class Sheet:
    """A WebP file, and its width and height."""

    data: bytes
    size: tuple[int, int]


def address(name: str) -> str:
    """Return where a dataset's sheet lies, relative to the root of the site."""
    return f"datasets/{name}.webp"


def picture(name: str, up: str = "") -> str:
    """Return the HTML that shows a dataset's sheet; `up` leads to the root of the site. Nothing where there is none."""
    made = sheet(name) if are_wanted() else None
    if made is None:
        return ""
    width, height = made.size
    text = escape(alternative(name))
    return f'<img src="{up}{address(name)}" alt="{text}" width="{width}" height="{height}" loading="lazy">'


def alternative(name: str) -> str:
    """Return the text that stands for a dataset's sheet."""
    return f"Contact sheet of {catalogue.entry(name).title}: {LABEL}"


@functools.cache
def sheet(name: str) -> Sheet | None:
    """Draw the sheet of a dataset's fake; None if its records are no pictures."""
    reader = seen(name).record_set  # before `quiet`, whose lock the preparation takes
    try:
        picture_field(reader)
    except ArgumentError:
        return None
    with quiet():
        image = draw_sheet(_cells(reader), catalogue.entry(name).title, LABEL, columns=_COLUMNS)
    data = (_encoded(image, quality) for quality in _QUALITIES)
    return Sheet(next((each for each in data if len(each) <= _MOST_BYTES), _encoded(image, 0)), image.size)


def _encoded(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "WEBP", quality=quality, method=6)
    return file.getvalue()


def _cells(reader: RecordReader) -> list[Cell]:
    field = picture_field(reader)
    labels = load_labels(reader)
    found = reader.split("")
    cells = []
    choice = choose(reader, field, found, labels, order="class", number=2 * _NUMBER, seed=0)
    for position in choice.positions:
        thumbnail = make_thumbnail(reader, field, position, BOX, labels, enlarge=False)
        if thumbnail.image is None or len(cells) == _NUMBER:
            continue  # fakes have broken images, too
        cells.append(Cell(ImageOps.contain(thumbnail.image, BOX), thumbnail.title))
    return cells
