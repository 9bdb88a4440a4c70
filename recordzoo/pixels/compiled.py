"""The way to the compiled code of `kernel`: whether it is there, and how this Pillow and this torch resample."""

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

from recordzoo.pixels.once import Once
from recordzoo.transforms.steps import Arithmetic

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
    source: PixelSource, down: Span, across: Span, numbers: tuple[int, int], *, flip: bool, place: int
) -> tuple[Any, ...]:
    """Describe an image to make: all fields of `kernel.JOB`; `numbers` are what `Kernel.numbers_of` returned."""
    return *source, *down, *across, *numbers, flip, place, 0


class Kernel:
    """Compiled code that makes images.

    Args:
        code: The module `kernel`.

    Attributes:
        exact: Which libraries' bytes it gives: those that are installed, and this processor's.
    """

    def __init__(self, code: ModuleType) -> None:
        self._code = code
        self._floats = Once(self._compile_floats, None)
        found: set[Arithmetic] = set()
        for self._order in (code.SHRINKING, code.TALL, code.NEVER):
            if all(self._is_like("Pillow", *probe) for probe in _PROBES):
                found.add("Pillow")
                break
        if all(self._is_like("torch", *probe) for probe in _PROBES):
            found.add("torch")
        self.exact: frozenset[Arithmetic] = frozenset(found)

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
        run_compiled(self._code.render, work, decompress, *size, values, out, is_last, self._order)
        failed: list[int] = work["place"][work["failed"] != 0].tolist()
        return failed

    def resize(
        self, pixels: NDArray[np.uint8], height: int, width: int, mode: str, like: Arithmetic = "Pillow"
    ) -> NDArray[np.uint8]:
        """Resample an image.

        Args:
            pixels: uint8 [h, w, 3]; rows may have gaps between them.
            height: Of what comes out.
            width: As well.
            mode: "bilinear" or "bicubic".
            like: Whose bytes come out, if it is in `exact`.

        Returns:
            uint8 [height, width, 3].
        """
        if pixels.strides[1:] != (3, 1):
            pixels = np.ascontiguousarray(pixels)
        rows, columns, _ = pixels.shape
        source = PixelSource(0, address_of(pixels), 0, 0, pixels.strides[0], 0, 0, rows, columns)
        down, across = Span(rows, height), Span(columns, width)
        job = job_of(source, down, across, self.numbers_of(mode, like), flip=False, place=0)
        made = np.empty((1, 3 * height * width), np.uint8)
        self.render([job], 0, (height, width), BYTES, made, is_last=True)
        return made.reshape(height, width, 3)

    def numbers_of(self, mode: str, like: Arithmetic) -> tuple[int, int]:
        """Return what "bilinear" or "bicubic" is called in a job (its support is one pixel more), and whose weights."""
        return self._code.FILTERS[mode], self._code.WEIGHTS[like]

    def _is_like(self, like: Arithmetic, height: int, width: int, new_height: int, new_width: int) -> bool:
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


# Any: numba's functions and their arguments.
def run_compiled(function: Callable[..., Any], *arguments: Any) -> None:
    """Call compiled code; if what numba keeps on the disk is in the way, without it."""
    try:
        function(*arguments)
    except (MemoryError, ArithmeticError):
        raise
    except Exception:  # noqa: BLE001 - numba raises whatever comes when a disk is full, or what it kept is damaged
        from recordzoo.pixels.jit import keep_nothing

        keep_nothing()  # type: ignore[no-untyped-call]  # numba has no types
        function(*arguments)


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
    if importlib.util.find_spec("numba") is None:  # there is no wheel for this machine, or it was not wanted
        return "numba is not installed"
    try:
        from numba import config
    except Exception as err:  # noqa: BLE001 - no LLVM, NumPy too new; anything, if an import was interrupted before
        return f"numba cannot be imported ({type(err).__name__}: {err})"
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # it is set when numba reads its environment
        return DISABLED
    from recordzoo.pixels import resample as code

    return Kernel(code)


_loaded: Once[Kernel | str] = Once(_load, "this process was forked while numba was compiling")


def address_of(array: NDArray[np.uint8]) -> int:
    """Return where in memory an array begins: faster than `array.ctypes`."""
    found: int = array.__array_interface__["data"][0]
    return found
