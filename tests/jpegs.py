"""Compare `RecordLoader` with Pillow on damaged JPEGs: the same are refused, and any part has the same pixels.

Each file goes the whole way: into a tree, a record set, batches, whose threads use their decompressors again for one
file after another. Half of the sets have no marks, as those of earlier versions.
"""

import io
import itertools
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Subset
from torchvision.transforms import v2

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.errors import ImageError
from recordzoo.images.decode import JpegFrame, decode_rgb, open_encoded
from recordzoo.loader.loader import batch_options
from recordzoo.loader.making import cut, uniforms
from recordzoo.loader.plan import Crop, decide
from recordzoo.loader.samples import maker_of
from recordzoo.loader.source import Source
from recordzoo.recipes.recipe import PLAIN
from recordzoo.records.arrays import marks_name

MAX_PIXELS = 300_000
"""Pillow's limit meanwhile: sizes in headers are changed too, and twice as many pixels are refused."""

Right = NDArray[np.uint8] | Exception
_CROP = 24


class Disagreement(AssertionError):
    """A file that is not what Pillow says."""

    def __init__(self, what: str, data: bytes) -> None:
        super().__init__(f"{what}; the file, {len(data)} bytes: {data[:4000]!r}")


def pillows(data: bytes) -> Right:
    """Return the pixels that torchvision's loader gives, uint8 [H, W, 3], or what it raises."""
    try:
        return np.asarray(decode_rgb(data))
    except Exception as err:  # noqa: BLE001 - whatever Pillow raises
        return err


def check(files: Sequence[bytes], folder: Path, seed: int, *, with_marks: bool) -> Counter[str]:
    """Compare files with Pillow, without its warnings, and count what they were; one at least must be an image."""
    with warnings.catch_warnings(action="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", MAX_PIXELS)
        rights = [pillows(data) for data in files]
        (folder / "a").mkdir(parents=True)
        for number, data in enumerate(files):
            (folder / "a" / f"{number:06d}.jpg").write_bytes(data)
        transform = v2.Compose([v2.RandomCrop(_CROP), v2.PILToTensor()])
        dataset = ImageFolderRecord(folder, transform=transform)
        if not with_marks:
            (dataset.records_path / marks_name("image")).unlink()
            dataset = ImageFolderRecord(folder, transform=transform)
        good = [number for number, right in enumerate(rights) if isinstance(right, np.ndarray)]
        bad = [number for number, right in enumerate(rights) if isinstance(right, Exception)]
        large = [number for number in good if min(np.shape(rights[number])[:2]) > _CROP]
        _check_crops(dataset, files, rights, large, seed)
        _check_refused(dataset, files, rights, large, bad)
        counts = Counter({"refused": len(bad), "images": len(good)})
        marks = Source(dataset).leaves[0]._marks
        for number in good:
            right = rights[number]
            assert isinstance(right, np.ndarray)
            counts["plain"] += marks[number] == PLAIN
            _check_parts(files[number], right, seed + number)
        return counts


# Any, here and below: datasets and loaders of any kind.
def _check_crops(dataset: Any, files: Sequence[bytes], rights: Sequence[Right], large: list[int], seed: int) -> None:
    """Give images to a loader, and look at its crops."""
    plan = Source(dataset).leaves[0].views.plans[0]
    draws = uniforms(seed, 0, np.arange(len(large), dtype=np.int64), plan.num_draws)
    loader = RecordLoader(Subset(dataset, large), 64, num_workers=3, seed=seed)
    rows = itertools.chain.from_iterable(images for images, _ in loader)
    for number, row, found in zip(large, draws.tolist(), rows, strict=True):
        right = rights[number]
        assert isinstance(right, np.ndarray)
        (crop,) = decide(plan.steps, (right.shape[0], right.shape[1]), row)
        assert isinstance(crop, Crop)
        wanted = right[crop.top : crop.top + _CROP, crop.left : crop.left + _CROP]
        if not np.array_equal(found.permute(1, 2, 0).numpy(), wanted):
            raise Disagreement(f"other pixels in {crop}", files[number])


def _check_refused(
    dataset: Any, files: Sequence[bytes], rights: Sequence[Right], large: list[int], bad: list[int]
) -> None:
    """Make a piece of a batch of each that is no image, and of one that is: as a thread of a loader does."""
    loader = RecordLoader(dataset, 2, num_workers=3)
    source = Source(dataset)
    maker = maker_of(batch_options(loader))

    def work(number: int) -> None:
        pair = np.array([large[number % len(large)], number], np.int64)
        right, memory = rights[number], maker.memory(2)
        (piece,) = cut(pair, pair, source, (0, 0), 2)
        try:
            maker.make(piece, memory)
        except ImageError as err:
            if type(err.__cause__) is not type(right) or f"{number:06d}.jpg" not in str(err):
                raise Disagreement(f"{err.__cause__!r} instead of {right!r}", files[number]) from err
        except Exception as err:
            if type(err) is not type(right):
                raise Disagreement(f"{err!r} instead of {right!r}", files[number]) from err
        else:
            raise Disagreement(f"an image instead of {right!r}", files[number])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, bad))


def _check_parts(data: bytes, right: NDArray[np.uint8], seed: int) -> None:
    """Look at the whole, at a part, and at a part at a fraction of the size."""
    rng = np.random.default_rng(seed)
    height, width = right.shape[:2]
    left, top = int(rng.integers(width)), int(rng.integers(height))
    box = left, top, int(rng.integers(1, width - left + 1)), int(rng.integers(1, height - top + 1))
    frame = open_encoded(data)
    part = right[top : top + box[3], left : left + box[2]]
    wholes = frame.pixels(), open_encoded(data).pixels((0, 0, width, height))  # by simplejpeg, by libjpeg-turbo
    if (frame.height, frame.width) != (height, width) or not all(np.array_equal(each, right) for each in wholes):
        raise Disagreement("another whole", data)
    if not np.array_equal(open_encoded(data).pixels(box), part):
        raise Disagreement(f"another part {box}", data)
    if not isinstance(frame, JpegFrame):
        return
    denominator = min(2 ** int(rng.integers(1, 4)), 1 << min(height, width).bit_length() - 1)  # Pillow has none beyond
    small = frame.pixels(box, denominator)
    if small.shape == part.shape and np.array_equal(small, part):  # Pillow made it
        return
    with Image.open(io.BytesIO(data)) as image:
        image.draft(None, (width // denominator, height // denominator))
        reduced = np.asarray(image.convert("RGB"))
    rows, columns = small.shape[:2]
    y, x = top // denominator, left // denominator
    if not np.array_equal(small, reduced[y : y + rows, x : x + columns]):
        raise Disagreement(f"another part {box} at 1/{denominator}", data)
