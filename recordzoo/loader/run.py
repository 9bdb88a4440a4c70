# mypy: ignore-errors
# Python for numba, which infers its types itself; mypy would see other ones.
"""Decode, resample, flip and write many images in one call, without the GIL.

The resampling equals Pillow's, or torch's for uint8 tensors, bit for bit: integer `weights`, rounded after the
horizontal and after the vertical pass. It takes a quarter of Pillow's time: both passes are one loop of vector
instructions over neighbouring bytes. For the horizontal pass, blocks of rows are transposed: the pixels of a column, of
four bytes each, are neighbours then.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from recordzoo.loader.kernels import LANES, compiled, decompress, load_byte, load_pixel, operate, pack, weighted_sum

PILLOW, TORCH = range(2)
"""The library of the weights."""

FILTERS = {"bilinear": 0, "bicubic": 1}
"""torchvision's names."""

WEIGHTS = {"Pillow": PILLOW, "torch": TORCH}
"""The library of the weights."""

NEVER, TALL, SHRINKING = range(3)
"""When the vertical pass comes first: until Pillow 12.1, in 12.2 and 12.3, since 13."""

_PILLOW_BITS = 22
_TORCH_LIMIT = 1 << 15
_BLOCK = 32  # rows transposed at once
_RGB = 0  # TJPF_RGB


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
def _floats(kind, span, number, values):
    """Write the weights of an output pixel, of sum 1; return its first source pixel and their number."""
    scale = span.size_in / span.size_out
    stretch = max(scale, 1.0)
    support = (1.0 if kind == 0 else 2.0) * stretch
    inverse = 1.0 / stretch
    center = (number + 0.5) * scale
    start = max(int(center - support + 0.5), 0)
    count = min(int(center + support + 0.5), span.size_in) - start
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
def _weights(kind, whose, span, count):
    """Compute the source pixels and weights of output pixels.

    Args:
        kind: The filter's number.
        whose: `PILLOW` or `TORCH`.
        span: A `Span`: the output pixels are those from `first` on.
        count: Number of output pixels.

    Returns:
        Each output pixel's first source pixel, relative to the span's `source`, and their number, int64 [count, 2]; the
        weights, int32 [count, taps]; the weights' number of fractional bits.
    """
    stretch = max(span.size_in / span.size_out, 1.0)
    most_taps = int(np.ceil((1.0 if kind == 0 else 2.0) * stretch)) * 2 + 1
    firsts, weights = np.empty((count, 2), np.int64), np.empty((count, most_taps), np.int32)
    floats = np.empty((span.size_out, most_taps), np.float64)
    largest = 0.0
    for number in range(span.size_out):  # torch's precision depends on the largest weight of the whole image
        row = floats[number]
        start, taps = _floats(kind, span, number, row)
        for tap in range(taps):
            largest = max(largest, row[tap])
        if span.first <= number < span.first + count:
            firsts[number - span.first, 0] = start - span.source
            firsts[number - span.first, 1] = taps
    bits = _torch_bits(largest) if whose == TORCH else _PILLOW_BITS
    for number in range(count):
        row = floats[number + span.first]
        for tap in range(firsts[number, 1]):
            weights[number, tap] = int((-0.5 if row[tap] < 0 else 0.5) + row[tap] * (1 << bits))
    return firsts, weights, bits


@compiled
def _turn(pixels, pitch, height, width, block):
    """Transpose a block of rows to uint32 [width, rows], one pixel per number."""
    for x in range(width - 1):
        for j in range(height):
            block[x, j] = load_pixel(np.uint64(pixels + j * pitch + 3 * x))
    for j in range(height):  # the last pixel of a row may be the last one in memory
        at = np.uint64(pixels + j * pitch + 3 * (width - 1))
        red, green, blue = load_byte(at), load_byte(at + np.uint64(1)), load_byte(at + np.uint64(2))
        block[width - 1, j] = pack(red, green, blue)


@compiled
def _narrow(pixels, owner, pitch, height, width, firsts, weights, bits, flip, out):
    """Resample rows: the horizontal pass.

    Args:
        pixels: Address of the first.
        owner: The array of the pixels: keeps the memory alive, because numba does not know that the address is in use.
        firsts, weights, bits: As returned by `_weights`.
        flip: Whether the last pixel is written first.
        out: uint32 [height or more, columns or more]: pixels of four bytes.
    """
    columns = len(firsts)
    block = np.empty((width, _BLOCK), np.uint32)
    turned = np.empty((columns, _BLOCK), np.uint32)
    pitch_of_block = 4 * _BLOCK
    for y in range(0, height, _BLOCK):
        count = min(_BLOCK, height - y)
        _turn(pixels + y * pitch, pitch, count, width, block)
        for x in range(columns):
            source = np.int64(block.ctypes.data) + firsts[x, 0] * pitch_of_block
            target = np.int64(turned.ctypes.data) + (columns - 1 - x if flip else x) * pitch_of_block
            factors = np.int64(weights.ctypes.data) + x * 4 * weights.shape[1]
            for start in range(0, 4 * count, LANES):
                weighted_sum(source + start, pitch_of_block, factors, firsts[x, 1], bits, target + start)
        for j in range(count):
            for x in range(columns):
                out[y + j, x] = turned[x, j]


@compiled
def _copied(pixels, pitch, height, width, flip, out):
    """Copy rows without a horizontal pass."""
    for y in range(height):
        for x in range(width):
            at = np.uint64(pixels + y * pitch + 3 * x)
            red, green, blue = load_byte(at), load_byte(at + np.uint64(1)), load_byte(at + np.uint64(2))
            out[y, width - 1 - x if flip else x] = pack(red, green, blue)


def _copy_lanes(chosen):
    """Return a compiled function that copies chosen bytes of `LANES` from one address to another."""

    @intrinsic
    def choose(typing_context, source, target):
        byte = ir.IntType(8)
        kind, part = ir.VectorType(byte, LANES), ir.VectorType(byte, len(chosen))

        def generate(context, builder, signature, arguments):
            loaded = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))
            loaded.align = 1
            mask = ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)
            picked = builder.shuffle_vector(loaded, loaded, mask)
            builder.store(picked, builder.inttoptr(arguments[1], part.as_pointer())).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return choose


_pixels = _copy_lanes([at for at in range(LANES) if at % 4 < 3])
_reds, _greens, _blues = (_copy_lanes(list(range(channel, LANES, 4))) for channel in range(3))


@compiled
def write_row(row, width, y, values, out, is_last):
    """Write a row of pixels, four bytes each, into an image, [3, H, W] or [H, W, 3], as the values of their bytes."""
    size = len(out) // 3
    if out.itemsize == 1 and width >= LANES // 4:  # bytes as they are
        source, target = np.int64(row.ctypes.data), np.int64(out.ctypes.data)
        step = LANES // 4
        for number in range(-(-width // step)):
            x = min(number * step, width - step)
            if is_last:
                _pixels(source + 4 * x, target + 3 * (y * width + x))
            else:
                _reds(source + 4 * x, target + y * width + x)
                _greens(source + 4 * x, target + size + y * width + x)
                _blues(source + 4 * x, target + 2 * size + y * width + x)
        return
    pixels = row[: 4 * width].reshape((width, 4))
    if is_last:
        line = out[3 * width * y : 3 * width * (y + 1)].reshape((width, 3))
        for x in range(width):
            for c in range(3):
                line[x, c] = values[c, pixels[x, c]]
    else:
        for c in range(3):
            plane = out[c * size + width * y : c * size + width * (y + 1)]
            for x in range(width):
                plane[x] = values[c, pixels[x, c]]


@compiled
def _shortened(pixels, pitch, width, firsts, weights, bits):
    """Resample columns: the vertical pass, if it comes first. Returns pixels of 3 bytes, uint8 [rows, 3 * width]."""
    length = 3 * width
    out = np.empty((len(firsts), length), np.uint8)
    for y in range(len(firsts)):
        source = pixels + firsts[y, 0] * pitch
        factors = np.int64(weights.ctypes.data) + y * 4 * weights.shape[1]
        if length < LANES:  # so narrow that a vector read would go beyond the last pixel
            for j in range(length):
                total = np.int64(1) << (bits - 1)
                for tap in range(firsts[y, 1]):
                    total += np.int64(load_byte(np.uint64(source + tap * pitch + j))) * weights[y, tap]
                out[y, j] = np.uint8(min(max(total >> bits, 0), 255))
            continue
        target = np.int64(out.ctypes.data) + y * length
        for start in range(0, length - LANES + 1, LANES):
            weighted_sum(source + start, pitch, factors, firsts[y, 1], bits, target + start)
        weighted_sum(source + length - LANES, pitch, factors, firsts[y, 1], bits, target + length - LANES)
    return out


@compiled
def _is_vertical_first(order, job):
    """Whether the vertical pass comes first; depends on the sizes of the whole image."""
    less = job.down.size_in - job.down.size_out
    if less <= 0 or order == NEVER or job.weights == TORCH:
        return False
    if order == TALL:
        return job.down.size_in > 100 * job.across.size_in
    return less > 2 * (job.across.size_in - job.across.size_out)


@compiled
def _make(job, pixels, height, width, values, out, is_last, order):
    """Resample decoded pixels and write the image."""
    source, flips = job.source, job.flip & 1
    across_firsts, across, across_bits = _weights(job.filter, job.weights, job.across, width)
    down_firsts, down, down_bits = _weights(job.filter, job.weights, job.down, height)
    padded = -(-width // (LANES // 4)) * (LANES // 4)
    if _is_vertical_first(order, job):
        short = _shortened(pixels, source.pitch, source.width, down_firsts, down, down_bits)
        wide = np.empty((height, padded), np.uint32)
        pitch, address = 3 * source.width, np.int64(short.ctypes.data)
        _narrow(address, short, pitch, height, source.width, across_firsts, across, across_bits, flips, wide)
        rows = wide.view(np.uint8)
        for y in range(height):
            write_row(rows[y], width, height - 1 - y if job.flip & 2 else y, values, out, is_last)
        return
    wide = np.empty((source.height, padded), np.uint32)
    if job.across.size_in == job.across.size_out:
        start = pixels + 3 * (job.across.first - job.across.source)
        _copied(start, source.pitch, source.height, width, flips, wide)
    else:
        _narrow(
            pixels, wide, source.pitch, source.height, source.width, across_firsts, across, across_bits, flips, wide
        )
    row = np.empty(4 * padded, np.uint8)
    for y in range(height):
        source = np.int64(wide.ctypes.data) + down_firsts[y, 0] * 4 * padded
        factors = np.int64(down.ctypes.data) + y * 4 * down.shape[1]
        for start in range(0, 4 * padded, LANES):
            target = np.int64(row.ctypes.data) + start
            weighted_sum(source + start, 4 * padded, factors, down_firsts[y, 1], down_bits, target)
        write_row(row, width, height - 1 - y if job.flip & 2 else y, values, out, is_last)


@compiled
def render(jobs, function, height, width, values, out, is_last, order):
    """Render images.

    Args:
        jobs: An array of dtype `compiled.JOB`.
        out: [N, 3 * height * width], with the dtype of `values`: rows `place` are written.
        order: When the vertical pass comes first: `NEVER`; `TALL`, for images more than 100 times as high as wide whose
            height shrinks; `SHRINKING`, where the height loses more than twice as many pixels as the width.
    """
    largest = 0
    for job in jobs:
        if job.source.decoder:
            largest = max(largest, job.source.decoded_height * job.source.pitch)
    scratch = np.empty(largest, np.uint8)
    for number in range(len(jobs)):
        job = jobs[number]
        file = job.source
        pixels = np.int64(file.data)
        if file.decoder:
            pixels = np.int64(scratch.ctypes.data)
            jobs[number].failed = decompress(
                function, file.decoder, file.data, file.size, np.uint64(pixels), np.int32(file.pitch), np.int32(_RGB)
            )
            if jobs[number].failed:
                continue
        pixels += file.top * file.pitch + 3 * file.left
        _make(job, pixels, height, width, values, out[job.place], is_last, order)


OPERATION = np.dtype([("image", np.int64), ("number", np.int64), ("numbers", np.float64, 10)], align=True)
"""An operation on an image: the image's number, the operation's place in `kernels.NAMES`, the operation's numbers."""


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
            operate(operations[following].number, first, second, operations[following].numbers)
            first, second = second, first
            following += 1
        rows = first.view(np.uint8)
        for y in range(height):
            write_row(rows[y], width, y, values, out[places[number]], is_last)


@compiled
def move(data, starts, strides, size, moves, places, values, out, shape, out_strides):
    """Write stored images of one shape, moved by whole pixels; black outside; see `render.MovedWriter`.

    Args:
        data, starts, strides: As of `render.Pixels`.
        size: Height and width of the stored images.
        moves: As returned by `render.moves_of`.
        places: The number in the output of each.
        values: The value to write for each byte of each channel, [channels, 256].
        out: All numbers of the output, of the same dtype.
        shape: Height and width of an image in the output.
        out_strides: Numbers from one image, channel, row and column of the output to the next.
    """
    height, width = size
    rows, columns = shape
    step_out = out_strides[3]
    for number in range(len(starts)):
        y0, dy, x0, dx = moves[number]
        # The first column inside the stored image, and the first one after it.
        first = max(0, -x0 if dx > 0 else x0 - width + 1)
        end = max(first, min(columns, width - x0 if dx > 0 else x0 + 1))
        step = dx * strides[1]
        for channel in range(len(values)):
            table = values[channel]
            for row in range(rows):
                y = y0 + dy * row
                to = places[number] * out_strides[0] + channel * out_strides[1] + row * out_strides[2]
                if y < 0 or y >= height:
                    for column in range(columns):
                        out[to + column * step_out] = table[0]
                    continue
                at = starts[number] + y * strides[0] + x0 * strides[1] + channel * strides[2]
                for column in range(min(first, columns)):
                    out[to + column * step_out] = table[0]
                for column in range(first, end):
                    out[to + column * step_out] = table[data[at + column * step]]
                for column in range(end, columns):
                    out[to + column * step_out] = table[0]
