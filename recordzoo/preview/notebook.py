"""The HTML of a dataset in a notebook: its facts and a few images, without scripts."""

import base64
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.base.text import clean
from recordzoo.errors import ArgumentError
from recordzoo.images.decode import reason
from recordzoo.preview.captions import cut
from recordzoo.preview.choose import evenly, picture_field, with_value
from recordzoo.preview.thumbnail import Thumbnail, make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.labels import load_labels
from recordzoo.records.manifest import ORIGINAL, ArraySpec
from recordzoo.records.reader import RecordReader

NUMBER = 12
"""Maximum number of images."""

_BOX = (112, 112)
_MOST_PIXELS = 16_000_000  # decoding a larger PNG would take a second
_LOSSLESS_BELOW = 48  # pixels of the longer side
_MOST_BYTES = 5000  # of one image
_QUALITIES = (80, 50, 25, 10)
_MOST_NAMES = 6  # of classes, splits, fields
_LONGEST = 40  # characters of such a name
_LONGEST_LINE = 300

_CELL = 'style="text-align:left;vertical-align:top;padding:2px 12px 2px 0"'
_PLACE = (
    "display:flex;align-items:center;justify-content:center;width:112px;height:112px;overflow:hidden;"
    "border-radius:4px;background:rgba(128,128,128,.12)"
)
_CAPTION = "width:112px;font-size:11px;line-height:1.3;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_WRONG = f"{_PLACE};outline:1px dashed;outline-offset:-1px;font-size:11px;line-height:1.3;text-align:center"


@dataclass(frozen=True)
class Shown:
    """A dataset's part of a record set.

    Attributes:
        kind: The dataset's class, for the heading.
        num_samples: Number of samples.
        reader: The record set.
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
    rows = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{_text(value, _LONGEST_LINE)}</td></tr>"
        for name, value in _guarded(_facts(shown))
    )
    figures = "".join(_figures(shown))
    return (
        f"<div><p><strong>{escape(shown.kind)}</strong>: {samples}</p><table>{rows}</table>"
        f'<div style="display:flex;flex-wrap:wrap;gap:8px;margin-top:8px">{figures}</div></div>'
    )


def _guarded(facts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield facts; for the first one that cannot be read, the reason, and then nothing more."""
    try:
        yield from facts
    except Exception as err:  # noqa: BLE001 - a notebook would show a traceback instead of the dataset
        yield "problem", reason(err)


def _facts(shown: Shown) -> Iterator[tuple[str, str]]:
    reader = shown.reader
    manifest = reader.manifest
    yield "records", str(reader.path)
    if manifest.variant != ORIGINAL:
        yield "variant", manifest.variant
    if shown.note:
        yield "note", shown.note
    if manifest.splits:
        splits = [f"{_name(name)} {len(reader.split(name)):,}" for name in list(manifest.splits)[:_MOST_NAMES]]
        yield "splits", _listed(splits, len(manifest.splits)) + (f"; this one: {shown.split}" if shown.split else "")
    if manifest.classes:
        names = map(_name, manifest.classes[:_MOST_NAMES])
        yield "classes", f"{len(manifest.classes):,}: {_listed(names, len(manifest.classes))}"
    kinds = {name: spec.encoding for name, spec in manifest.blobs.items()}
    kinds |= {name: _type(manifest.arrays[name]) for name in reader.columns}
    fields = [f"{_name(name)} ({kind})" for name, kind in list(kinds.items())[:_MOST_NAMES]]
    yield "fields", _listed(fields, len(kinds))


def _type(spec: ArraySpec) -> str:
    """Write an array field's type for one record: "uint8 [312]"."""
    name = np.dtype(spec.dtype).name
    return f"{name} {list(spec.shape[1:])}" if spec.shape[1:] else name


def _name(name: str) -> str:
    return cut(clean(name), _LONGEST, len)


def _listed(names: Iterable[str], total: int) -> str:
    found = list(names)
    more = f", and {total - len(found):,} more" if total > len(found) else ""
    return ", ".join(found) + more


def _figures(shown: Shown) -> Iterator[str]:
    """Return the images as HTML; a paragraph if there are none."""
    try:
        field = picture_field(shown.reader)
        positions = evenly(with_value(shown.reader, field, shown.positions), NUMBER)
        labels = load_labels(shown.reader)
    except ArgumentError:
        yield "<p>The record set holds no images.</p>"
        return
    except Exception as err:  # noqa: BLE001 - as above
        yield f"<p>Its images cannot be shown: {_text(reason(err), _LONGEST_LINE)}</p>"
        return
    with quiet():
        for position in positions.tolist():
            yield _figure(
                make_thumbnail(shown.reader, field, position, _BOX, labels, enlarge=False, max_pixels=_MOST_PIXELS)
            )


def _figure(thumbnail: Thumbnail) -> str:
    texts = (thumbnail.title, thumbnail.short_name)
    alternative = ": ".join(_text(text, 2 * _LONGEST) for text in texts if text)
    if thumbnail.image is None:
        place = f'<div style="{_WRONG}">{_text(thumbnail.reason, 2 * _LONGEST)}</div>'
    else:
        place = f'<div style="{_PLACE}"><img alt="{alternative}" {_source(thumbnail.image)}></div>'
    lines = [f'<div style="{_CAPTION}">{_text(text, _LONGEST)}</div>' for text in texts]
    return f'<figure style="margin:0" title="{alternative}">{place}<figcaption>{"".join(lines)}</figcaption></figure>'


def _source(image: Image.Image) -> str:
    """Write the attributes of an image: its data, and its size; small ones are enlarged by a whole factor, sharp."""
    factor = max(1, min(_BOX[0] // image.width, _BOX[1] // image.height))
    size = f'width="{factor * image.width}" height="{factor * image.height}" style="margin:0;image-rendering:'
    kind, data = _encoded(image)
    uri = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return f'{size}{"pixelated" if factor > 1 else "auto"}" src="{uri}"'


def _encoded(image: Image.Image) -> tuple[str, bytes]:
    """Encode a small image as PNG, another as JPEG in the best quality that fits into `_MOST_BYTES`."""
    if max(image.size) < _LOSSLESS_BELOW:
        return "png", _saved(image, "PNG")
    data = b""
    for quality in _QUALITIES:
        data = _saved(image, "JPEG", quality=quality)
        if len(data) <= _MOST_BYTES:
            break
    return "jpeg", data


def _saved(image: Image.Image, kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _text(text: str, longest: int) -> str:
    """Return a text for HTML: cut, escaped, with control and direction characters shown."""
    return escape(cut(clean(text[: 100 * longest]), longest, len))
