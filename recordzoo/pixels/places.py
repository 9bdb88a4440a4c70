# mypy: ignore-errors
# What follows is Python for numba, which infers its types itself.
"""Operations that move pixels: to where an affine map says, taking the nearest."""

import numpy as np

from recordzoo.pixels.jit import compiled


@compiled
def _whole(number):
    """Return the pixel that a place is in; -1 outside."""
    return -1 if number < 0.0 else int(number)


@compiled
def affine(source, target, numbers):
    """Take each pixel from where a matrix of 2 rows and 3 columns says; outside is the last number, a pixel.

    Places are computed as Pillow does it: with 16 bits after the point, or by adding up float64 where rows stay rows.
    """
    a, b, c, d, e, f = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    outside = np.uint32(numbers[6])
    height, width = source.shape
    if b == 0 and d == 0:
        columns = np.empty(width, np.int64)
        place = c + a * 0.5
        for x in range(width):
            columns[x] = _whole(place)
            place += a
        place = f + e * 0.5
        for y in range(height):
            row = _whole(place)
            place += e
            for x in range(width):
                is_inside = 0 <= row < height and 0 <= columns[x] < width
                target[y, x] = source[row, columns[x]] if is_inside else outside
        return
    across, down = np.int64(np.floor(a * 65536.0 + 0.5)), np.int64(np.floor(d * 65536.0 + 0.5))
    across_row, down_row = np.int64(np.floor(b * 65536.0 + 0.5)), np.int64(np.floor(e * 65536.0 + 0.5))
    first_x = np.int64(np.floor((c + a * 0.5 + b * 0.5) * 65536.0 + 0.5))
    first_y = np.int64(np.floor((f + d * 0.5 + e * 0.5) * 65536.0 + 0.5))
    for y in range(height):
        at_x, at_y = first_x, first_y
        for x in range(width):
            column, row = at_x >> 16, at_y >> 16
            is_inside = 0 <= column < width and 0 <= row < height
            target[y, x] = source[row, column] if is_inside else outside
            at_x += across
            at_y += down
        first_x += across_row
        first_y += down_row


@compiled
def mirror(source, target, numbers):
    """Exchange left and right."""
    height, width = source.shape
    for y in range(height):
        for x in range(width):
            target[y, x] = source[y, width - 1 - x]
