# mypy: ignore-errors
# What follows is Python for numba, which infers its types itself.
"""Operations that look each byte up in a table of 256, one for each channel."""

import numpy as np

from recordzoo.pixels.color import pack
from recordzoo.pixels.jit import compiled


@compiled
def _look_up(source, target, table):
    """Write each byte's entry of its channel's table, uint8 [3, 256]."""
    old, new = source.ravel(), target.ravel()
    for i in range(len(old)):
        red, green, blue = old[i] & 255, (old[i] >> 8) & 255, (old[i] >> 16) & 255
        new[i] = pack(table[0, red], table[1, green], table[2, blue])


@compiled
def _histogram(source):
    """Return how often each byte is in each channel, int64 [3, 256]."""
    counts = np.zeros((3, 256), np.int64)
    old = source.ravel()
    for i in range(len(old)):
        counts[0, old[i] & 255] += 1
        counts[1, (old[i] >> 8) & 255] += 1
        counts[2, (old[i] >> 16) & 255] += 1
    return counts


@compiled
def posterize(source, target, numbers):
    """Keep so many of the high bits."""
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
    """Spread the bytes of each channel, so that all are about equally frequent."""
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
