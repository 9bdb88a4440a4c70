"""Sheets of real samples, of datasets whose images may be passed on: `docs/samples/`, made by `tools/samples.py`."""

import datetime
import functools
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

from recordzoo.catalogue import entry

FOLDER = Path(__file__).parent.parent / "samples"
MOST = 20
"""A sheet has at most so many samples."""


@dataclass(frozen=True)
class Sheet:
    """A sheet, as `samples.toml` describes it.

    Attributes:
        author: Who made the images.
        license: Under which license they may be passed on.
        license_url: Its text.
        source: The address of the dataset.
        bytes_from: Where the raw files were had.
        date: The day on which the sheet was made.
        split: The split that the samples are from.
        indices: Their places in it, row by row.
        size: Width and height in pixels.
        notice: What the license wants to be passed on with the images.
    """

    author: str
    license: str
    license_url: str
    source: str
    bytes_from: str
    date: datetime.date
    split: str
    indices: tuple[int, ...]
    size: tuple[int, int]
    notice: str


@functools.cache
def sheets() -> dict[str, Sheet]:
    """Read what is known of each sheet, by the names of the datasets."""
    found = tomllib.loads((FOLDER / "samples.toml").read_text(encoding="utf-8"))
    return {
        name: Sheet(**{**facts, "indices": tuple(facts["indices"]), "size": tuple(facts["size"])})
        for name, facts in found.items()
    }


def figure(name: str, up: str) -> str:
    """Return the HTML of a dataset's sheet; nothing if it has none. `up` leads to the root of the site."""
    sheet = sheets().get(name)
    if sheet is None:
        return ""
    width, height = sheet.size
    said = f"{len(sheet.indices)} samples of {escape(entry(name).title)}"
    image = f'<img src="{up}samples/{name}.webp" alt="{said}" width="{width}" height="{height}" loading="lazy">'
    caption = f"{said}, of its split <code>{escape(sheet.split)}</code>. Images: {escape(sheet.author)}, "
    caption += f"{_link(sheet.license_url, sheet.license)}, from {_link(sheet.source, sheet.source)}."
    return f'<figure class="sheet">{image}<figcaption>{caption}</figcaption></figure>'


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}">{escape(text)}</a>'
