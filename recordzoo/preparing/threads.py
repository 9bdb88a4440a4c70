"""Many small file operations at once: on a network drive each waits for an answer, so one by one they add up."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16
_AT_ONCE = 256


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield what a function returns for each item, in their order; at most 256 calls are ahead of the caller.

    Raises:
        Exception: What the function raised, at its place. Calls that were ahead of it are finished.
    """
    if len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(_THREADS, len(items)), "recordzoo-files") as pool:
        for start in range(0, len(items), _AT_ONCE):
            yield from pool.map(function, items[start : start + _AT_ONCE])
