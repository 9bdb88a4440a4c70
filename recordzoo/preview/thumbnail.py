"""Thumbnails of stored images of any kind, with boxes and masks; or why there is none."""

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from recordzoo.errors import CorruptRecordError, ImageError
from recordzoo.images.decode import open_picture, reason
from recordzoo.images.objects import find_objects
from recordzoo.records.labels import Labels
from recordzoo.records.reader import RecordReader

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
