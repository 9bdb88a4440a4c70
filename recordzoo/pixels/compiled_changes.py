"""The way to the compiled operations of `pixels`: which of them give torchvision's bytes."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.pixels.compiled import BYTES, kernel, run_compiled
from recordzoo.pixels.once import Once
from recordzoo.transforms.steps import Erase, Size
from recordzoo.transforms.table import PIXEL_OPS, Compiled

_PROBE_SIZE = 37, 41


class CompiledChanges:
    """Compiled code that changes pixels.

    Args:
        code: The module `pixels.run`.

    Attributes:
        exact: The operations that give what torchvision gives with the Pillow that is installed.
    """

    def __init__(self, code: ModuleType) -> None:
        self._code = code
        self._number = {name: number for number, name in enumerate(code.NAMES)}
        self._floats = Once(self._compile_floats, None)
        self.exact = frozenset(name for name in PIXEL_OPS if self._is_like_torchvision(name))

    def run(
        self,
        images: NDArray[np.uint8],
        places: Sequence[int],
        size: Size,
        changes: Sequence[Sequence[Compiled]],
        values: NDArray[Any],  # Any: of either dtype
        out: NDArray[Any],
        *,
        is_last: bool,
    ) -> None:
        """Change images and write them as rows of a batch.

        Args:
            images: uint8 [N, height * width * 3].
            places: The number of each image's row, in `images` as in `out`.
            size: Height and width of each.
            changes: What happens to each, in its order.
            values: What to write for each byte of each channel, [3, 256].
            out: Of its dtype, [N, 3 * height * width].
            is_last: Whether an image is written as [height, width, 3]; otherwise as [3, height, width].
        """
        found = []
        for number, each in enumerate(changes):
            for name, numbers in each:
                found.append((number, self._number[name], (*numbers, *(0.0,) * (8 - len(numbers)))))
        operations = np.array(found, self._code.OPERATION)
        rows = np.array(places, np.int64)
        run_compiled(self._code.change, images, rows, *size, operations, values, out, is_last)

    # Any: of either dtype.
    def erase(self, erased: Sequence[tuple[int, Erase]], out: NDArray[Any], size: Size, *, is_last: bool) -> None:
        """Erase boxes of rows of a batch, whose numbers come with them; the others are as in `run`."""
        boxes = [(place, box.top, box.left, box.height, box.width, box.values) for place, box in erased]
        run_compiled(self._code.erase, np.array(boxes, self._code.ERASURE), out, *size, is_last)

    # Any: as above.
    def compile(self, dtype: np.dtype[Any]) -> None:
        """Compile what writes numbers of a type: uint8, as which all is compiled from the start, or float32."""
        if dtype == np.float32:
            self._floats()

    def _compile_floats(self) -> None:
        out = np.empty((0, 3), np.float32)
        self.run(np.empty((0, 3), np.uint8), [], (1, 1), [], BYTES.astype(np.float32), out, is_last=False)
        self.erase([], out, (1, 1), is_last=False)

    def _is_like_torchvision(self, name: str) -> bool:
        pixels = np.random.default_rng(0).integers(0, 256, (*_PROBE_SIZE, 3), dtype=np.uint8)
        op = PIXEL_OPS[name]
        asked = op.compiled(_PROBE_SIZE, op.probe)
        assert asked is not None
        right = np.asarray(op.on_picture(Image.fromarray(pixels), op.probe)).astype(np.int16)
        made = np.empty((1, pixels.size), np.uint8)
        self.run(pixels.reshape(1, -1), [0], _PROBE_SIZE, [[asked]], BYTES, made, is_last=True)
        return bool(np.abs(made.reshape(right.shape) - right).max() <= op.tolerance)


def compiled_changes() -> CompiledChanges | None:
    """Return the compiled operations; None without numba."""
    return _loaded()


def _load() -> CompiledChanges | None:
    if kernel() is None:
        return None
    from recordzoo.pixels import run

    return CompiledChanges(run)


_loaded: Once[CompiledChanges | None] = Once(_load, None)
