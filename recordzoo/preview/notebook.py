"""The HTML of a dataset in a notebook: its facts and a few images, without scripts."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.base.text import clean, name_first
from recordzoo.images.decode import picture_field, reason, with_value
from recordzoo.preview.choose import evenly
from recordzoo.preview.sheet import cut
from recordzoo.preview.thumbnail import make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.labels import load_labels
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.reader import RecordReader

NUMBER = 12
"""Maximum number of images."""

_BOX = (112, 112)
_MOST_PIXELS = 16_000_000  # decoding a larger PNG would take a second
_MOST_BYTES = 5000  # of one image
_ENCODINGS = [("png", {}), *(("jpeg", {"quality": quality}) for quality in (80, 50, 25, 10))]
_MOST_NAMES = 6  # of classes, splits, fields
_LONGEST, _LONGEST_LINE = 60, 300  # characters of a name and of a fact
_FIGURE = "margin:0;width:112px;font-size:11px;line-height:1.3"
_CAPTION = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


@dataclass(frozen=True)
class Shown:
    """A dataset's part of a record set.

    Attributes:
        kind: The dataset's class, for the heading.
        positions: The positions of the samples, int64 [n].
        split: The name of the split. "": all samples.
        note: A further fact. "": none.
    """

    kind: str
    num_samples: int
    reader: RecordReader
    positions: NDArray[np.int64]
    split: str = ""
    note: str = ""


def write_summary(shown: Shown) -> str:
    """Write a dataset's facts and at most `NUMBER` of its images, as HTML of less than 100 kB.

    What cannot be read is said in its place; nothing is raised for it. The images are spread evenly over the samples.
    Names are escaped; nothing is requested from anywhere, and there is no script.
    """
    samples = "1 sample" if shown.num_samples == 1 else f"{shown.num_samples:,} samples"
    rows, figures = [], []
    try:
        for name, value in _facts(shown):
            rows.append(f"<tr><th>{name}</th><td>{_text(value, _LONGEST_LINE)}</td></tr>")
        for figure in _figures(shown):
            figures.append(figure)
    except Exception as err:  # noqa: BLE001 - a notebook would show a traceback instead of the dataset
        rows.append(f"<tr><th>not shown</th><td>{_text(reason(err), _LONGEST_LINE)}</td></tr>")
    return (
        f"<div><p><strong>{escape(shown.kind)}</strong>: {samples}</p><table>{''.join(rows)}</table>"
        f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(figures)}</div></div>'
    )


def _facts(shown: Shown) -> Iterator[tuple[str, str]]:
    manifest = shown.reader.manifest
    yield "records", str(shown.reader.path)
    if manifest.variant != ORIGINAL:
        yield "variant", manifest.variant
    if shown.note:
        yield "note", shown.note
    if manifest.splits:
        splits = [f"{name} {count:,}" for name, count in manifest.splits.items()]
        yield "splits", name_first(splits, _MOST_NAMES) + (f"; this one: {shown.split}" if shown.split else "")
    if manifest.classes:
        yield "classes", f"{len(manifest.classes):,}: {name_first(manifest.classes, _MOST_NAMES)}"
    fields = [f"{name} ({spec.kind})" for name, spec in manifest.fields.items()]
    yield "fields", name_first(fields, _MOST_NAMES)


def _figures(shown: Shown) -> Iterator[str]:
    """Yield the images as HTML."""
    field, labels = picture_field(shown.reader), load_labels(shown.reader)
    positions = evenly(with_value(shown.reader, field, shown.positions), NUMBER)
    with quiet():
        for position in positions.tolist():
            each = make_thumbnail(shown.reader, field, position, _BOX, labels, max_pixels=_MOST_PIXELS)
            names = [_text(text, _LONGEST) for text in (each.class_name, each.short_name) if text]
            alt = ": ".join(names)
            image = f'<img alt="{alt}" src="{_uri(each.image)}">' if each.image else _text(each.reason, _LONGEST)
            caption = "".join(f'<div style="{_CAPTION}">{name}</div>' for name in names)
            yield f'<figure style="{_FIGURE}" title="{alt}">{image}<figcaption>{caption}</figcaption></figure>'


def _uri(image: Image.Image) -> str:
    """Encode a small image as PNG if that fits into `_MOST_BYTES`, else as JPEG in the best quality that does."""
    for kind, options in _ENCODINGS:
        file = io.BytesIO()
        image.save(file, kind, **options)
        if file.tell() <= _MOST_BYTES:
            break
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _text(text: str, longest: int) -> str:
    """Return a text for HTML: cut, escaped, with control and direction characters shown."""
    return escape(cut(clean(text[: 100 * longest]), longest, len))
