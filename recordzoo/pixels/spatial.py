# mypy: ignore-errors
# Python for numba, which infers its types itself.
"""Operations whose pixels depend on other pixels of the image: filters and affine maps."""

import numpy as np

from recordzoo.pixels.colors import blend, channel, pack
from recordzoo.pixels.jit import compiled

_SIDE, _MIDDLE = np.float32(1) / np.float32(13), np.float32(5) / np.float32(13)
_HALF = np.float32(0.5)


@compiled
def _smooth(above, here, below, x, shift):
    """Return one byte of Pillow's SMOOTH filter."""
    total = _HALF
    for row, middle in ((below, _SIDE), (here, _MIDDLE), (above, _SIDE)):
        total += (
            channel(row[x - 1], shift) * _SIDE + channel(row[x], shift) * middle + channel(row[x + 1], shift) * _SIDE
        )
    return np.float32(np.int32(total))


@compiled
def sharpness(source, target, numbers):
    """Blend with the smoothed image; the pixels at the edges stay."""
    factor = np.float32(numbers[0])
    height, width = source.shape
    target[:] = source
    for y in range(1, height - 1):
        above, here, below = source[y - 1], source[y], source[y + 1]
        for x in range(1, width - 1):
            target[y, x] = pack(
                blend(_smooth(above, here, below, x, 0), channel(here[x], 0), factor),
                blend(_smooth(above, here, below, x, 8), channel(here[x], 8), factor),
                blend(_smooth(above, here, below, x, 16), channel(here[x], 16), factor),
            )


@compiled
def _weights(size, sigma):
    """Return the weights of a Gaussian: float32 [size], of sum 1."""
    values = np.empty(size, np.float32)
    for i in range(size):
        values[i] = np.exp(-0.5 * ((i - (size - 1) * 0.5) / sigma) ** 2)
    return values / values.sum()


@compiled
def _reflected(place, size):
    """Reflect a coordinate into the image, about the middle of its edge pixels."""
    while place < 0 or place >= size:
        place = -place if place < 0 else 2 * (size - 1) - place
    return place


@compiled
def blur(source, target, numbers):
    """Blur with a Gaussian. Numbers: width and height of its window, both odd, then its two sigmas."""
    across, down = _weights(int(numbers[0]), numbers[2]), _weights(int(numbers[1]), numbers[3])
    height, width = source.shape
    half_x, half_y = len(across) // 2, len(down) // 2
    rows = np.empty((height, 3, width), np.float32)
    line = np.empty((3, width + 2 * half_x), np.float32)
    for y in range(height):
        for x in range(width + 2 * half_x):
            pixel = source[y, _reflected(x - half_x, width)]
            line[0, x], line[1, x], line[2, x] = channel(pixel, 0), channel(pixel, 8), channel(pixel, 16)
        for c in range(3):
            made = rows[y, c]
            made[:] = 0
            for tap in range(len(across)):
                weight, shifted = across[tap], line[c, tap : tap + width]
                for x in range(width):
                    made[x] += weight * shifted[x]
    sums = np.empty(3 * width, np.float32)
    for y in range(height):
        sums[:] = _HALF
        for tap in range(len(down)):
            weight, row = down[tap], rows[_reflected(y + tap - half_y, height)].ravel()
            for i in range(3 * width):
                sums[i] += weight * row[i]
        for x in range(width):
            target[y, x] = pack(np.int32(sums[x]), np.int32(sums[width + x]), np.int32(sums[2 * width + x]))


@compiled
def _whole(number):
    """Return the pixel that contains a coordinate; -1 outside."""
    return -1 if number < 0.0 else int(number)


@compiled
def affine(source, target, numbers):
    """Map pixels by a matrix of 2 rows and 3 columns, nearest neighbour; the last number is the pixel outside.

    Coordinates are computed as in Pillow: fixed point with 16 bits, or sums of float64 if rows stay rows.
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
    """Swap left and right."""
    height, width = source.shape
    for y in range(height):
        for x in range(width):
            target[y, x] = source[y, width - 1 - x]
