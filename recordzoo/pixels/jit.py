# mypy: ignore-errors
# numba has no types for this code.
"""Compiling Python with numba: without the GIL, cached on the disk; and machine instructions that numba lacks."""

import os
import sys

import llvmlite
import numba
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


def copy_lanes(chosen):
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
