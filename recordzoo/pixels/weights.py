# mypy: ignore-errors
# Python for numba, which infers its types itself.
"""The integer weights of resampling: the source pixels of each output pixel, and their weights.

Pillow (`Resample.c`) and torch (`UpSampleKernel.cpp`, for uint8 tensors) compute the same floats. Pillow's weights have
22 fractional bits. torch's have 16 bits in total: the largest weight determines the number of fractional bits.
"""

import numpy as np

from recordzoo.pixels.jit import compiled

PILLOW, TORCH = range(2)
"""The library of the weights."""

_PILLOW_BITS = 22
_TORCH_LIMIT = 1 << 15


@compiled
def _value(kind, x):
    """Return a filter's value at a distance."""
    x = abs(x)
    if kind == 0:
        return 1.0 - x if x < 1.0 else 0.0
    a = -0.5
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    if x < 2.0:
        return (((x - 5) * x + 8) * x - 4) * a
    return 0.0


@compiled
def _floats(kind, size_in, size_out, number, values):
    """Write the weights of an output pixel, of sum 1; return its first source pixel and their number."""
    scale = size_in / size_out
    stretch = max(scale, 1.0)
    support = (1.0 if kind == 0 else 2.0) * stretch
    inverse = 1.0 / stretch
    center = (number + 0.5) * scale
    start = max(int(center - support + 0.5), 0)
    count = min(int(center + support + 0.5), size_in) - start
    total = 0.0
    for tap in range(count):
        values[tap] = _value(kind, (tap + start - center + 0.5) * inverse)
        total += values[tap]
    if total != 0.0:
        for tap in range(count):
            values[tap] /= total
    return start, count


@compiled
def _torch_bits(largest):
    """Return the number of fractional bits of torch's weights, from the image's largest weight."""
    bits = 0
    while bits < _PILLOW_BITS and int(0.5 + largest * (1 << (bits + 1))) < _TORCH_LIMIT:
        bits += 1
    return bits


@compiled
def compute_weights(kind, whose, size_in, size_out, first, source, firsts, weights):
    """Compute the source pixels and weights of output pixels; return the weights' number of fractional bits.

    Args:
        kind: The filter's number.
        whose: `PILLOW` or `TORCH`.
        size_in: Pixels of the whole source.
        size_out: Pixels of the whole output.
        first: The first output pixel to compute; `firsts` has one row per output pixel.
        source: The first source pixel present.
        firsts: Written: each output pixel's first source pixel, relative to `source`, and their number; int64 [n, 2].
        weights: Written: int32 [n, taps].
    """
    floats = np.empty((size_out, weights.shape[1]), np.float64)
    largest = 0.0
    for number in range(size_out):  # torch's precision depends on the largest weight of the whole image
        row = floats[number]
        start, count = _floats(kind, size_in, size_out, number, row)
        for tap in range(count):
            largest = max(largest, row[tap])
        if first <= number < first + len(firsts):
            firsts[number - first, 0] = start - source
            firsts[number - first, 1] = count
    bits = _torch_bits(largest) if whose == TORCH else _PILLOW_BITS
    for number in range(len(firsts)):
        row = floats[number + first]
        for tap in range(firsts[number, 1]):
            weights[number, tap] = int((-0.5 if row[tap] < 0 else 0.5) + row[tap] * (1 << bits))
    return bits


@compiled
def most_taps(kind, size_in, size_out):
    """Return the largest number of weights of an output pixel."""
    stretch = max(size_in / size_out, 1.0)
    return int(np.ceil((1.0 if kind == 0 else 2.0) * stretch)) * 2 + 1
