"""`CityscapesRecord`: torchvision's Cityscapes from records."""

import json
import os
from typing import Any, Literal, Unpack

from torchvision.datasets import Cityscapes
from torchvision.datasets.utils import iterable_to_str
from typing_extensions import override

from recordzoo.datasets.cityscapes_recipe import IMAGE_ENDING, IMAGES, SUFFIXES, split_name
from recordzoo.errors import NotPreparedError
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import Files, PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import open_image

CityscapesTarget = Literal["instance", "semantic", "polygon", "color"]


class CityscapesRecord(PairsDataset, Cityscapes):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Cityscapes`, read from records.

    There are three record sets, each with its images: of the fine annotations, of the coarse ones of the same images,
    and of the coarse ones of `train_extra`. The archives are got by hand: see ``recordzoo info cityscapes``. A tree
    needs no other splits than those that are opened. A target that was missing is an error when its sample is read.

    Args:
        root: Where ``leftImg8bit/`` and ``gtFine/`` or ``gtCoarse/``, or their archives, are; or the record set.
        split: "train", "test" or "val"; of coarse annotations "train", "train_extra" or "val".
        mode: "fine" or "coarse".
        target_type: One of, or several of, "instance", "semantic", "polygon" and "color".
        download: Fetch archives that are missing from a mirror of your own (`mirror`, ``RECORDZOO_MIRROR``).
    """

    entry = "cityscapes"
    _ENDING = IMAGE_ENDING

    def __init__(
        self,
        root: Root,
        split: Literal["train", "test", "train_extra", "val"] = "train",
        mode: Literal["fine", "coarse"] = "fine",
        target_type: list[CityscapesTarget] | CityscapesTarget = "instance",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        *,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.mode = "gtFine" if mode == "fine" else "gtCoarse"
        self.images_dir = os.path.join(self.root, IMAGES, split)
        self.targets_dir = os.path.join(self.root, self.mode, split)
        check_choice(mode, "mode", ("fine", "coarse"))
        valid = ("train", "test" if mode == "fine" else "train_extra", "val")
        message = f"Unknown value '{split}' for argument split if mode is '{mode}'. "
        message += f"Valid values are {{{iterable_to_str(valid)}}}."
        self.split = check_choice(split, "split", valid, message)
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        for kind in self.target_type:
            check_choice(kind, "target_type", ("instance", "semantic", "polygon", "color"))
        self._part = "extra" if split == "train_extra" else mode
        reader = self._open_part(download=download, options=options)
        if split_name(split) not in reader.manifest.splits:
            raise NotPreparedError(
                f"{type(self).__name__}: there was no {IMAGES}/{split}/ or no {self.mode}/{split}/ when {reader.path} "
                "was prepared. If they are there now, prepare again with refresh=True.",
                path=str(reader.path),
            )
        self._kinds: list[str] = list(self.target_type)  # those of `targets`
        base = os.fspath(self.root)
        targets: dict[str, Files] = {
            kind: Files("targets", os.path.join(base, self.mode), f"_{self.mode}_{SUFFIXES[kind]}")
            for kind in self._kinds
        }
        images = Files("images", os.path.join(base, IMAGES), IMAGE_ENDING)
        self._show_paths(Selection(reader, split_name(split)), {"image": images, **targets})

    @derived
    def targets(self) -> list[list[str]]:
        """The paths of the targets of each image, in the order of `target_type`."""
        rows: list[list[str]] = [[] for _ in range(len(self._selection))]
        for kind in self._kinds:
            for row, path in zip(rows, self._paths(kind), strict=True):
                row.append(path)
        return rows

    # Any: a path.
    def _path_at(self, field: str, index: int) -> Any:
        path = super()._path_at(field, index)
        return path if field == "image" else path[self._kinds.index(field)]

    # Any: images or the dicts of polygons: one, or a tuple of several.
    @override
    def _target(self, index: int) -> Any:
        targets = [
            self._loaded(kind, index, json.loads if kind == "polygon" else open_image) for kind in self.target_type
        ]
        return tuple(targets) if len(targets) > 1 else targets[0]
