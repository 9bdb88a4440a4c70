# mypy: ignore-errors
# numba has no types for what follows.
"""Compiling Python with numba: without the GIL, and kept on the disk for the next process."""

import numba

_KEPT = []


def compiled(function):
    """Compile a function at its first call; numba infers its types."""
    try:
        made = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # there is no folder for the results that can be written
        return numba.njit(nogil=True)(function)
    _KEPT.append(made)
    return made


def keep_nothing():
    """From now on, compile for this process alone: what is kept cannot be written, or not read."""
    for made in _KEPT:
        made._cache.disable()
