"""The way to the compiled code of `kernel`: whether it is there, and in which order this Pillow resamples."""

import importlib.util
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.batches.once import Once

BYTES = np.arange(256, dtype=np.uint8)[None].repeat(3, 0)
"""What is written for each byte of each channel if they are to stay as they are, [3, 256]."""

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
"""Height and width before and after: on both sides of each limit at which a Pillow changes the order of its passes."""

DISABLED = "NUMBA_DISABLE_JIT is set"


class PixelSource(NamedTuple):
    """The pixels that an image is made of; the first fields of `kernel.JOB`."""

    decoder: int
    data: int
    size: int
    decoded_height: int
    pitch: int
    top: int
    left: int
    height: int
    width: int


class Span(NamedTuple):
    """One dimension of an image: so many pixels become so many, of which some are wanted; further fields of it."""

    size_in: int
    size_out: int
    first: int = 0  # of those that are wanted
    source: int = 0  # the first pixel that these are made of


# Any: a row of `kernel.JOB`.
def job_of(
    source: PixelSource, down: Span, across: Span, filter_number: int, *, flip: bool, place: int
) -> tuple[Any, ...]:
    """Describe an image to make: all fields of `kernel.JOB`."""
    return *source, *down, *across, filter_number, flip, place, 0


class Kernel:
    """Compiled code that makes images.

    Args:
        code: The module `kernel`.

    Attributes:
        is_exact: Whether it does what this Pillow does.
    """

    def __init__(self, code: ModuleType) -> None:
        self._code = code
        self._floats = Once(self._compile_floats, None)
        self.is_exact = True
        for self._order in (code.SHRINKING, code.TALL, code.NEVER):
            if all(self._is_like_pillow(*probe) for probe in _PROBES):
                return
        self.is_exact = False

    # Any: of either dtype.
    def compile(self, dtype: np.dtype[Any]) -> None:
        """Compile what writes numbers of a type: uint8, as which all is compiled from the start, or float32."""
        if dtype == np.float32:
            self._floats()

    def _compile_floats(self) -> None:
        self.render([], 0, (1, 1), BYTES.astype(np.float32), np.empty((0, 3), np.float32), is_last=False)

    # Any: tuples of numbers, arrays of either dtype.
    def render(
        self,
        jobs: list[tuple[Any, ...]],
        decompress: int,
        size: tuple[int, int],
        values: NDArray[Any],
        out: NDArray[Any],
        *,
        is_last: bool,
    ) -> list[int]:
        """Make images.

        Args:
            jobs: What `job_of` returned.
            decompress: Address of `tj3Decompress8`.
            size: Height and width of each image.
            values: What to write for each byte of each channel, [3, 256]: `BYTES`, or float32.
            out: Rows of its dtype, [n, 3 * height * width].
            is_last: Whether an image is [height, width, 3]; otherwise [3, height, width].

        Returns:
            Which rows were not written: their images could not be decoded.
        """
        work = np.array(jobs, self._code.JOB)
        arguments = work, decompress, *size, values, out, is_last, self._order
        try:
            self._code.render(*arguments)
        except (MemoryError, ArithmeticError):
            raise
        except Exception:  # noqa: BLE001 - numba raises whatever comes when a disk is full, or what it kept is damaged
            self._code.keep_nothing()
            self._code.render(*arguments)
        failed: list[int] = work["place"][work["failed"] != 0].tolist()
        return failed

    def resize(self, pixels: NDArray[np.uint8], height: int, width: int, mode: str) -> NDArray[np.uint8]:
        """Resample an image, as Pillow does to the last bit if `is_exact`.

        Args:
            pixels: uint8 [h, w, 3]; rows may have gaps between them.
            height: Of what comes out.
            width: As well.
            mode: "bilinear" or "bicubic".

        Returns:
            uint8 [height, width, 3].
        """
        if pixels.strides[1:] != (3, 1):
            pixels = np.ascontiguousarray(pixels)
        rows, columns, _ = pixels.shape
        source = PixelSource(0, address_of(pixels), 0, 0, pixels.strides[0], 0, 0, rows, columns)
        down, across = Span(rows, height), Span(columns, width)
        job = job_of(source, down, across, self.filter_number(mode), flip=False, place=0)
        made = np.empty((1, 3 * height * width), np.uint8)
        self.render([job], 0, (height, width), BYTES, made, is_last=True)
        return made.reshape(height, width, 3)

    def filter_number(self, mode: str) -> int:
        """Return what "bilinear" or "bicubic" is called in a job: its support is one pixel more than that."""
        found: int = self._code.FILTERS[mode]
        return found

    def _is_like_pillow(self, height: int, width: int, new_height: int, new_width: int) -> bool:
        pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        for mode, resampling in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
            right = np.asarray(Image.fromarray(pixels).resize((new_width, new_height), resampling))
            if not np.array_equal(self.resize(pixels, new_height, new_width, mode), right):
                return False
        return True


def kernel() -> Kernel | None:
    """Return the compiled code; None without numba."""
    found = _loaded()
    return found if isinstance(found, Kernel) else None


def why_not_compiled() -> str:
    """Say why `kernel` returns None; "" if it does not."""
    found = _loaded()
    return found if isinstance(found, str) else ""


def _load() -> Kernel | str:
    """Import numba and compile; return why not if that cannot be."""
    if importlib.util.find_spec("numba") is None:  # the extra recordzoo[fast] is not installed
        return "numba is not installed"
    try:
        from numba import config
    except Exception as err:  # noqa: BLE001 - no LLVM, NumPy too new; anything, if an import was interrupted before
        return f"numba cannot be imported ({type(err).__name__}: {err})"
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # it is set when numba reads its environment
        return DISABLED
    from recordzoo.batches import kernel as code

    return Kernel(code)


_loaded: Once[Kernel | str] = Once(_load, "this process was forked while numba was compiling")


def address_of(array: NDArray[np.uint8]) -> int:
    """Return where in memory an array begins: faster than `array.ctypes`."""
    found: int = array.__array_interface__["data"][0]
    return found
