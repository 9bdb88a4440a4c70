"""`DSpritesRecord` and `SmallNORBRecord`: images in a grid of factors, from records."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import VisionDataset
from typing_extensions import override

from recordzoo.base.text import TrainTest
from recordzoo.datasets.factors_recipe import DSprites, SmallNORB
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import check_types
from recordzoo.families.selection import Selection
from recordzoo.images.decode import open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader


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

    def _choose_factors(self, target_type: str | Sequence[str]) -> None:
        """Set the factor or factors of the label."""
        self._chosen_factors = check_types(target_type, self._FACTORS)
        self.target_type = target_type if isinstance(target_type, str) else self._chosen_factors.copy()

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
        self._start(root, transform=transform, target_transform=target_transform)
        self._choose_factors(target_type)
        self._show_split("all", download=download, options=options)


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
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = self._part = check_choice(split, "split", ("train", "test"))
        self.camera = check_choice(camera, "camera", ("left", "right", "both"))
        self._choose_factors(target_type)
        self._show_split(f"{split}-right" if camera == "right" else split, download=download, options=options)

    @override
    def _positions_of(self, number: int) -> Sequence[int]:
        left = self._selection.position(number)
        return (left, left + 1) if self.camera == "both" else (left,)

    # Any: an image, or a tuple of two.
    @override
    def _picture(self, pixels: NDArray[np.uint8]) -> Any:
        return tuple(map(Image.fromarray, pixels)) if self.camera == "both" else Image.fromarray(pixels)
