# mypy: ignore-errors
# Python for numba, which infers its types itself.
"""Change the pixels of many images, each by its own operations, in one call without the GIL."""

import numpy as np

from recordzoo.pixels.colors import (
    autocontrast,
    brightness,
    contrast,
    equalize,
    grayscale,
    hue,
    invert,
    pack,
    posterize,
    saturation,
    solarize,
)
from recordzoo.pixels.jit import compiled
from recordzoo.pixels.resample import write_row
from recordzoo.pixels.spatial import affine, blur, mirror, sharpness

OPERATION = np.dtype([("image", np.int64), ("number", np.int64), ("numbers", np.float64, 8)], align=True)
"""An operation on an image: the image's number, the operation's place in `NAMES`, and the operation's own numbers."""

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
"""A box of an image to fill with one value for each channel."""


@compiled
def _change(number, source, target, numbers):
    """Apply the operation with a number. The numbers have no gaps: `NAMES` is derived from this function."""
    if number == 0:
        brightness(source, target, numbers)
    elif number == 1:
        contrast(source, target, numbers)
    elif number == 2:
        saturation(source, target, numbers)
    elif number == 3:
        hue(source, target, numbers)
    elif number == 4:
        grayscale(source, target, numbers)
    elif number == 5:
        posterize(source, target, numbers)
    elif number == 6:
        solarize(source, target, numbers)
    elif number == 7:
        invert(source, target, numbers)
    elif number == 8:
        autocontrast(source, target, numbers)
    elif number == 9:
        equalize(source, target, numbers)
    elif number == 10:
        affine(source, target, numbers)
    elif number == 11:
        mirror(source, target, numbers)
    elif number == 12:
        sharpness(source, target, numbers)
    else:
        blur(source, target, numbers)


NAMES = _change.py_func.__code__.co_names
"""The operations by number: Python lists the globals of a function in the order in which they appear."""


@compiled
def _gather(old, image):
    """Pack bytes, [H * W * 3], into pixels, uint32 [H, W]."""
    new = image.ravel()
    for i in range(len(new)):
        new[i] = pack(old[3 * i], old[3 * i + 1], old[3 * i + 2])


@compiled
def change(images, places, height, width, operations, values, out, is_last):
    """Change images and write them as rows of a batch; see `Compiled.change`.

    `operations` is an array of dtype `OPERATION`: the operations of the first image in order, then of the next one.
    """
    first, second = np.empty((height, width), np.uint32), np.empty((height, width), np.uint32)
    following = 0
    for number in range(len(places)):
        _gather(images[places[number]], first)
        while following < len(operations) and operations[following].image == number:
            _change(operations[following].number, first, second, operations[following].numbers)
            first, second = second, first
            following += 1
        rows = first.view(np.uint8)
        for y in range(height):
            write_row(rows[y], width, y, values, out[places[number]], is_last)


@compiled
def erase(erasures, out, height, width, is_last):
    """Fill boxes of images with one value for each channel; a box's `image` is a row of `out`."""
    for i in range(len(erasures)):
        box, image = erasures[i], out[erasures[i].image]
        for c in range(3):
            for y in range(box.top, box.top + box.height):
                for x in range(box.left, box.left + box.width):
                    if is_last:
                        image[3 * (y * width + x) + c] = box.values[c]
                    else:
                        image[c * height * width + y * width + x] = box.values[c]
