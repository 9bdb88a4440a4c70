"""`WIDERFaceRecord`: torchvision's WIDERFace from records."""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import WIDERFace
from typing_extensions import override

from recordzoo.base.text import TrainValTest
from recordzoo.families.base import Pair, Root, Transform, derived
from recordzoo.families.folders import SplitDataset
from recordzoo.families.pixels import with_form
from recordzoo.families.selection import MutableSelection, Selection, join_name
from recordzoo.images.decode import naming, open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import find_name
from recordzoo.records.reader import RecordReader

# The columns of an annotation file as torchvision names them; its authors' readme has `invalid` before `occlusion`.
_COLUMNS = {"blur": 4, "expression": 5, "illumination": 6, "occlusion": 7, "pose": 8, "invalid": 9}

# Any: a path, and the tensors of its faces.
Info = dict[str, Any]


class WIDERFaceRecord(SplitDataset[TrainValTest], WIDERFace):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `WIDERFace`, read from records; each split is a record set of its own.

    Like torchvision's class, it takes the last three columns of the annotations for occlusion, pose and invalid; the
    authors' readme says invalid, occlusion, pose.

    Args:
        split: "train", "val" or "test", whose targets are None.
        target_transform: Applied to the target, a dict of tensors.
        transforms: Applied to image and target, instead of the other two; "bbox" is `BoundingBoxes` [n, 4] then.
    """

    entry = "wider_face"
    _HAS_TEXT_ROOT = True
    _SPLIT = "split"
    _SPLITS = ("train", "val", "test")
    _ITEMS = "img_info"
    _transforms_apart = True

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._choose_split(split)
        self._show_split(split, download=download, options=options)

    @override
    def _show_split(self, split: str, *, download: bool | None, options: PrepareOptions) -> None:
        super()._show_split(split, download=download, options=options)
        self.root = os.path.join(self.root, self.BASE_FOLDER)
        self._folder = os.path.abspath(os.path.join(self.root, f"WIDER_{split}", "images"))

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return MutableSelection(reader, split)

    def _in_pixels(self) -> Sequence[str]:
        return [] if self.split == "test" else ["the target"]

    @derived
    def img_info(self) -> list[Info]:
        """A dict for each image: its path, and its annotations unless it is a test image."""
        return list(map(self._info, self._selection.all_positions().tolist()))

    def _info(self, position: int) -> Info:
        reader = self._selection.reader
        info: Info = {"img_path": join_name(self._folder, reader.names[position])}
        if self.split != "test":
            with naming(reader.path, info["img_path"]):
                lines = reader.read("annotation", position).splitlines()[1:]
                # Several times as fast as torch.tensor.
                faces = torch.from_numpy(np.array([list(map(int, line.split())) for line in lines], np.int64))
                columns = {name: faces[:, column].clone() for name, column in _COLUMNS.items()}
            info["annotations"] = {"bbox": faces[:, :4].clone(), **columns}
        return info

    def _at(self, index: int) -> tuple[Info, int | None]:
        """Return what `img_info` has at an index, and the image's position; None if it has no record."""
        position = self._position(index)
        if position is not None and not self._has("img_info"):
            return self._info(position), position
        return self.img_info[index], position

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target); the target is None for a test image."""
        info, position = self._at(index)
        image = self._image(info["img_path"], position)
        target = None if self.split == "test" else info["annotations"]
        if self._transforms_pairs and target is not None:
            target = {**target, "bbox": with_form("XYWH", target["bbox"], image)}
        return self._transformed(image, target)

    def _image(self, path: str, position: int | None) -> Image.Image:
        reader = self._selection.reader
        if position is None or not reader.has("image", position):
            return Image.open(path)  # one that was assigned; or FileNotFoundError: the raw data lacked it
        with naming(reader.path, path):
            image = open_picture(reader, position)
            image.load()
            return image

    def _position(self, index: int) -> int | None:
        number = None if "img_info" in self._made else self._as_opened("img_info", index)
        if number is not None:
            return self._selection.position(number)
        start = os.path.join(self._folder, "")
        path = os.fspath(self.img_info[index]["img_path"])
        return find_name(self._selection.reader.names, path.removeprefix(start)) if path.startswith(start) else None

    def _read_fields(self) -> Sequence[str]:
        return list(self._selection.reader.manifest.blobs)
