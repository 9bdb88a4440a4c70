# mypy: ignore-errors
# What follows is Python for numba, which infers its types itself.
"""Many images, and for each its operations, in one call without the GIL."""

import numpy as np

from recordzoo.pixels.color import brightness, contrast, grayscale, hue, pack, saturation
from recordzoo.pixels.filters import blur, sharpness
from recordzoo.pixels.jit import compiled
from recordzoo.pixels.places import affine, mirror
from recordzoo.pixels.resample import write_row
from recordzoo.pixels.tables import autocontrast, equalize, invert, posterize, solarize

OPERATION = np.dtype([("image", np.int64), ("name", np.int64), ("numbers", np.float64, 8)], align=True)
"""What happens to an image: its number, that of the operation's name in `NAMES`, and the operation's own numbers."""

ERASURE = np.dtype(
    [
        ("image", np.int64),
        ("top", np.int64),
        ("left", np.int64),
        ("height", np.int64),
        ("width", np.int64),
        ("values", np.float32, 3),
    ],
    align=True,
)
"""A box of an image that gets one value for each channel."""

NAMES = (
    "brightness",
    "contrast",
    "saturation",
    "hue",
    "grayscale",
    "posterize",
    "solarize",
    "invert",
    "autocontrast",
    "equalize",
    "affine",
    "mirror",
    "sharpness",
    "blur",
)


@compiled
def _change(name, source, target, numbers):
    """Do one operation. The numbers are places in `NAMES`: numba makes no table of functions."""
    if name == 0:
        brightness(source, target, numbers)
    elif name == 1:
        contrast(source, target, numbers)
    elif name == 2:
        saturation(source, target, numbers)
    elif name == 3:
        hue(source, target, numbers)
    elif name == 4:
        grayscale(source, target, numbers)
    elif name == 5:
        posterize(source, target, numbers)
    elif name == 6:
        solarize(source, target, numbers)
    elif name == 7:
        invert(source, target, numbers)
    elif name == 8:
        autocontrast(source, target, numbers)
    elif name == 9:
        equalize(source, target, numbers)
    elif name == 10:
        affine(source, target, numbers)
    elif name == 11:
        mirror(source, target, numbers)
    elif name == 12:
        sharpness(source, target, numbers)
    else:
        blur(source, target, numbers)


@compiled
def _gather(old, image):
    """Make an image of pixels, uint32 [H, W], of bytes, [H * W * 3]."""
    new = image.ravel()
    for i in range(len(new)):
        new[i] = pack(old[3 * i], old[3 * i + 1], old[3 * i + 2])


@compiled
def change(images, places, height, width, operations, values, out, is_last):
    """Do operations to images and write them as rows of a batch.

    Args:
        images: uint8 [N, height * width * 3].
        places: The number of each image's row, in `images` as in `out`, int64 [n].
        height: Of each.
        width: Of each.
        operations: Of dtype `OPERATION`: those of the first image in their order, then those of the next.
        values: What to write for each byte of each channel, [3, 256], uint8 or float32.
        out: Of the dtype of `values`, [N, 3 * height * width].
        is_last: Whether an image is written as [height, width, 3]; otherwise as [3, height, width].
    """
    first, second = np.empty((height, width), np.uint32), np.empty((height, width), np.uint32)
    following = 0
    for number in range(len(places)):
        _gather(images[places[number]], first)
        while following < len(operations) and operations[following].image == number:
            _change(operations[following].name, first, second, operations[following].numbers)
            first, second = second, first
            following += 1
        rows = first.view(np.uint8)
        for y in range(height):
            write_row(rows[y], width, y, values, out[places[number]], is_last)


@compiled
def erase(erasures, out, height, width, is_last):
    """Give boxes of images one value for each channel; `image` is the number of a row of `out`."""
    for i in range(len(erasures)):
        box, image = erasures[i], out[erasures[i].image]
        for c in range(3):
            for y in range(box.top, box.top + box.height):
                for x in range(box.left, box.left + box.width):
                    if is_last:
                        image[3 * (y * width + x) + c] = box.values[c]
                    else:
                        image[c * height * width + y * width + x] = box.values[c]
