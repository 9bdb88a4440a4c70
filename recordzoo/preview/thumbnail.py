"""Thumbnails of stored images of any kind; or why there is none."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from PIL import Image

from recordzoo.errors import CorruptRecordError, ImageError
from recordzoo.images.decode import open_picture, reason
from recordzoo.preview.drawn import caption_of, draw_objects
from recordzoo.records.labels import Labels
from recordzoo.records.reader import RecordReader

MAX_PIXELS = 89_478_485
"""The most pixels of an image that gets a thumbnail. Pillow warns above this, and refuses above twice this."""

_MOST_ENLARGED = 16
_CHECK = 8  # pixels of a square of the checkerboard behind transparent images
_DEEP = ("I", "F")  # modes of more than 8 bits, with "I;16" and its kin

Problem = Literal["", "broken", "large", "damaged"]


@dataclass(frozen=True)
class Thumbnail:
    """A thumbnail of a stored image, and facts about the image.

    Attributes:
        position: Its position.
        name: Its name.
        num_bytes: Its stored size.
        short_name: Its name without the folder that is its class.
        label: The number of its class.
        class_name: The name of its class, or the number as text.
        image: RGB; None if there is a problem.
        size: Width and height of the stored image.
        format: The encoding, as Pillow calls it; "raw" for pixels, "" if it is not known.
        mode: The mode of its pixels, as Pillow calls it.
        caption: What its other fields say: the classes of its objects, or a text.
        problem: "broken" (no decoder takes it), "large" (too many pixels), "damaged" (not the bytes that were written).
        reason: The problem in words.
    """

    position: int
    name: str
    num_bytes: int
    short_name: str = ""
    label: int | None = None
    class_name: str = ""
    image: Image.Image | None = None
    size: tuple[int, int] | None = None
    format: str = ""
    mode: str = ""
    caption: str = ""
    problem: Problem = ""
    reason: str = ""

    @property
    def title(self) -> str:
        """The line below the picture: its class, or else its caption."""
        return self.caption if self.label is None else self.class_name


def make_thumbnail(
    reader: RecordReader,
    field: str,
    position: int,
    box: tuple[int, int],
    labels: Labels | None = None,
    *,
    enlarge: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> Thumbnail:
    """Decode an image as small as its format allows and fit it into `box`, as torchvision would show it: not turned.

    Masks and boxes are drawn on it.

    Args:
        box: Maximum width and height; the aspect ratio is kept.
        labels: The classes of the record set, if they are shown.
        enlarge: Whether small images are enlarged, by a whole factor, so that each pixel stays sharp.
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
        small = _fit(_small(image, box), box, enlarge)
        if field != "image":
            return replace(thumbnail, image=small)
        small = draw_objects(small, reader, position, image.size)
        return replace(thumbnail, image=small, caption=caption_of(reader, position))
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
        return Image.alpha_composite(_checkerboard(flat.size), flat).convert("RGB")
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


def _checkerboard(size: tuple[int, int]) -> Image.Image:
    rows, columns = np.indices((size[1], size[0])) // _CHECK
    squares = np.where((rows + columns) % 2, 255, 218).astype(np.uint8)
    return Image.fromarray(squares).convert("RGBA")


def _fit(image: Image.Image, box: tuple[int, int], enlarge: bool) -> Image.Image:
    factor = min(box[0] // image.width, box[1] // image.height, _MOST_ENLARGED)
    if not enlarge or factor < 2:
        return image
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)
