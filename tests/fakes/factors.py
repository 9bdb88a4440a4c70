"""dSprites and smallNORB by code, and plain readings of them: arrays in memory with several labels for each image."""

import gzip
import io
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

from tests.fakes import reading
from tests.fakes.fake import Case, by, fake
from tests.fakes.mutations import ARRAYS
from tests.fakes.scale import scaled

Files = dict[str, bytes]

_MUTATIONS = {name: change for name, change in ARRAYS.items() if name != "targets as array"}


class PlainArrays(reading.Reading):
    """Images and labels in memory."""

    data: NDArray[np.uint8]
    targets: list[Any]

    # Any: labels of each factor, one after another.
    def keep(self, target_type: Any, labels: dict[str, NDArray[Any]], names: Sequence[str]) -> list[str]:
        """Keep the labels of the wanted factors; return the names of the classes, if these are the targets."""
        kinds = [target_type] if isinstance(target_type, str) else target_type
        if not kinds:
            raise ValueError(f"target_type is {target_type!r}; it must name at least one of {', '.join(labels)}.")
        columns = [labels[kind].tolist() for kind in kinds]
        self.targets = columns[0] if isinstance(target_type, str) else list(zip(*columns, strict=True))
        return list(names) if kinds[0] == next(iter(labels)) else []

    # Any: an index; an image or two.
    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        pixels, target = self.data[index], self.targets[index]
        image: Any = Image.fromarray(pixels) if self.data.ndim == 3 else tuple(map(Image.fromarray, pixels))
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self) -> int:
        return len(self.data)


class PlainDSprites(PlainArrays, target_type=("shape", "scale", "orientation", "x", "y")):
    """The HDF5 file, with white as 255."""

    # Any: one kind of target, or several.
    def read(self, root: Path, *, target_type: Any = "shape") -> list[str]:
        path = root / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"
        with open(path, "rb") as raw, h5py.File(raw) as file:
            self.data = file["imgs"][()] * np.uint8(255)
            numbers = file["latents/classes"][()]
        labels = {factor: numbers[:, place] for place, factor in enumerate(self._choices["target_type"], 1)}
        return self.keep(target_type, labels, ["square", "ellipse", "heart"])


@fake(
    "dsprites",
    Case(
        "DSpritesRecord",
        ({}, *by("target_type", "y", ["orientation", "shape"])),
        by("target_type", "color", ["x", "z"], []),
        _MUTATIONS,
        sources=("tree",),  # the raw file is no archive
        theirs=PlainDSprites,
    ),
)
def dsprites(rng: Generator) -> Files:
    """Rectangles, and the number of each factor in a group of its own."""
    numbers = np.array(
        [[0, s, c, o, x, y] for s in range(3) for c in (0, 5) for o in (0, 39) for x in (0, 31) for y in (1,)]
    )
    numbers = np.concatenate([numbers] * scaled(1)).astype(np.int64)
    images = np.zeros((len(numbers), 64, 64), np.uint8)
    for image, (_, shape, scale, *_rest) in zip(images, numbers.tolist(), strict=True):
        top, left = rng.integers(0, 40, 2).tolist()
        image[top : top + 8 + shape, left : left + 8 + scale] = 1
    file = io.BytesIO()
    with h5py.File(file, "w", track_order=False) as container:
        options = {"track_times": False, "compression": "gzip"}
        container.create_dataset("imgs", data=images, chunks=(6, 64, 64), **options)
        latents = container.create_group("latents")
        latents.create_dataset("classes", data=numbers, chunks=numbers.shape, **options)
        latents.create_dataset("values", data=numbers / 2, chunks=numbers.shape, **options)
    return {"dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5": file.getvalue()}


_START = {"train": "smallnorb-5x46789x9x18x6x2x96x96-training", "test": "smallnorb-5x01235x9x18x6x2x96x96-testing"}


class PlainSmallNORB(
    PlainArrays,
    split=("train", "test"),
    camera=("left", "right", "both"),
    target_type=("category", "instance", "elevation", "azimuth", "lighting"),
):
    """The matrices in memory."""

    # Any: as above.
    def read(
        self, root: Path, split: str = "train", camera: str = "left", *, target_type: Any = "category"
    ) -> list[str]:
        start = Path(root, "smallnorb", _START[split])
        pairs, categories, info = (_read(Path(f"{start}-{kind}.mat")) for kind in ("dat", "cat", "info"))
        self.data = pairs if camera == "both" else pairs[:, ("left", "right").index(camera)]
        labels = {"category": categories, "instance": info[:, 0], "elevation": info[:, 1]}
        labels |= {"azimuth": info[:, 2] // 2, "lighting": info[:, 3]}
        return self.keep(target_type, labels, ["animal", "human", "airplane", "truck", "car"])


def _read(path: Path) -> NDArray[Any]:
    data = path.read_bytes()
    magic, dimensions = struct.unpack_from("<Ii", data)
    shape = struct.unpack_from(f"<{dimensions}i", data, 8)
    kind = {0x1E3D4C55: np.uint8, 0x1E3D4C54: np.int32}[magic]
    return np.frombuffer(data, kind, offset=8 + 4 * max(3, dimensions)).reshape(shape).copy()


# Any: of either dtype.
def _matrix(values: NDArray[Any]) -> bytes:
    """Write a matrix as the authors' page describes: a short one has three lengths all the same."""
    shape = (*values.shape, 1, 1)[: max(3, values.ndim)]
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[values.dtype.name]
    return gzip.compress(struct.pack(f"<Ii{len(shape)}i", magic, values.ndim, *shape) + values.tobytes(), mtime=0)


@fake(
    "smallnorb",
    Case(
        "SmallNORBRecord",
        (
            {},
            {"split": "test", "camera": "right", "target_type": "azimuth"},
            {"camera": "both", "target_type": ["lighting", "category", "elevation"]},
        ),
        (*by("split", "val", None), *by("camera", "middle"), *by("target_type", "pose", [])),
        _MUTATIONS,
        theirs=PlainSmallNORB,
    ),
)
def smallnorb(rng: Generator) -> Files:
    """Three matrices for each split: pairs, categories, and four numbers for each pair."""
    files = {}
    for split, count in (("train", scaled(12)), ("test", scaled(6))):
        pixels = np.repeat(rng.integers(0, 256, (count, 2, 96, 4), dtype=np.uint8), 24, axis=3)
        categories = (np.arange(count) % 5).astype(np.int32)
        info = rng.integers(0, (10, 9, 18, 6), (count, 4)).astype(np.int32) * np.array([1, 1, 2, 1], np.int32)
        for kind, values in (("dat", pixels), ("cat", categories), ("info", info)):
            files[f"{_START[split]}-{kind}.mat.gz"] = _matrix(values)
    return files
