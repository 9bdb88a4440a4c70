"""Datasets of arrays from records: torchvision's PCAM, STL10, SVHN, ..., MedMNIST, and images in a grid of factors."""

import operator
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NoReturn, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import CIFAR10, FER2013, PCAM, SEMEION, STL10, SVHN, USPS, MovingMNIST, VisionDataset
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.text import TrainTest, TrainValTest
from recordzoo.datasets.arrays_recipe import MEDMNIST_SIZES, MEDMNIST_SPLITS, DSprites, SmallNORB, medmnist_part
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, ZooDataset, check_choice, checked
from recordzoo.families.derived import derived
from recordzoo.families.folders import SplitDataset, check_types
from recordzoo.families.selection import Selection
from recordzoo.images.decode import open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.reader import RecordReader


class FER2013Record(ArrayDataset, FER2013):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FER2013`, read from records; each split is a record set of its own.

    The raw data is got by hand from Kaggle: ``recordzoo prepare fer2013`` says how. Test images have no labels, and
    their target is None, if they came from ``test.csv``.
    """

    _ENTRY = "fer2013"
    _ITEMS = _LABELS = "_samples"
    _HAS_TENSORS = True
    _OUT_OF_RANGE = "list index out of range"

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = self._part = check_choice(split, "split", ("train", "test"))
        self._open_split(root, "", transform, target_transform, None, **options)

    @derived
    def _samples(self) -> list[tuple[torch.Tensor, int | None]]:
        count = len(self._selection)
        return [(torch.from_numpy(self._stored(number).copy()), self._stored_label(number)) for number in range(count)]

    @derived
    def targets(self) -> list[int | None]:  # type: ignore[override]  # torchvision's has None, too
        """The labels; None for images without one."""
        return [self._stored_label(number) for number in range(len(self._selection))]

    def _stored_label(self, number: int) -> int | None:
        label = self._selection.target(number)
        return None if label == NO_TARGET else int(label)

    def _member_md5s(self) -> dict[str, str]:
        return dict(self._RESOURCES.values())


class MovingMNISTRecord(ArrayDataset, MovingMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `MovingMNIST`, read from records: videos without labels.

    A sample is a tensor, uint8 [frames, 1, 64, 64]. ``data``, uint8 [n, frames, 1, 64, 64], is read into memory on
    first access (0.8 GB); from then on, changes to it show in the samples.

    Args:
        split: "train": the first frames of all videos; "test": the other frames; None: all frames.
        split_ratio: How many frames are the first, 1 to 19.
        transform: Applied to the video.

    Raises:
        TypeError: `split_ratio` is no int.
    """

    _ENTRY = "moving_mnist"
    _OUT_OF_RANGE = "index {index} is out of bounds for dimension 0 with size {length}"

    def __init__(
        self,
        root: Root,
        split: TrainTest | None = None,
        split_ratio: int = 10,
        download: bool = False,
        transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = None if split is None else check_choice(split, "split", ("train", "test"))
        if not isinstance(split_ratio, int):
            raise TypeError(f"`split_ratio` should be an integer, but got {type(split_ratio)}")
        if not 1 <= split_ratio <= 19:
            raise ArgumentError(f"`split_ratio` should be `1 <= split_ratio <= 19`, but got {split_ratio} instead.")
        self.split_ratio = split_ratio
        self._frames = slice(split_ratio if split == "test" else 0, split_ratio if split == "train" else None)
        self._open_split(root, "all", transform, download=download, **options)

    @derived
    def data(self) -> torch.Tensor:  # type: ignore[override]  # torchvision's is a tensor here
        """All videos, uint8 [n, frames, 1, 64, 64]."""
        return self._stacked(self._all_pixels())

    def _stacked(self, pixels: NDArray[np.uint8]) -> torch.Tensor:
        """Make tensors [..., frames, 1, 64, 64] of the split's frames of videos, uint8 [..., 20, 64, 64]."""
        return torch.from_numpy(pixels[..., self._frames, None, :, :].copy())

    # Any: what the transform makes of it.
    def __getitem__(self, idx: int) -> Any:
        """Return the video."""
        number = None if self._has("data") else self._number(idx)
        if number is None:
            return self._unusual_item(idx)
        video: Any = self._stacked(self._stored(number))
        return video if self.transform is None else self.transform(video)

    @property
    def targets(self) -> NoReturn:
        """Always empty."""
        raise AttributeError(f"{type(self).__name__} has no labels")

    def _batch_problem(self) -> str:
        return ZooDataset._batch_problem(self)


class PCAMRecord(SplitDataset[TrainValTest], ArrayDataset, PCAM):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `PCAM`, read from records; each split is a record set of its own.

    Converting needs ``h5py`` (``pip install h5py``) and room for an unpacked copy of the file; reading needs neither.
    """

    _ENTRY = "pcam"
    _SPLITS = ("train", "test", "val")
    _HAS_DATA = False
    _OUT_OF_RANGE = "Index ({from_start}) out of range for (0-{last})"  # h5py's words

    # Any: as declared by `ArrayDataset`.
    def _unusual_item(self, index: Any) -> Any:
        """Take integers only: torchvision hands the index to h5py, whose files may be gone."""
        return self[operator.index(index)]


class _LabelsDataset(ArrayDataset):
    """`ArrayDataset` whose torchvision class calls its labels ``labels``, and makes an int of each."""

    _INT_LABELS = True
    _LABELS = "labels"

    # Any: uint8 or int64.
    @derived
    def labels(self) -> NDArray[Any]:
        """The labels, int64 [n]."""
        return self._selection.targets()


class SEMEIONRecord(_LabelsDataset, SEMEION):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SEMEION`, read from records: 1,593 handwritten digits.

    Args:
        download: Download the file if it is not there; as in torchvision, the default.
    """

    _ENTRY = "semeion"

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = True,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._open_split(root, "all", transform, target_transform, download, **options)

    def _member_md5s(self) -> dict[str, str]:
        return {self.filename: self.md5_checksum}


class STL10Record(_LabelsDataset, STL10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `STL10`, read from records.

    Args:
        split: "train", "test", "unlabeled" or "train+unlabeled"; the label of unlabelled images is -1.
        folds: One of the 10 folds of the training images, from 0; None for all of them.
    """

    _ENTRY = "stl10"
    _CHANNELS_FIRST = True

    def __init__(
        self,
        root: Root,
        split: Literal["train", "train+unlabeled", "unlabeled", "test"] = "train",
        folds: int | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", self.splits)
        self.folds = checked(self._verify_folds, folds)
        self._open_split(root, split, transform, target_transform, download, **options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        if reader.manifest.classes is not None:
            self.classes = list(reader.manifest.classes)
        names = [
            f"fold{self.folds}" if name == "train" and self.folds is not None else name for name in split.split("+")
        ]
        return Selection(reader, positions=np.concatenate([reader.split(name) for name in names]))

    @derived
    def labels(self) -> NDArray[Any]:
        """The labels [n]; int64 if there are unlabelled images among them, otherwise uint8, as in torchvision."""
        dtype = np.int64 if "unlabeled" in self.split else np.uint8
        return self._selection.targets().astype(dtype)

    def _member_md5s(self) -> dict[str, str]:
        return dict(self.train_list + self.test_list)


class SVHNRecord(SplitDataset[Literal["train", "test", "extra"]], _LabelsDataset, SVHN):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SVHN`, read from records; each split is a record set of its own."""

    _ENTRY = "svhn"
    _SPLIT = "split"
    _CHANNELS_FIRST = True

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        self.url, self.filename, self.file_md5 = self.split_list[split]

    def _member_md5s(self) -> dict[str, str]:
        return {name: md5 for _, name, md5 in self.split_list.values()}


class USPSRecord(ArrayDataset, USPS):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `USPS`, read from records; each split is a record set of its own."""

    _ENTRY = "usps"
    _INT_LABELS = True

    @override
    def _chosen_split(self) -> str:
        self._part = super()._chosen_split()
        return self._part


class MedMNISTRecord(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """A set of MedMNIST, read from records. Targets are ints; of ChestMNIST arrays of 14 zeros and ones.

    Args:
        name: "pathmnist", "chestmnist", "dermamnist", ...: one of the 12 sets with images.
        size: Width and height of the images: 28, 64, 128 or 224.

    Examples:
        >>> dataset = MedMNISTRecord("data", "pathmnist", split="val")
        >>> image, label = dataset[0]
    """

    _ENTRY = "medmnist"

    def __init__(
        self,
        root: Root,
        name: str = "pathmnist",
        split: TrainValTest = "train",
        size: Literal[28, 64, 128, 224] = 28,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.name = check_choice(name, "name", catalogue.entry(self._ENTRY).default_parts)
        self.split = check_choice(split, "split", MEDMNIST_SPLITS)
        if size not in MEDMNIST_SIZES:
            raise ArgumentError(f"size must be 28, 64, 128 or 224; it is {size!r}.")
        self.size = size
        self._part = medmnist_part(name, size)
        self._open_split(root, split, transform, target_transform, download, **options)

    def extra_repr(self) -> str:
        """Name the set, its split and its size."""
        return f"Name: {self.name}\nSplit: {self.split}\nSize: {self.size}"

    # Any: a list of ints, or an array.
    @derived
    def targets(self) -> Any:
        """The labels: a list of ints; of ChestMNIST int64 [n, 14]."""
        found = self._selection.targets()
        return found if found.ndim > 1 else found.tolist()

    @derived
    def classes(self) -> list[str]:
        """The names of the classes; of ChestMNIST those of the findings."""
        return self._names_of("target")


class _InMemory(VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """An in-memory dataset; its ``__getitem__`` is used after ``data`` was read."""

    # Any: what the user assigned, and what the transforms make of it.
    def __getitem__(self, index: Any) -> Any:
        pixels, target = self.data[index], self.targets[index]
        image = self._picture(pixels)
        return self._transformed(image, target)


class _FactorsRecord(ArrayDataset, _InMemory):
    """Images with an argument that chooses the factor of the label; a list of factors gives a tuple of labels.

    Attributes:
        target_type: As given; a list if several were given.
        _FACTORS: All factors.
    """

    _FACTORS: ClassVar[Sequence[str]]
    _chosen_factors: list[str]
    target_type: str | list[str]

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return Selection(reader, split, column=self._chosen_factors[0])

    @derived
    def classes(self) -> list[str]:
        """The names of the first factor's labels; empty if they have none."""
        return self._names_of(self._chosen_factors[0])

    # Any: ints, or tuples of them.
    @derived
    def targets(self) -> list[Any]:
        """The labels: ints, or tuples of them if several factors are chosen."""
        columns = [self._selection.array(kind).tolist() for kind in self._chosen_factors]
        return columns[0] if isinstance(self.target_type, str) else list(zip(*columns, strict=True))

    # Any: as above.
    @override
    def _stored_label(self, number: int) -> Any:
        position = self._selection.position(number)
        found = [int(self._selection.reader.array(kind)[position]) for kind in self._chosen_factors]
        return found[0] if isinstance(self.target_type, str) else tuple(found)

    @override
    def _stored(self, number: int) -> NDArray[np.uint8]:
        reader = self._selection.reader
        found = [np.array(open_picture(reader, position)) for position in self._positions_of(number)]
        return np.stack(found) if len(found) > 1 else found[0]

    @override
    def _all_pixels(self) -> NDArray[np.uint8]:
        pixels = np.empty((len(self._selection), *self._stored(0).shape), np.uint8)
        for number in range(len(pixels)):
            pixels[number] = self._stored(number)
        return pixels


DSpritesFactor = Literal["shape", "scale", "orientation", "x", "y"]


class DSpritesRecord(_FactorsRecord):
    """dSprites, read from records: white sprites on black, each combination of five factors once.

    The order is the file's: y changes fastest, then x, orientation, scale, shape. Pixels are 0 or 255, where the file
    has 0 or 1: `ToTensor` gives the numbers of the file. ``data`` is uint8 [n, 64, 64], 3 GB. A label k means

    | factor | labels | value |
    | --- | --- | --- |
    | shape | 0 to 2 | square, ellipse, heart |
    | scale | 0 to 5 | 0.5 + k / 10 |
    | orientation | 0 to 39 | 2 pi k / 39; 0 and 39 are the same angle |
    | x, y | 0 to 31 | k / 31 |

    Converting needs ``h5py`` (``pip install h5py``); reading does not.

    Args:
        target_type: The factor that is the label, or a list of factors for a tuple of labels.

    Attributes:
        classes: The names of the shapes; empty if the first label is of another factor.
    """

    _ENTRY = "dsprites"
    _FACTORS = DSprites.factors

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        target_type: DSpritesFactor | Sequence[DSpritesFactor] = "shape",
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.target_type, self._chosen_factors = check_types(target_type, self._FACTORS)
        self._open_split(root, "all", transform, target_transform, download, **options)


SmallNORBFactor = Literal["category", "instance", "elevation", "azimuth", "lighting"]


class SmallNORBRecord(_FactorsRecord):
    """smallNORB, read from records: 50 toys of five categories, photographed by a pair of cameras from all sides.

    Each split is a record set of its own, and has other toys. A label k means

    | factor | labels | value |
    | --- | --- | --- |
    | category | 0 to 4 | animal, human, airplane, truck, car |
    | instance | 0 to 9 | which toy of the category |
    | elevation | 0 to 8 | 30 + 5 k degrees |
    | azimuth | 0 to 17 | 20 k degrees; the file has 2 k |
    | lighting | 0 to 5 | which lights were on |

    Args:
        camera: "left" or "right"; "both": instead of an image there is a tuple of both, as for `transform`. Transforms
            of v2 do the same to both.
        target_type: The factor that is the label, or a list of factors for a tuple of labels.

    Attributes:
        classes: The names of the categories; empty if the first label is of another factor.
        data: uint8 [n, 96, 96]; of both cameras [n, 2, 96, 96].

    Examples:
        >>> dataset = SmallNORBRecord("data", "test", camera="right", target_type=["category", "azimuth"])
        >>> image, (category, azimuth) = dataset[0]
    """

    _ENTRY = "smallnorb"
    _FACTORS = SmallNORB.factors

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        camera: Literal["left", "right", "both"] = "left",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        target_type: SmallNORBFactor | Sequence[SmallNORBFactor] = "category",
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = self._part = check_choice(split, "split", ("train", "test"))
        self.camera = check_choice(camera, "camera", ("left", "right", "both"))
        self.target_type, self._chosen_factors = check_types(target_type, self._FACTORS)
        self._open_split(
            root, f"{split}-right" if camera == "right" else split, transform, target_transform, download, **options
        )

    @override
    def _positions_of(self, number: int) -> Sequence[int]:
        left = self._selection.position(number)
        return (left, left + 1) if self.camera == "both" else (left,)

    # Any: an image, or a tuple of two.
    @override
    def _picture(self, pixels: NDArray[np.uint8]) -> Any:
        return tuple(map(Image.fromarray, pixels)) if self.camera == "both" else Image.fromarray(pixels)
