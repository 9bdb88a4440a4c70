"""Get the compiled code: compiled once per machine, then loaded from numba's cache.

A loader starts with Pillow if that gives the same bits, while a spare process compiles. Other loaders wait.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import get_worker_info

from recordzoo.base import settings
from recordzoo.pixels.compiled import Compiled
from recordzoo.pixels.spare import Once, Spare, Stamps

T = TypeVar("T")

DISABLED = "NUMBA_DISABLE_JIT is set"
OFF = "RECORDZOO_COMPILE is off"

_LOOK_S = 0.5
"""Interval between checks of the spare process."""

_NOTICE_S = 2.0


def compiled_code(*, changes: bool = False, waits: bool = True) -> Compiled | None:
    """Return the compiled code at the start of a loader.

    Args:
        changes: Whether color changes are needed, too.
        waits: Whether to wait for the compilation. Otherwise it runs in the background, unless
            ``RECORDZOO_COMPILE=wait``.

    Returns:
        None without numba, or if the code is not compiled yet.
    """
    if why_not_compiled():
        return None
    parts = _parts(changes=changes)
    if not _are_loaded(parts):
        if not waits and settings.compile_mode() == "background" and not _are_cached(parts):
            _compile_beside(parts)
            return None
        with contextlib.nullcontext() if _are_cached(parts) else _notice():
            for load in parts.values():
                load()
    return _images()


def compiled_now(*, changes: bool = False) -> Compiled | None:
    """Return the compiled code during an epoch, or None if it is not loaded.

    Checks every half second and loads in a thread.
    """
    global _next_look
    parts = _parts(changes=changes)
    if _are_loaded(parts):
        return None if why_not_compiled() else _images()
    if settings.compile_mode() == "wait":
        return compiled_code(changes=changes)
    if time.monotonic() > _next_look and not why_not_compiled():
        _next_look = time.monotonic() + _LOOK_S
        if _spare.has_failed or _are_cached(parts):
            _begin(parts)
    return None


def why_not_compiled() -> str:
    """Return the reason why compiled code is unavailable for good; "" otherwise."""
    return OFF if settings.compile_mode() == "off" else _why_not()


def _check() -> str:
    """Import numba and the code to compile; return the reason if that is impossible."""
    if importlib.util.find_spec("numba") is None:  # no wheel for this machine, or not wanted
        return "numba is not installed"
    try:
        from numba import config
    except Exception as err:  # noqa: BLE001 - no LLVM, NumPy too new; anything, after an interrupted import
        return f"numba cannot be imported ({type(err).__name__}: {err})"
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # it is set when numba reads its environment
        return DISABLED
    from recordzoo.pixels import run  # noqa: F401

    return ""


def _load_images() -> Compiled | None:
    return _in_turn("images", Compiled)


def _load_changes() -> None:
    if (found := _images()) is not None:
        _in_turn("changes", found.load_changes)


_why_not = Once(_check, "this process was forked while numba was imported")
_images: Once[Compiled | None] = Once(_load_images, None)
_changes: Once[None] = Once(_load_changes, None)
_spare = Spare()
_next_look = 0.0


def _parts(*, changes: bool) -> dict[str, Once[Any]]:
    return {"images": _images, "changes": _changes} if changes else {"images": _images}


def _are_loaded(parts: dict[str, Once[Any]]) -> bool:
    return all(load.is_done for load in parts.values())


def _are_cached(parts: dict[str, Once[Any]]) -> bool:
    stamps = _stamps()
    return stamps is not None and all(map(stamps.has, parts))


def _begin(parts: dict[str, Once[Any]]) -> None:
    for load in parts.values():
        load.begin()


def _compile_beside(parts: dict[str, Once[Any]]) -> None:
    """Start the spare process, or a thread if the cache is not writable. Worker processes start nothing."""
    if get_worker_info() is not None:
        return
    stamps = _stamps()
    if stamps is not None and not _spare.has_failed:
        _spare.start(stamps.lock)
    if stamps is None or _spare.has_failed:
        _begin(parts)


def _in_turn(part: str, work: Callable[[], T]) -> T:
    """Compile or load a part, and record that it is compiled."""
    stamps = _stamps()
    if stamps is None or stamps.has(part):
        return work()
    made = stamps.compiled_in_turn(part, work)
    if _stamps() is not None:  # otherwise the cache failed during the work
        stamps.add(part)
    return made


def _stamps() -> Stamps | None:
    """Return the stamps beside numba's cache; None without a writable folder."""
    from recordzoo.pixels.jit import cache_folder

    folder = cache_folder()  # type: ignore[no-untyped-call]  # numba has no types
    return None if folder is None else _stamps_in(folder)


@functools.cache
def _stamps_in(folder: str) -> Stamps:
    from recordzoo.pixels.jit import versions

    sources = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in Path(__file__).parent.glob("*.py")]
    known = repr((versions(), sorted(sources)))  # type: ignore[no-untyped-call]  # as above
    return Stamps(Path(folder), hashlib.sha256(known.encode()).hexdigest()[:16])


@contextlib.contextmanager
def _notice() -> Iterator[None]:
    """Report the compilation on stderr if the block takes long."""
    if settings.quiet() or os.environ.get("LOCAL_RANK", "0") != "0":
        yield
        return
    text = "recordzoo: compiling image code for this machine, once; it takes 10 to 60 seconds\n"
    timer = threading.Timer(_NOTICE_S, lambda: sys.stderr.write(text))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
