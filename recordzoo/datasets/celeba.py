"""`CelebARecord`: torchvision's CelebA from records."""

import os
from collections.abc import Sequence
from typing import Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.datasets import CelebA

from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.files import Files, PathsDataset
from recordzoo.families.pixels import with_form
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions

_TARGETS = {"attr": "attr", "identity": "identity", "bbox": "bbox", "landmarks": "landmarks_align"}
"""For each target type, the tensor whose rows are the targets."""

CelebATarget = Literal["attr", "identity", "bbox", "landmarks"]


class CelebARecord(PathsDataset, CelebA):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CelebA`, read from records.

    ``attr``, ``identity``, ``bbox`` and ``landmarks_align``, int64 tensors, are made on first access; from then on,
    changes to them show in the samples. Boxes are those of the original photographs, not of the aligned ones.

    Args:
        target_type: "attr" (40 attributes, 0 or 1), "identity", "bbox" or "landmarks", or a list of them; for an empty
            list the target is None.
        transforms: Applied to image and target, instead of the other two; landmarks are `KeyPoints` [5, 2] then.

    Raises:
        ArgumentError: As for all datasets; but a target type that does not exist is an error when a sample is taken.
    """

    entry = "celeba"
    _ITEMS = "filename"
    _IS_RGB = False
    target_type: Sequence[str]

    def __init__(
        self,
        root: Root,
        split: Literal["train", "valid", "test", "all"] = "train",
        target_type: list[CelebATarget] | CelebATarget = "attr",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.split = split
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        self._transforms_apart = bool(self.target_type)
        if not self.target_type and target_transform is not None:
            raise RuntimeError("target_transform is specified but target_type is empty")
        lower = split.lower() if isinstance(split, str) else split
        chosen = check_choice(lower, "split", ("train", "valid", "test", "all"))
        reader = self._open_part(download=download, options=options)
        images = os.path.join(self.root, self.base_folder, "img_align_celeba")
        self._show_paths(Selection(reader, chosen), {"image": Files("filename", "", ".jpg", within=images)})

    def _in_pixels(self) -> Sequence[str]:
        return ["target_type 'landmarks'"] if "landmarks" in self.target_type else []

    @derived
    def filename(self) -> list[str]:
        """The names of the files."""
        return self._paths("image")

    @derived
    def attr_names(self) -> list[str]:
        """The names of the attributes, and an empty one, as in torchvision."""
        return self._names_of("attr")

    @derived
    def attr(self) -> torch.Tensor:
        """The attributes, 0 or 1, [n, 40]."""
        return _tensor("attr", self._selection.array("attr"))

    @derived
    def identity(self) -> torch.Tensor:
        """The number of each person, [n, 1]."""
        return _tensor("identity", self._selection.array("identity"))

    @derived
    def bbox(self) -> torch.Tensor:
        """The boxes, x, y, width, height, [n, 4]."""
        return _tensor("bbox", self._selection.array("bbox"))

    @derived
    def landmarks_align(self) -> torch.Tensor:
        """The landmarks, x and y of each, [n, 10]."""
        return _tensor("landmarks_align", self._selection.array("landmarks_align"))

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target).

        Raises:
            ArgumentError: A target type does not exist.
        """
        image: Any = self._image(index)
        targets = [self._target(kind, index) for kind in self.target_type]
        if self._transforms_pairs:
            pairs = zip(self.target_type, targets, strict=True)
            targets = [with_form("points", t.reshape(-1, 2), image) if k == "landmarks" else t for k, t in pairs]
        elif not targets:  # nothing for `target_transform`
            return image if self.transform is None else self.transform(image), None
        target: Any = tuple(targets) if len(targets) > 1 else targets[0] if targets else None
        return self._transformed(image, target)

    def _target(self, kind: str, index: int) -> torch.Tensor:
        if kind not in _TARGETS:
            raise ArgumentError(f'Target type "{kind}" is not recognized.')
        name = _TARGETS[kind]
        if self._has(name) or type(index) is not int or not -len(self._selection) <= index < len(self._selection):
            rows: torch.Tensor = getattr(self, name)[index, :]
        else:
            position = self._selection.position(index % len(self._selection))
            rows = _tensor(name, self._selection.reader.array(name)[position])
        return rows[..., 0] if kind == "identity" else rows

    def __len__(self) -> int:
        return self._length("attr")


def _tensor(name: str, numbers: NDArray[np.integer]) -> torch.Tensor:
    """Make a tensor of stored numbers; attributes are stored as -1 and 1."""
    made = numbers.astype(np.int64)
    return torch.from_numpy((made + 1) // 2 if name == "attr" else made)
