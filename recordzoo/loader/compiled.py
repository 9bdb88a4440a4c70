"""Call the compiled code, and compile it: in this process, or in a spare one while Pillow makes the batches.

It is compiled once: in one thread of a process, in one process of a machine at a time. A lock and a stamp, which says
that all is compiled, are files beside numba's cache. `Compiled` tests which results equal those of Pillow, torch and
torchvision bit for bit.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import get_worker_info
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

from recordzoo.base import settings
from recordzoo.base.process import BACKGROUND, Once
from recordzoo.base.progress import is_terminal
from recordzoo.loader.plan import Arithmetic, PixelOp, Size
from recordzoo.loader.table import PIXEL_OPS, CompiledOp, compiled_form, on_picture
from recordzoo.records.arrays import AnyArray

BYTES = np.arange(256, dtype=np.uint8)[None].repeat(3, 0)
"""The value to write for each byte of each channel, [3, 256]: the byte itself."""

DISABLED = "NUMBA_DISABLE_JIT is set"
OFF = "RECORDZOO_COMPILE is off"

_LOOK_S = 0.5
"""Interval between checks of the spare process."""

_PROBES = (
    (40, 30, 12, 20),
    (40, 30, 20, 20),
    (40, 30, 19, 20),
    (30, 40, 20, 60),
    (30, 40, 60, 20),
    (20, 20, 40, 50),
    (300, 3, 50, 5),
    (301, 3, 50, 5),
)
"""Height and width before and after resizing, on both sides of each limit where a Pillow version swaps its passes."""

_CHANGES_PROBE = 37, 41

_PROGRAM = """
import sys
import filelock
from recordzoo.base.process import lower_priority

lock = filelock.FileLock(sys.argv[1], timeout=1.0, mode=0o666)
try:
    lock.acquire()
except filelock.Timeout:
    sys.exit()
lower_priority()
from recordzoo.loader import compiled

compiled.has_lock = True
sys.exit(compiled.compiled_code() is None)
"""
"""What the spare process runs. The lock comes first: all such processes but one end before they import torch."""

_LOCK = "recordzoo.lock"

_PATIENCE_S = 300.0
"""Longest wait for another process that compiles; after that this process compiles too."""

has_lock = False
"""Whether this process has the lock, and compiles for all processes of the machine."""


def _started(lock: Path) -> "subprocess.Popen[bytes]":
    """Start the process that compiles in parallel to this one; it ends at once if another one of the machine compiles.

    It outlives this process: otherwise scripts that end within seconds would never finish compiling. It ends by itself
    within about a minute. Ctrl-C and the terminal do not reach it.
    """
    package = os.fspath(Path(__file__).parents[2])
    path = os.pathsep.join([package, *(os.path.abspath(entry) for entry in sys.path if entry)])
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, os.fspath(lock)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=lock.parent,
        env={**os.environ, "RECORDZOO_COMPILE": "wait", "PYTHONPATH": path},
        start_new_session=True,
        creationflags=BACKGROUND,
    )


class PixelSource(NamedTuple):
    """The source pixels of an image."""

    decoder: int  # a decompressor of libjpeg-turbo that is ready for the image; 0 if it needs none
    data: int  # address of the JPEG file, or of the first pixel if it needs no decoding
    size: int  # bytes of the file
    decoded_height: int  # rows that the decompressor writes
    pitch: int  # bytes from one row of pixels to the next
    top: int  # the first row and column of these pixels to resample
    left: int
    height: int  # rows and columns to resample
    width: int


class Span(NamedTuple):
    """One dimension of an image: sizes before and after resizing, and the requested part."""

    size_in: int
    size_out: int
    first: int = 0  # the first requested output pixel
    source: int = 0  # the first input pixel needed for it


class Job(NamedTuple):
    """An image to render."""

    source: PixelSource
    down: Span
    across: Span
    filter: int = 0  # numbers of `Compiled.numbers_of`
    weights: int = 0
    flip: int = 0  # as of `render.Shape`
    place: int = 0  # the number of the image in the output
    failed: int = 0  # written: what the decompressor returned


_SOURCE, _SPAN, _JOB = ([(name, np.int64) for name in kind._fields] for kind in (PixelSource, Span, Job))

JOB = np.dtype([("source", _SOURCE), ("down", _SPAN), ("across", _SPAN), *_JOB[3:]], align=True)
"""A `Job` for compiled code."""


class Compiled:
    """Compiled code that renders images. The constructor compiles (or loads from the cache) all but color changes.

    Attributes:
        exact: The libraries whose resampling is reproduced bit for bit, on this machine and in the installed versions.
    """

    def __init__(self) -> None:
        from recordzoo.loader import kernels, run  # import numba

        self._run, self._names = run, kernels.NAMES
        found: set[Arithmetic] = set()
        for self._order in (run.SHRINKING, run.TALL, run.NEVER):
            if all(self._resamples_like("Pillow", *probe) for probe in _PROBES):
                found.add("Pillow")
                break
        if all(self._resamples_like("torch", *probe) for probe in _PROBES):
            found.add("torch")
        self.exact: frozenset[Arithmetic] = frozenset(found)
        self.render([], 0, (1, 1), BYTES.astype(np.float32), np.empty((0, 3), np.float32), is_last=False)
        none = np.empty(0, np.int64)
        for values in (BYTES, BYTES.astype(np.float32)):
            images = torch.from_numpy(np.empty((0, 3, 1, 1), values.dtype))
            data = np.frombuffer(bytes(3), np.uint8)
            self.move(images, data, none, (3, 3, 1), (1, 1), none.reshape(0, 4), none, values)
        self.load_changes = Once(self._exact_changes, frozenset[str]())

    @property
    def exact_changes(self) -> frozenset[str]:
        """The color changes that reproduce torchvision's bytes; plans that only move pixels do not load their code."""
        return self.load_changes()

    def render(
        self, jobs: list[Job], decompress: int, size: Size, values: AnyArray, out: AnyArray, *, is_last: bool
    ) -> list[int]:
        """Render images.

        Args:
            jobs: The images.
            decompress: Address of `tj3Decompress8`.
            size: Height and width of each image.
            values: The value to write for each byte of each channel, [3, 256]: `BYTES`, or float32.
            out: Rows of the same dtype, [n, 3 * height * width].
            is_last: Whether an image is [height, width, 3]; otherwise [3, height, width].

        Returns:
            The rows that were not written, because their images could not be decoded.
        """
        work = np.array(jobs, JOB)
        _call(self._run.render, work, decompress, *size, values, out, is_last, self._order)
        failed: list[int] = work["place"][work["failed"] != 0].tolist()
        return failed

    def move(self, images: torch.Tensor, *stored: Any) -> None:
        """Write stored images of one shape, moved by whole pixels.

        Args:
            images: [m, channels, h, w], contiguous or channels-last.
            stored: The arguments of `run.move` before its output.
        """
        out = images.as_strided((images.numel(),), (1,)).numpy()
        _call(self._run.move, *stored, out, tuple(images.shape[2:]), images.stride())

    def resize(
        self, pixels: NDArray[np.uint8], height: int, width: int, mode: str, like: Arithmetic = "Pillow"
    ) -> NDArray[np.uint8]:
        """Resample an image.

        Args:
            pixels: uint8 [h, w, 3]; rows may have gaps between them.
            like: The library whose bytes to reproduce, if it is in `exact`.

        Returns:
            uint8 [height, width, 3].
        """
        if pixels.strides[1:] != (3, 1):
            pixels = np.ascontiguousarray(pixels)
        rows, columns, _ = pixels.shape
        source = PixelSource(0, address_of(pixels), 0, 0, pixels.strides[0], 0, 0, rows, columns)
        job = Job(source, Span(rows, height), Span(columns, width), *self.numbers_of(mode, like))
        made = np.empty((1, 3 * height * width), np.uint8)
        self.render([job], 0, (height, width), BYTES, made, is_last=True)
        return made.reshape(height, width, 3)

    def numbers_of(self, mode: str, like: Arithmetic) -> tuple[int, int]:
        """Return a job's numbers for `mode` ("bilinear" or "bicubic": support minus one pixel) and for the weights."""
        return self._run.FILTERS[mode], self._run.WEIGHTS[like]

    def change(
        self,
        images: NDArray[np.uint8],
        places: Sequence[int],
        size: Size,
        changes: Sequence[Sequence[CompiledOp]],
        values: AnyArray,
        out: AnyArray,
        *,
        is_last: bool,
    ) -> None:
        """Change the pixels of images and write them as rows of a batch.

        Args:
            images: uint8 [N, height * width * 3].
            places: The row of each image, in `images` and in `out`.
            size: Height and width of each.
            changes: The changes of each, in their order.
            values: The value to write for each byte of each channel, [3, 256].
            out: Rows of the same dtype, [N, 3 * height * width].
            is_last: Whether an image is written as [height, width, 3]; otherwise as [3, height, width].
        """
        found = []
        for number, each in enumerate(changes):
            for name, numbers in each:
                found.append((number, self._names.index(name), (*numbers, *(0.0,) * (10 - len(numbers)))))
        operations = np.array(found, self._run.OPERATION)
        rows = np.array(places, np.int64)
        _call(self._run.change, images, rows, *size, operations, values, out, is_last)

    def _resamples_like(self, like: Arithmetic, height: int, width: int, new_height: int, new_width: int) -> bool:
        pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels)
        for mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC):
            if like == "Pillow":
                right = np.asarray(picture.resize((new_width, new_height), Image.Resampling[mode.name]))
            else:
                image = functional.resize(functional.pil_to_tensor(picture), [new_height, new_width], mode)
                right = image.permute(1, 2, 0).numpy()
            if not np.array_equal(self.resize(pixels, new_height, new_width, mode.value, like), right):
                return False
        return True

    def _exact_changes(self) -> frozenset[str]:
        """Compile the color changes, and compare them with torchvision's."""
        found = frozenset(name for name in PIXEL_OPS if self._changes_like_torchvision(name))
        values, out = BYTES.astype(np.float32), np.empty((0, 3), np.float32)
        self.change(np.empty((0, 3), np.uint8), [], (1, 1), [], values, out, is_last=False)
        return found

    def _changes_like_torchvision(self, name: str) -> bool:
        pixels = np.random.default_rng(0).integers(0, 256, (*_CHANGES_PROBE, 3), dtype=np.uint8)
        for arguments in PIXEL_OPS[name].probes:
            probe = PixelOp(name, arguments)
            asked = compiled_form(probe, _CHANGES_PROBE)
            assert asked is not None
            right = np.asarray(on_picture(probe, Image.fromarray(pixels))).astype(np.int16)
            made = np.empty((1, pixels.size), np.uint8)
            self.change(pixels.reshape(1, -1), [0], _CHANGES_PROBE, [[asked]], BYTES, made, is_last=True)
            if np.abs(made.reshape(right.shape) - right).max() > PIXEL_OPS[name].tolerance:
                return False
        return True


def _call(function: Callable[..., Any], *arguments: Any) -> None:
    """Call compiled code; if numba's disk cache fails, compile without it."""
    try:
        function(*arguments)
    except (MemoryError, ArithmeticError):
        raise
    except Exception:  # noqa: BLE001 - numba raises anything when a disk is full, or its files are damaged
        from recordzoo.loader.kernels import stop_caching

        stop_caching()  # type: ignore[no-untyped-call]  # numba has no types
        function(*arguments)


def address_of(array: NDArray[np.uint8]) -> int:
    """Return the memory address of an array's first element; faster than `array.ctypes`."""
    found: int = array.__array_interface__["data"][0]
    return found


def compiled_code(*, waits: bool = True) -> Compiled | None:
    """Return the compiled code at the start of a loader.

    Args:
        waits: Whether to wait for the compilation. Otherwise it runs in the background, unless
            ``RECORDZOO_COMPILE=wait``.

    Returns:
        None without numba, or if the code is not compiled yet.
    """
    if why_not_compiled():
        return None
    if not _code.is_done and not _is_cached():
        if not waits and settings.compile_mode() == "background":
            _compile_beside()
            return None
        _say("compiling image code for this machine, once; it takes 10 to 60 seconds")
    return _code()


def compiled_now() -> Compiled | None:
    """Return the compiled code during an epoch, or None if it is not loaded.

    Checks every half second and loads in a thread.
    """
    global _next_look
    if _code.is_done:
        return None if why_not_compiled() else _code()
    if settings.compile_mode() == "wait":
        return compiled_code()
    if time.monotonic() > _next_look and not why_not_compiled():
        _next_look = time.monotonic() + _LOOK_S
        if _has_failed() or _is_cached():
            _code.begin()
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
    from recordzoo.loader import run  # noqa: F401

    return ""


def _load() -> Compiled:
    """Load the code; if it is not in the cache, compile all of it, while no other process of this machine does."""
    stamp = _stamp()
    if stamp is None or stamp.exists():
        return Compiled()
    lock = filelock.FileLock(stamp.with_name(_LOCK), mode=0o666)
    if not has_lock:
        with contextlib.suppress(filelock.Timeout, OSError, NotImplementedError):  # also a file system without locks
            lock.acquire(timeout=_PATIENCE_S)
    try:
        if not stamp.exists():
            made = Compiled()
            if _stamp() is not None:  # otherwise the cache failed during the work
                made.load_changes()
            if _stamp() is not None:
                with contextlib.suppress(OSError):  # then the next process waits for numba's cache
                    stamp.touch()
            return made
    finally:
        lock.release()
    return Compiled()


_why_not = Once(_check, "this process was forked while numba was imported")

_code: Once[Compiled | None] = Once(_load, None)

_spare: "subprocess.Popen[bytes] | None" = None

_next_look = 0.0


def _is_cached() -> bool:
    stamp = _stamp()
    return stamp is not None and stamp.exists()


def _compile_beside() -> None:
    """Start the spare process, or a thread if the cache is not writable. Worker processes start nothing."""
    global _spare
    if get_worker_info() is not None:
        return
    if is_terminal():
        _say("compiling for this machine in the background (once, about 20 s); until then about half the speed")
    stamp = _stamp()
    if stamp is None or _has_failed():
        _code.begin()
    elif _spare is None or _spare.poll() is not None:
        try:
            _spare = _started(stamp.with_name(_LOCK))
        except OSError:
            _code.begin()
        else:
            atexit.register(setattr, _spare, "returncode", 0)  # Popen would warn of a child without `wait`


def _has_failed() -> bool:
    """Whether the spare process failed. False if it was killed: it may be started again."""
    return _spare is not None and (_spare.poll() or 0) > 0


@functools.cache
def _say(text: str) -> None:
    """Say on stderr, once, why the first batches or epochs are slow; only on the first rank of a machine."""
    if not settings.quiet() and os.environ.get("LOCAL_RANK", "0") == "0":
        sys.stderr.write(f"recordzoo: {text}\n")


def _stamp() -> Path | None:
    """Return the file beside numba's cache that is there when all is compiled; None without a writable folder."""
    from recordzoo.loader.kernels import cache_folder

    folder = cache_folder()  # type: ignore[no-untyped-call]  # numba has no types
    return None if folder is None else Path(folder, _stamp_name())


@functools.cache
def _stamp_name() -> str:
    """Return a name with a hash of what compiled code depends on: stamps of other versions are ignored."""
    from recordzoo.loader.kernels import versions

    sources = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in Path(__file__).parent.glob("*.py")]
    known = repr((versions(), sorted(sources)))  # type: ignore[no-untyped-call]  # as above
    return f"recordzoo-{hashlib.sha256(known.encode()).hexdigest()[:16]}.ready"
