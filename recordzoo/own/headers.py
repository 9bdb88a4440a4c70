"""Images with annotations, compared by their headers with masks and stated sizes, before they are stored.

A mask or a box that is of another size than its image would be of other pixels, without a word.
"""

import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from recordzoo.base.text import counted, name_first
from recordzoo.own.annotations import Problems
from recordzoo.own.listing import Listing

_ONE_CHANNEL = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")
_ORIENTATION = 0x0112  # a tag of EXIF
_TURNED = range(2, 9)
_TRANSPOSED = range(5, 9)  # its values that change width and height
_NUM_SHOWN = 5
_THREADS = 16


class Header(NamedTuple):
    """What the first bytes of an image say.

    Attributes:
        size: Width and height of the stored pixels.
        mode: Of Pillow: "RGB", "L", ...
        is_jpeg: Whether it is a JPEG.
        orientation: Of EXIF, 1 for upright.
    """

    size: tuple[int, int]
    mode: str
    is_jpeg: bool
    orientation: int


def check_headers(listing: Listing, *, turns: bool) -> tuple[list[str], dict[str, int]]:
    """Compare all images with their masks, and with the sizes that annotations state.

    Args:
        listing: The images with their annotations.
        turns: Whether images are turned by their EXIF orientation: people annotate upright pictures.

    Returns:
        Warnings; and the orientation of each image to turn. Where width and height change and the annotations are of
        the stored size, an image is not turned.

    Raises:
        SourceError: Sizes differ, or a mask has several channels; the message names up to 20.
    """
    problems = Problems(listing.base)
    images, masks = listing.files["image"], listing.files.get("mask", ())
    with ThreadPoolExecutor(_THREADS) as threads:
        headers = list(threads.map(lambda name: read_header(listing.base / name), images))
        of_masks = list(threads.map(lambda name: read_header(listing.base / name), masks))
    of_mask = dict(zip(images, of_masks, strict=False))
    found: dict[str, int] = {}
    for number, (name, header) in enumerate(zip(images, headers, strict=True)):
        if header is None:
            continue  # broken, which is said when they are stored
        mask = of_mask.get(name)
        stated = listing.stated.get(name)
        drawn_on = stated or (mask and mask.size)
        is_lying = header.orientation in _TRANSPOSED and drawn_on == header.size != header.size[::-1]
        if turns and header.orientation in _TURNED and not is_lying:
            found[name] = header.orientation
            (width, height), is_turned = header.size, header.orientation in _TRANSPOSED
            headers[number] = header = header._replace(
                size=(height, width) if is_turned else (width, height), orientation=1
            )
        if stated not in (None, header.size):
            problems.add(f"{_shape(name, header)}, and its annotations are of {stated[0]}x{stated[1]}")
    scaled, lossy = [], []
    for image, header, name, mask in zip(images, headers, masks, of_masks, strict=False):
        if header is None or mask is None:
            continue  # broken, which is said when they are stored
        if mask.mode not in _ONE_CHANNEL:
            problems.add(f"{name} is of mode {mask.mode}; a mask has one channel or a palette")
        if mask.is_jpeg:
            lossy.append(name)
        if mask.size != header.size:
            (width, height), (w, h) = header.size, mask.size
            if width * h == w * height:
                scaled.append(name)
            else:
                problems.add(f"{_shape(image, header)}, and its mask {name} is {w}x{h}")
    problems.raise_if_any()
    left = [name for name, header in zip(images, headers, strict=True) if header and header.orientation in _TURNED]
    said = [
        (scaled, "mask", "of another size than the image, and of the same shape"),
        (lossy, "mask", "as JPEG, whose values are not exactly those that were drawn"),
        (left, "image", "with an EXIF orientation, read as the file has it, not turned"),
        (list(found), "image", "turned by its EXIF orientation when it is read (--exif keep leaves it)"),
    ]
    remarks = [
        f"{counted(len(names), one)} {what}: {name_first(names, _NUM_SHOWN)}" for names, one, what in said if names
    ]
    return remarks, found


def _shape(name: str, header: Header) -> str:
    turned = ", and turned by its EXIF orientation (save it turned)" if header.orientation in _TRANSPOSED else ""
    return f"{name} is {header.size[0]}x{header.size[1]}{turned}"


def read_header(path: Path) -> Header | None:
    """Read the header of an image; None if it cannot be read."""
    try:
        with Image.open(path) as image:
            is_jpeg = image.format in ("JPEG", "MPO")  # a PNG would be decoded for it
            return Header(image.size, image.mode, is_jpeg, image.getexif().get(_ORIENTATION, 1) if is_jpeg else 1)
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError):
        return None
