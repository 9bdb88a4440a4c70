"""Previews of a record set: thumbnails with boxes and masks, the contact sheet, and what a notebook shows."""

import base64
import contextlib
import io
import math
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean, counted, did_you_mean, name_first, no_split, shorten
from recordzoo.errors import ArgumentError, CorruptRecordError, ImageError, RemoteError
from recordzoo.images.decode import find_objects, open_picture, picture_field, reason, with_value
from recordzoo.recipes.recipe import quiet
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.reader import Labels, RecordReader, load_labels

ORDERS = ("class", "random", "largest", "smallest")


@dataclass(frozen=True)
class Choice:
    """The positions of the chosen images in display order, and what they were chosen from.

    Attributes:
        field: The blob field that holds the images.
        labels: The classes of the record set. None: it has none.
    """

    field: str
    labels: Labels | None
    positions: Sequence[int]
    num_candidates: int


def evenly(positions: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Choose at most `number` of the positions, evenly from the first to the last."""
    count = min(number, len(positions))
    return positions[np.arange(count) * len(positions) // max(1, count)]


def choose(
    reader: RecordReader,
    number: int,
    *,
    split: str | None = None,
    classes: Sequence[str] = (),
    order: str = "class",
    seed: int = 0,
) -> Choice:
    """Choose at most `number` of the images of a split and of these classes.

    Args:
        order: "class" (as many of each class as possible, of as many classes as possible; without classes evenly from
            the first to the last), "random", "largest" or "smallest" (by stored bytes, the first of equal ones first).
        seed: Another seed chooses others; of no effect on "largest" and "smallest".

    Raises:
        ArgumentError: There is no such split, class or order, or the record set has no images.
    """
    if order not in ORDERS:
        hint = did_you_mean(order, ORDERS)
        raise ArgumentError(f"Unknown value {order!r} for order. Valid values are {', '.join(ORDERS)}.{hint}")
    if split is not None and split not in reader.manifest.splits:
        raise no_split(reader.path, split, reader.manifest.splits)
    field, labels = picture_field(reader), load_labels(reader)
    found = with_value(reader, field, np.asarray(reader.split(split or ""), np.int64))
    if classes and labels is None:
        raise ArgumentError(f"{reader.path} has no classes to choose from (--class {classes[0]}).")
    if classes and labels is not None:
        wanted = [each for text in classes for each in labels.find(text)]
        found = found[np.isin(labels.numbers[found], wanted)]
    rng = np.random.default_rng(seed)
    if order == "random":
        chosen = found[rng.permutation(len(found))[:number]]
    elif order in ("largest", "smallest"):
        lengths = reader.lengths(field)[found].astype(np.int64)
        chosen = found[np.argsort(-lengths if order == "largest" else lengths, kind="stable")[:number]]
    elif labels is None:
        chosen = evenly(found, number)
    else:
        chosen = _of_classes(found, labels.numbers[found], number, rng)
    return Choice(field, labels, chosen.tolist(), len(found))


def _of_classes(
    found: NDArray[np.int64], numbers: NDArray[np.int64], number: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Take from each class in turn, from each at random, until there are enough; then sort by class."""
    order = rng.permutation(len(found))
    order = order[np.argsort(numbers[order], kind="stable")]  # by class; within a class at random
    _, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    turn = np.arange(len(order)) - np.repeat(starts, counts)  # how many of its class come before it
    place = np.repeat(rng.permutation(len(starts)), counts)  # its class's place within each turn
    chosen = order[np.lexsort((place, turn))[:number]]
    picked = found[chosen]
    return picked[np.lexsort((picked, numbers[chosen]))]


MAX_PIXELS = 89_478_485
"""The most pixels of an image that gets a thumbnail. Pillow warns above this, and refuses above twice this."""

_MOST_ENLARGED = 16
_CHECK = 8  # pixels of a square of the checkerboard behind transparent images
_DEEP = ("I", "F")  # modes of more than 8 bits, with "I;16" and its kin
_COLOURS = ("#e6194b", "#3cb44b", "#ffe119", "#4363d8", "#f58231", "#42d4f4", "#f032e6", "#bfef45", "#fabed4")
_COVER = 110  # opacity of a mask, out of 255
_VOID = 255  # value of a mask where the class is not known
_MOST_OBJECTS = 200


@dataclass(frozen=True)
class Thumbnail:
    """A thumbnail of a stored image, and facts about the image.

    Attributes:
        num_bytes: Its stored size.
        short_name: Its name without the folder that is its class.
        label: The number of its class.
        class_name: The name of its class, or the number as text.
        image: RGB; None if there is a problem.
        size: Width and height of the stored image.
        format: The encoding, as Pillow calls it; "raw" for pixels, "" if it is not known.
        mode: The mode of its pixels, as Pillow calls it.
        problem: "broken" (no decoder takes it), "large" (too many pixels), "damaged" (not the bytes that were written).
        reason: The problem in words.
    """

    position: int
    name: str
    num_bytes: int
    short_name: str
    label: int | None = None
    class_name: str = ""
    image: Image.Image | None = None
    size: tuple[int, int] | None = None
    format: str = ""
    mode: str = ""
    problem: str = ""
    reason: str = ""


def make_thumbnail(
    reader: RecordReader,
    field: str,
    position: int,
    box: tuple[int, int],
    labels: Labels | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
) -> Thumbnail:
    """Decode an image as small as its format allows and fit it into `box`, as torchvision would show it: not turned.

    Masks and boxes are drawn on it. Small images are enlarged by a whole factor, so that each pixel stays sharp.

    Args:
        box: Maximum width and height; the aspect ratio is kept.
        labels: The classes of the record set, if they are shown.
        max_pixels: Larger images are not decoded.
    """
    name = reader.names[position]
    thumbnail = Thumbnail(position, name, int(reader.lengths(field)[position]), name)
    if labels is not None:
        label = int(labels.numbers[position])
        short_name = labels.short(name, label)
        thumbnail = replace(thumbnail, short_name=short_name, label=label, class_name=labels.name(label))
    try:
        image = open_picture(reader, position, field)
        thumbnail = replace(thumbnail, size=image.size, format=image.format or "raw", mode=image.mode)
        if image.width * image.height > max_pixels:
            too_large = f"{image.width:,} x {image.height:,} pixels: too large to be shown"
            return replace(thumbnail, problem="large", reason=too_large)
        small = _small(image, box)
        factor = max(1, min(box[0] // small.width, box[1] // small.height, _MOST_ENLARGED))
        small = small.resize((factor * small.width, factor * small.height), Image.Resampling.NEAREST)
        if field == "image":
            _draw_objects(small, reader, position, image.size)
        return replace(thumbnail, image=small)
    except CorruptRecordError:
        return replace(thumbnail, problem="damaged", reason="its stored bytes are damaged")
    except RemoteError:  # it tells nothing of the image
        raise
    except Image.DecompressionBombError:
        return replace(thumbnail, problem="broken", reason=f"it has over {2 * MAX_PIXELS:,} pixels")
    except Exception as err:  # noqa: BLE001 - decoders raise anything; it becomes the reason that is shown
        cause = err.__cause__ if isinstance(err, ImageError) and isinstance(err.__cause__, Exception) else err
        return replace(thumbnail, problem="broken", reason=reason(cause) or type(cause).__name__)


def _small(image: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Convert to RGB and reduce a large image to about `box`; transparent parts show a checkerboard."""
    image.draft(image.mode, (2 * box[0], 2 * box[1]))  # JPEG: decodes to 1/2, 1/4 or 1/8
    if image.mode in _DEEP or image.mode.startswith("I;"):
        return _stretched(image, box)
    if image.mode in ("LA", "PA", "La", "RGBA", "RGBa") or "transparency" in image.info:
        flat = _shrunk(image.convert("RGBA"), box)
        rows, columns = np.indices((flat.height, flat.width)) // _CHECK
        squares = np.where((rows + columns) % 2, 255, 218).astype(np.uint8)
        return Image.alpha_composite(Image.fromarray(squares).convert("RGBA"), flat).convert("RGB")
    return _shrunk(image.convert("RGB"), box)


def _shrunk(image: Image.Image, box: tuple[int, int]) -> Image.Image:
    scale = min(box[0] / image.width, box[1] / image.height)
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _stretched(image: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Show the darkest value as black and the brightest as white: depths and 12-bit scans use a small range."""
    values = np.asarray(image, np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, values[finite].min() if finite.any() else 0)
    values = np.asarray(_shrunk(Image.fromarray(values), box))
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / (high - low)) if high > low else np.full_like(values, 128)
    return Image.fromarray(scaled.round().clip(0, 255).astype(np.uint8)).convert("RGB")


def _draw_objects(image: Image.Image, reader: RecordReader, position: int, size: tuple[int, int]) -> None:
    """Draw the boxes and masks of a record; `size` is that of the stored image. What cannot be read is left out."""
    found = find_objects(reader)
    with contextlib.suppress(Exception):  # untrusted annotations may be anything; the image is still shown
        labels = found.labels_of(position).tolist() if found.labels else range(_MOST_OBJECTS)
        if found.boxes:
            scale = np.array([image.width / size[0], image.height / size[1]])
            boxes = (found.boxes_of(position, size)[:_MOST_OBJECTS].reshape(-1, 2, 2) * scale).clip(-2, 10_000)
            for label, ((left, top), (right, bottom)) in zip(labels, boxes.tolist(), strict=False):
                if left <= right and top <= bottom:
                    box, colour = (left, top, right, bottom), _COLOURS[label % len(_COLOURS)]
                    ImageDraw.Draw(image).rectangle(box, outline=colour, width=2)
        if found.mask:
            mask = np.array(found.mask_of(position))
            for label in np.unique(mask)[:_MOST_OBJECTS].tolist():
                if label not in (0, _VOID):  # 0 is the background
                    _cover(image, mask == label, label)
        if found.masks or found.annotations:
            for label, each in zip(labels, found.masks_of(position, size)[:_MOST_OBJECTS], strict=False):
                _cover(image, each != 0, label)


def _cover(image: Image.Image, mask: NDArray[Any], label: int) -> None:
    cover = Image.fromarray(mask.astype(np.uint8) * _COVER).resize(image.size, Image.Resampling.NEAREST)
    image.paste(Image.new("RGB", image.size, _COLOURS[label % len(_COLOURS)]), (0, 0), cover)


BOX = (180, 180)
"""Width and height of an image's box."""

_MOST_COLUMNS = 8
_MARGIN, _GAP, _LINE = 24, 16, 18
_MIN_WIDTH = 400  # so that the heading of a single image can be read
_INK, _PALE, _PAPER, _PLACE = "#18181b", "#6b7280", "#ffffff", "#f4f4f5"
_CROSS, _WRONG = "#e5b4b4", "#fdf3f3"
_LONGEST_TEXT = 200


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
        text = drawable(shorten(text, _LONGEST_TEXT, len))  # names of 60,000 characters exist
        draw.text((left, down), shorten(text, room, font.getlength), colour, font)

    write(_MARGIN, _MARGIN - 4, title, large, _INK, width)
    write(_MARGIN, _MARGIN + 24, subtitle, small, _PALE, width)
    for number, (thumbnail, lines) in enumerate(zip(thumbnails, captions, strict=True)):
        left, down = _MARGIN + number % columns * (BOX[0] + _GAP), top + number // columns * row
        right, bottom = left + BOX[0] - 1, down + BOX[1] - 1
        if thumbnail.image is None:
            draw.rectangle((left, down, right, bottom), fill=_WRONG, outline=_CROSS)
            draw.line((left, down, right, bottom), fill=_CROSS)
            draw.line((left, bottom, right, down), fill=_CROSS)
            why = drawable(shorten(thumbnail.reason, _LONGEST_TEXT, len))
            for index, text in enumerate(textwrap.wrap(why, 22)[:5]):
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


NUMBER = 12
"""Maximum number of images."""

_BOX = (112, 112)
_MOST_PIXELS = 16_000_000  # decoding a larger PNG would take a second
_MOST_BYTES = 5000  # of one image
_ENCODINGS = [("png", {}), *(("jpeg", {"quality": quality}) for quality in (80, 50, 25, 10))]
_MOST_NAMES = 6  # of classes, splits, fields
_LONGEST_NAME, _LONGEST_LINE = 60, 300  # characters of a name and of a fact
_FIGURE = "margin:0;width:112px;font-size:11px;line-height:1.3"
_CAPTION = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


def write_summary(
    kind: str, num_samples: int, reader: RecordReader, positions: NDArray[np.int64], split: str = "", note: str = ""
) -> str:
    """Write a dataset's facts and at most `NUMBER` of its images, as HTML of less than 100 kB.

    What cannot be read is said in its place; nothing is raised for it. The images are spread evenly over the samples.
    Names are escaped; nothing is requested from anywhere, and there is no script.

    Args:
        kind: The dataset's class, for the heading.
        num_samples: How many samples it has.
        reader: The record set.
        positions: The positions of the samples, int64 [n].
        split: The name of the split. "": all samples.
        note: A further fact. "": none.
    """
    rows, figures = [], []
    try:
        for name, value in _facts(reader, split, note):
            rows.append(f"<tr><th>{name}</th><td>{_text(value, _LONGEST_LINE)}</td></tr>")
        for figure in _figures(reader, positions):
            figures.append(figure)
    except Exception as err:  # noqa: BLE001 - a notebook would show a traceback instead of the dataset
        rows.append(f"<tr><th>not shown</th><td>{_text(reason(err), _LONGEST_LINE)}</td></tr>")
    return (
        f"<div><p><strong>{escape(kind)}</strong>: {counted(num_samples, 'sample')}</p>"
        f"<table>{''.join(rows)}</table>"
        f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(figures)}</div></div>'
    )


def _facts(reader: RecordReader, split: str, note: str) -> Iterator[tuple[str, str]]:
    manifest = reader.manifest
    yield "records", str(reader.path)
    if manifest.variant != ORIGINAL:
        yield "variant", manifest.variant
    if note:
        yield "note", note
    if manifest.splits:
        splits = [f"{name} {count:,}" for name, count in manifest.splits.items()]
        yield "splits", name_first(splits, _MOST_NAMES) + (f"; this one: {split}" if split else "")
    if manifest.classes:
        yield "classes", f"{len(manifest.classes):,}: {name_first(manifest.classes, _MOST_NAMES)}"
    fields = [f"{name} ({spec.kind})" for name, spec in manifest.fields.items()]
    yield "fields", name_first(fields, _MOST_NAMES)


def _figures(reader: RecordReader, positions: NDArray[np.int64]) -> Iterator[str]:
    """Yield the images as HTML."""
    field, labels = picture_field(reader), load_labels(reader)
    with quiet():
        for position in evenly(with_value(reader, field, positions), NUMBER).tolist():
            each = make_thumbnail(reader, field, position, _BOX, labels, max_pixels=_MOST_PIXELS)
            names = [_text(text, _LONGEST_NAME) for text in (each.class_name, each.short_name) if text]
            alt = ": ".join(names)
            image = f'<img alt="{alt}" src="{_uri(each.image)}">' if each.image else _text(each.reason, _LONGEST_NAME)
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
    return escape(shorten(clean(text[: 100 * longest]), longest, len))
