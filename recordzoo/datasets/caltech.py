"""`Caltech101Record` and `Caltech256Record`: torchvision's Caltech101 and Caltech256 from records."""

import io
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import Caltech101, Caltech256
from typing_extensions import override

from recordzoo.datasets import caltech_recipe as recipe
from recordzoo.families.base import Pair, Root, Transform, ZooDataset, check_choice, derived
from recordzoo.families.pixels import with_form
from recordzoo.families.selection import list_targets
from recordzoo.images.decode import naming, open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import find_name
from recordzoo.recipes.recipe import open_image

Caltech101Target = Literal["category", "annotation"]


class _Caltech(ZooDataset):
    """`ZooDataset` with ``index`` and ``y``: for each sample the number of its image in its class, and its label."""

    _ITEMS = "index"
    _transforms_apart = True
    _RECIPE: ClassVar[type[recipe.Caltech256]]

    @override
    def _show_split(self, split: str, *, download: bool | None, options: PrepareOptions) -> None:
        super()._show_split(split, download=download, options=options)
        self.root = os.path.expanduser(os.path.join(self.root, self._ENTRY))

    @derived
    def index(self) -> list[int]:
        """The numbers of the images in their classes, from 1."""
        numbers: list[int] = self._selection.array("number").tolist()
        return numbers

    @derived
    def y(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @derived
    def categories(self) -> list[str]:
        """The class names in the order of their labels."""
        return self._class_names()

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image as it is stored, target)."""
        image: Any = self._image(index)
        return self._transformed(image, self._target(index, image))

    def _image(self, index: int) -> Image.Image:
        reader, position = self._selection.reader, self._position(index)
        if position is not None and reader.has("image", position):
            return open_picture(reader, position)
        data, name = self._bytes("image", index)
        with naming(self.records_path, name):
            return open_image(data)

    # Any: whatever the user assigned.
    def _target(self, index: int, image: Image.Image) -> Any:
        number = self._as_opened("y", index)
        return self.y[index] if number is None else self._selection.target(number)

    def _bytes(self, field: str, index: int) -> tuple[bytes, object]:
        """Return a file of a sample, and its name for messages."""
        return self._file_of(
            field,
            self._position(index),
            lambda: os.path.join(self.root, self._file_name(field, self.y[index], self.index[index])),
        )

    def _file_name(self, field: str, label: int, number: int) -> str:
        folder, _ = self._RECIPE.files[field]
        return folder + recipe.image_name(self._RECIPE.image_name, self.categories, label, number)

    def _position(self, index: int) -> int | None:
        number = self._as_opened("y", index)
        if number is not None and number == self._as_opened("index", index):
            return self._selection.position(number)
        name = recipe.image_name(self._RECIPE.image_name, self.categories, self.y[index], self.index[index])
        return find_name(self._selection.reader.names, name)


class Caltech101Record(_Caltech, Caltech101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Caltech101`, read from records: pictures of objects of 101 classes, with their outlines.

    Args:
        target_type: One of, or several of, "category" and "annotation": the points of the object's outline, an array
            [2, n] of x and y from the corner of the object's box.
        transforms: Applied to image and target, instead of the other two; an outline is `KeyPoints` [n, 2] then, in
            pixels of the image.
        transform: Applied to the image, which has the mode of its file.
    """

    _ENTRY = "caltech101"
    _RECIPE = recipe.Caltech101

    def __init__(
        self,
        root: Root,
        target_type: list[Caltech101Target] | Caltech101Target = "category",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        kinds = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [check_choice(kind, "target_type", ("category", "annotation")) for kind in kinds]
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._show_split("", download=download, options=options)

    def _in_pixels(self) -> Sequence[str]:
        return ["target_type 'annotation'"] if "annotation" in self.target_type else []

    @derived
    def annotation_categories(self) -> list[str]:
        """The names of the folders with the outlines, in the order of the labels."""
        return [recipe.ANNOTATIONS.get(name, name) for name in self.categories]

    # Any: a label, an array, or a tuple of them.
    def _target(self, index: int, image: Image.Image) -> Any:
        targets = [
            super(Caltech101Record, self)._target(index, image) if kind == "category" else self._outline(index, image)
            for kind in self.target_type
        ]
        return tuple(targets) if len(targets) > 1 else targets[0]

    # Any: the array that MATLAB wrote, or points.
    def _outline(self, index: int, image: Image.Image) -> Any:
        from scipy.io import loadmat

        data, name = self._bytes("annotation", index)
        with naming(self.records_path, name):
            found = loadmat(io.BytesIO(data))  # type: ignore[arg-type,unused-ignore]  # files, too
            outline = found["obj_contour"]
            if not self._transforms_pairs:
                return outline
            top, _, left, _ = found["box_coord"][0]  # where the outline's places begin (the authors' show_annotation.m)
            points = torch.tensor(outline.T + np.array([left, top], float), dtype=torch.float32)
            return with_form("points", points, image)

    def _file_name(self, field: str, label: int, number: int) -> str:
        if field == "image":
            return super()._file_name(field, label, number)
        return f"Annotations/{recipe.annotation_name(self.categories[label], number)}"

    def _read_fields(self) -> Sequence[str]:
        return ("image", "annotation") if "annotation" in self.target_type else ("image",)


class Caltech256Record(_Caltech, Caltech256):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Caltech256`, read from records: pictures of 256 classes of objects and one of clutter.

    Args:
        transform: Applied to the image, which has the mode of its file.
    """

    _ENTRY = "caltech256"
    _RECIPE = recipe.Caltech256
