# mypy: ignore-errors
# Python for numba, which infers its types itself.
"""Compiled operations on pixels: colors, tables of bytes, blur, moves by fractions of pixels.

A pixel is a uint32: red in the lowest byte, then green and blue; the highest byte is unused. An operation takes
``(source, target, numbers)``: two images, uint32 [H, W], and up to ten numbers, float64; it writes all of the target.
Values are float32 wherever Pillow's are.
"""

import os
import sys

import llvmlite
import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""Bytes that one vector instruction processes."""

_CACHED = []


def compiled(function):
    """Compile a function at its first call; numba infers its types."""
    try:
        made = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable folder for numba's cache
        return numba.njit(nogil=True)(function)
    _CACHED.append(made)
    return made


def stop_caching():
    """Compile only for this process from now on: numba's cache cannot be written or read."""
    while _CACHED:
        _CACHED.pop()._cache.disable()


def cache_folder():
    """Return the folder of numba's cache for this package; None if nothing is cached."""
    return _CACHED[0]._cache.cache_path if _CACHED else None


def versions():
    """Return the versions that cached code depends on, besides its source."""
    options = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    features = binding.get_host_cpu_features().flatten()
    return [sys.version, numba.__version__, llvmlite.__version__, binding.get_host_cpu_name(), features, *options]


@intrinsic
def load_pixel(typing_context, address):
    """Load four bytes: a pixel, and one byte of the next."""

    def generate(context, builder, signature, arguments):
        loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()))
        loaded.align = 1
        return loaded

    return types.uint32(types.uint64), generate


@intrinsic
def load_byte(typing_context, address):
    """Load a byte."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.uint64), generate


@intrinsic
def decompress(typing_context, function, decoder, data, size, pixels, pitch, layout):
    """Call `tj3Decompress8` at its address."""
    long, short = ir.IntType(64), ir.IntType(32)

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(short, (long, long, long, long, short, short))
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    address = types.uint64
    return types.int32(address, address, address, address, address, types.int32, types.int32), generate


@intrinsic
def weighted_sum(typing_context, rows, pitch, weights, count, bits, out):
    """Write the weighted sum of `count` times `LANES` bytes, `pitch` bytes apart.

    `rows`, `weights` and `out` are addresses; the weights have `bits` bits after the point.
    """
    byte, number = ir.IntType(8), ir.IntType(32)
    bytes_type, sums_type = ir.VectorType(byte, LANES), ir.VectorType(number, LANES)

    def spread(builder, value):
        one = builder.insert_element(ir.Constant(sums_type, ir.Undefined), value, number(0))
        return builder.shuffle_vector(one, one, ir.Constant(sums_type, [0] * LANES))

    def constant(value: int):
        return ir.Constant(sums_type, [value] * LANES)

    def generate(context, builder, signature, arguments):
        start, step, factors, taps, bits, target = arguments
        shift = builder.trunc(bits, number)
        half = builder.shl(number(1), builder.sub(shift, number(1)))
        sums = cgutils.alloca_once(builder, sums_type)
        builder.store(spread(builder, half), sums)
        with cgutils.for_range(builder, taps) as loop:
            at = builder.add(start, builder.mul(loop.index, step))
            loaded = builder.load(builder.inttoptr(at, bytes_type.as_pointer()))
            loaded.align = 1
            of_factor = builder.add(factors, builder.mul(loop.index, loop.index.type(4)))
            factor = builder.load(builder.inttoptr(of_factor, number.as_pointer()))
            product = builder.mul(builder.zext(loaded, sums_type), spread(builder, factor))
            builder.store(builder.add(builder.load(sums), product), sums)
        found = builder.ashr(builder.load(sums), spread(builder, shift))
        found = builder.select(builder.icmp_signed("<", found, constant(0)), constant(0), found)
        found = builder.select(builder.icmp_signed(">", found, constant(255)), constant(255), found)
        stored = builder.store(builder.trunc(found, bytes_type), builder.inttoptr(target, bytes_type.as_pointer()))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


_ZERO, _MOST = np.float32(0), np.float32(255)
_OF_RED, _OF_GREEN, _OF_BLUE = np.float32(19595), np.float32(38470), np.float32(7471)  # of 65536, as in Pillow


@compiled
def channel(pixel, shift):
    """Return one byte of a pixel, by the number of its first bit: float32."""
    return np.float32(np.int32((pixel >> np.uint32(shift)) & np.uint32(255)))


@compiled
def pack(red, green, blue):
    """Pack three bytes into a pixel."""
    return np.uint32(red) | np.uint32(green) << np.uint32(8) | np.uint32(blue) << np.uint32(16)


@compiled
def lightness(pixel):
    """Return the lightness of a pixel, as Pillow's mode "L": float32. Sums are integers below 2 ** 24, so exact."""
    total = channel(pixel, 0) * _OF_RED + channel(pixel, 8) * _OF_GREEN + channel(pixel, 16) * _OF_BLUE
    return np.float32(np.int32(total + np.float32(32768)) >> 16)


@compiled
def blend(first, second, factor):
    """Interpolate between two bytes (factor 0 to 1), or extrapolate (above 1)."""
    found = first + factor * (second - first)
    found = found if found > _ZERO else _ZERO
    return np.int32(found if found < _MOST else _MOST)


@compiled
def _blend_all(first, pixel, factor):
    """Blend each channel of a pixel with the same byte."""
    return pack(
        blend(first, channel(pixel, 0), factor),
        blend(first, channel(pixel, 8), factor),
        blend(first, channel(pixel, 16), factor),
    )


@compiled
def brightness(source, target, numbers):
    """Blend with black."""
    factor = np.float32(numbers[0])
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        new[i] = _blend_all(_ZERO, old[i], factor)


@compiled
def contrast(source, target, numbers):
    """Blend with the mean lightness."""
    factor = np.float32(numbers[0])
    old, new = source.ravel(), target.ravel()
    total = 0
    for i in range(len(old)):
        total += np.int32(lightness(old[i]))
    mean = np.float32(int(total / len(old) + 0.5))
    for i in range(len(old)):
        new[i] = _blend_all(mean, old[i], factor)


@compiled
def saturation(source, target, numbers):
    """Blend with the gray of each pixel."""
    factor = np.float32(numbers[0])
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        new[i] = _blend_all(lightness(old[i]), old[i], factor)


@compiled
def grayscale(source, target, numbers):
    """Set all channels to the lightness."""
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        light = np.int32(lightness(old[i]))
        new[i] = pack(light, light, light)


@compiled
def _hue_and_saturation(red, green, blue):
    """Return hue and saturation, 0 to 255, of three bytes that are not all equal."""
    most, least = max(red, green, blue), min(red, green, blue)
    spread = np.float32(most - least)
    from_red = np.float32(most - red) / spread
    from_green = np.float32(most - green) / spread
    from_blue = np.float32(most - blue) / spread
    if red == most:
        hue = np.float32(from_blue - from_green)
    elif green == most:
        hue = np.float32(2.0 + np.float64(from_red) - np.float64(from_blue))
    else:
        hue = np.float32(4.0 + np.float64(from_green) - np.float64(from_red))
    turned = np.float64(hue) / 6.0 + 1.0  # between 5/6 and 2
    hue = np.float32(turned - 1.0 if turned >= 1.0 else turned)
    return np.int32(np.float64(hue) * 255.0), np.int32(np.float64(spread / np.float32(most)) * 255.0)


@compiled
def _rounded(number):
    """Round as C does: halves away from zero. The number is not negative."""
    return np.int32(number + 0.5)


@compiled
def hue(source, target, numbers):
    """Add a byte, without carry, to the hue of Pillow's mode "HSV"."""
    added = np.int32(numbers[0])
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        red, green, blue = (np.int32(channel(old[i], 0)), np.int32(channel(old[i], 8)), np.int32(channel(old[i], 16)))
        if red == green == blue:
            new[i] = old[i]
            continue
        value = max(red, green, blue)
        angle, colored = _hue_and_saturation(red, green, blue)
        if colored == 0:
            new[i] = pack(value, value, value)
            continue
        sector = np.float64((angle + added) & 255) * 6.0 / 255.0
        number = np.int32(sector)
        rest, share = np.float32(sector - number), np.float32(colored / 255.0)
        low = _rounded(value * (1.0 - np.float64(share)))
        falling = _rounded(value * (1.0 - np.float64(share * rest)))
        rising = _rounded(value * (1.0 - np.float64(share) * (1.0 - np.float64(rest))))
        number %= 6
        if number == 0:
            new[i] = pack(value, rising, low)
        elif number == 1:
            new[i] = pack(falling, value, low)
        elif number == 2:
            new[i] = pack(low, value, rising)
        elif number == 3:
            new[i] = pack(low, falling, value)
        elif number == 4:
            new[i] = pack(rising, low, value)
        else:
            new[i] = pack(value, low, falling)


@compiled
def _look_up(source, target, table):
    """Replace each byte by its entry in its channel's table, uint8 [3, 256]."""
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        red, green, blue = old[i] & 255, (old[i] >> 8) & 255, (old[i] >> 16) & 255
        new[i] = pack(table[0, red], table[1, green], table[2, blue])


@compiled
def _histogram(source):
    """Count the bytes of each channel, int64 [3, 256]."""
    counts = np.zeros((3, 256), np.int64)
    old = source.ravel()
    for i in range(len(old)):
        counts[0, old[i] & 255] += 1
        counts[1, (old[i] >> 8) & 255] += 1
        counts[2, (old[i] >> 16) & 255] += 1
    return counts


@compiled
def posterize(source, target, numbers):
    """Keep the highest bits of each byte; their number is the only argument."""
    mask = np.uint32(((256 - (1 << (8 - int(numbers[0])))) & 255) * 0x010101)
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        new[i] = old[i] & mask


@compiled
def solarize(source, target, numbers):
    """Invert bytes from a threshold on."""
    table = np.empty((3, 256), np.uint8)
    for value in range(256):
        table[:, value] = value if value < numbers[0] else 255 - value
    _look_up(source, target, table)


@compiled
def invert(source, target, numbers):
    """Invert all bytes."""
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        new[i] = old[i] ^ np.uint32(0xFFFFFF)


@compiled
def autocontrast(source, target, numbers):
    """Stretch each channel to all of 0 to 255."""
    counts = _histogram(source)
    table = np.empty((3, 256), np.uint8)
    for c in range(3):
        low, high = 0, 255
        while low < 255 and counts[c, low] == 0:
            low += 1
        while high > 0 and counts[c, high] == 0:
            high -= 1
        scale = 255.0 / (high - low) if high > low else 1.0
        offset = -low * scale if high > low else 0.0
        for value in range(256):
            table[c, value] = min(max(int(value * scale + offset), 0), 255)
    _look_up(source, target, table)


@compiled
def equalize(source, target, numbers):
    """Equalize the histogram of each channel."""
    counts = _histogram(source)
    table = np.empty((3, 256), np.uint8)
    for c in range(3):
        last = 255
        while last > 0 and counts[c, last] == 0:
            last -= 1
        step = (counts[c].sum() - counts[c, last]) // 255
        so_far = step // 2
        for value in range(256):
            table[c, value] = min(so_far // step, 255) if step else value
            so_far += counts[c, value]
    _look_up(source, target, table)


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
def _within(place, size):
    """Move a coordinate to the nearest one inside: unsigned, so that numba does not ask whether it is negative."""
    return np.uintp(min(max(place, 0), size - 1))


@compiled
def _linear(first, second, share, shift):
    """Interpolate one byte between two pixels."""
    value = np.float64(channel(first, shift))
    return value + (np.float64(channel(second, shift)) - value) * share


@compiled
def _cubic(one, two, three, four, share):
    """Interpolate between the second and the third of four numbers."""
    by_one, by_two, by_three = -one + three, 2 * (one - two) + three - four, -one + two - three + four
    return two + share * (by_one + share * (by_two + share * by_three))


@compiled
def _cubic_of_row(source, row, columns, share):
    """Interpolate red, green and blue between four pixels of a row."""
    one, two = source[row, columns[0]], source[row, columns[1]]
    three, four = source[row, columns[2]], source[row, columns[3]]
    return (
        _cubic(_number(one, 0), _number(two, 0), _number(three, 0), _number(four, 0), share),
        _cubic(_number(one, 8), _number(two, 8), _number(three, 8), _number(four, 8), share),
        _cubic(_number(one, 16), _number(two, 16), _number(three, 16), _number(four, 16), share),
    )


@compiled
def _number(pixel, shift):
    """Return a byte of a pixel as a float64."""
    return np.float64(np.int32((pixel >> np.uint32(shift)) & np.uint32(255)))


@compiled
def _to_byte(value):
    """Return a number between 0 and 255, without its fraction."""
    return np.uint32(np.int32(min(max(value, 0.0), 255.0)))


@compiled
def warp(source, target, numbers):
    """Map pixels by a perspective, as in Pillow.

    Numbers: 0, 1 or 2 for nearest, bilinear or bicubic; the pixel outside; a to h of (ax + by + c) / (gx + hy + 1) and
    (dx + ey + f) / (gx + hy + 1).
    """
    kind, outside = int(numbers[0]), np.uint32(numbers[1])
    a, b, c, d, e, f, g, h = numbers[2:10]
    height, width = source.shape
    for y in range(height):
        for x in range(width):
            across, down = x + 0.5, y + 0.5
            divisor = g * across + h * down + 1
            if divisor == 0.0:
                target[y, x] = outside
                continue
            at_x, at_y = (a * across + b * down + c) / divisor, (d * across + e * down + f) / divisor
            if not (0.0 <= at_x < width and 0.0 <= at_y < height):
                target[y, x] = outside
            elif kind == 0:
                target[y, x] = source[int(at_y), int(at_x)]
            else:
                at_x, at_y = at_x - 0.5, at_y - 0.5
                left, top = -1 if at_x < 0.0 else int(at_x), -1 if at_y < 0.0 else int(at_y)
                share_x, share_y = at_x - left, at_y - top
                row, below = _within(top, height), _within(top + 1, height)
                column, right = _within(left, width), _within(left + 1, width)
                made = np.uint32(0)
                if kind == 1:
                    for shift in range(0, 24, 8):
                        upper = _linear(source[row, column], source[row, right], share_x, shift)
                        lower = _linear(source[below, column], source[below, right], share_x, shift)
                        made |= np.uint32(upper + (lower - upper) * share_y) << np.uint32(shift)
                else:
                    above, last = _within(top - 1, height), _within(top + 2, height)
                    columns = _within(left - 1, width), column, right, _within(left + 2, width)
                    first = _cubic_of_row(source, above, columns, share_x)
                    second = _cubic_of_row(source, row, columns, share_x)
                    third = _cubic_of_row(source, below, columns, share_x)
                    fourth = _cubic_of_row(source, last, columns, share_x)
                    made = pack(
                        _to_byte(_cubic(first[0], second[0], third[0], fourth[0], share_y)),
                        _to_byte(_cubic(first[1], second[1], third[1], fourth[1], share_y)),
                        _to_byte(_cubic(first[2], second[2], third[2], fourth[2], share_y)),
                    )
                target[y, x] = made


@compiled
def permute(source, target, numbers):
    """Change the order of the channels."""
    red, green, blue = np.uint32(8 * numbers[0]), np.uint32(8 * numbers[1]), np.uint32(8 * numbers[2])
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        new[i] = pack((old[i] >> red) & 255, (old[i] >> green) & 255, (old[i] >> blue) & 255)


@compiled
def mirror(source, target, numbers):
    """Swap left and right."""
    height, width = source.shape
    for y in range(height):
        for x in range(width):
            target[y, x] = source[y, width - 1 - x]


@compiled
def upend(source, target, numbers):
    """Swap top and bottom."""
    for y in range(len(source)):
        target[y] = source[len(source) - 1 - y]


@compiled
def operate(number, source, target, numbers):
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
        upend(source, target, numbers)
    elif number == 13:
        sharpness(source, target, numbers)
    elif number == 14:
        warp(source, target, numbers)
    elif number == 15:
        permute(source, target, numbers)
    else:
        blur(source, target, numbers)


NAMES = operate.py_func.__code__.co_names
"""The operations by number: Python lists the globals of a function in the order in which they appear."""
