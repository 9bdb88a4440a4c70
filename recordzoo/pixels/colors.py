# mypy: ignore-errors
# Python for numba, which infers its types itself.
"""Operations that compute each pixel from that pixel alone, or look its bytes up in a table.

A pixel is a uint32: red in the lowest byte, then green and blue; the highest byte is unused. An operation takes
``(source, target, numbers)``: two images, uint32 [H, W], and up to eight numbers, float64; it writes all of the target.
Values are float32 wherever Pillow's are.
"""

import numpy as np

from recordzoo.pixels.jit import compiled

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
        red, green, blue = (
            np.int32(channel(old[i], 0)),
            np.int32(channel(old[i], 8)),
            np.int32(channel(old[i], 16)),
        )
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
