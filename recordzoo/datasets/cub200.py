"""`CUB200Record`: CUB-200-2011, 200 kinds of birds; and `CUB200_2010Record`, the set of 2010."""

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainTest
from recordzoo.datasets.cub200_recipe import IMAGES, NEEDS, CUB200Segmentations, names_digest
from recordzoo.errors import OtherSourceError, RecordError
from recordzoo.families.base import Root, Transform, check_choice, open_one
from recordzoo.families.derived import derived
from recordzoo.families.folders import Loader, TargetTypesDataset
from recordzoo.families.selection import Selection, not_listed
from recordzoo.images.decode import RecordName, decode, naming
from recordzoo.net.url import Url
from recordzoo.preparing.changes import find_changes, warn_of_changes
from recordzoo.preparing.options import Options, PrepareOptions
from recordzoo.preparing.preparation import ensure
from recordzoo.records.reader import RecordReader

CUB200Split = Literal["train", "test", "all"]
CUB200Target = Literal["category", "bbox", "parts", "attributes", "segmentation"]


class CUB200Record(TargetTypesDataset[CUB200Split, CUB200Target], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """CUB-200-2011: 11,788 photographs of 200 kinds of birds, in ImageFolder's order over ``CUB_200_2011/images``.

    ``split="train"`` is the default: 5,994 photographs. The raw data is ``CUB_200_2011/`` or ``CUB_200_2011.tgz`` under
    `root`; masks come from ``segmentations/`` or ``segmentations.tgz`` and are looked for only when asked for.

    Args:
        is_valid_file: Takes the path of an image, and says whether it is a sample.
        allow_empty: Whether a class may be without samples.
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0), "bbox"
            (float32 [4]: x, y, width, height in pixels; a few stick out of their image), "parts" (float32 [15, 3]: x,
            y, visible), "attributes" (uint8 [312]: 0 or 1), "segmentation" (PIL image, mode and values as stored).

    Attributes:
        classes: The names of the class folders: "001.Black_footed_Albatross".
        samples: (path, category) tuples, whatever the target type.

    Examples:
        >>> from recordzoo import CUB200Record
        >>> birds = CUB200Record("data", target_type=["category", "bbox"], download=True)  # doctest: +SKIP
        >>> image, (label, box) = birds[0]  # doctest: +SKIP
    """

    _ENTRY = "cub200"
    _TARGET_TYPES = ("category", "bbox", "parts", "attributes", "segmentation")
    _IN_PIXELS = {"bbox": "XYWH", "parts": "seen points", "segmentation": "mask"}

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        split: CUB200Split = "train",
        target_type: CUB200Target | Sequence[CUB200Target] = "category",
        download: bool = False,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", ("train", "test", "all"))
        self._choose_targets(target_type)
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        reader = self._open_part(download=download, options=options)
        for kind in self._target_types:
            if kind in NEEDS and kind not in reader.manifest.arrays:
                raise not_listed(reader, f"target_type {kind!r}", NEEDS[kind])
        selection = Selection(reader, "" if split == "all" else split, listed_in=NEEDS["split"])
        self._show_files(selection, os.path.join(self.root, IMAGES.rstrip("/")), loader, is_valid_file, allow_empty)
        self._masks = None
        if "segmentation" in self._target_types:
            self._masks = self._open_masks(reader, download, self._chosen(options))

    def _open_masks(self, reader: RecordReader, download: bool, options: Options) -> RecordReader:
        """Open the masks' record set beside that of the images; prepare it on a disk if it does not exist."""
        place = reader.path.parent / f"{reader.path.name.removesuffix('.records')}.segmentations.records"
        names = tuple(reader.names)
        if isinstance(place, Url):
            masks = open_one(type(self).__name__, [place], options)
        else:
            root = Path(self.root).expanduser().absolute()
            root = root.parent if root == reader.path else root  # it may be the images' record set itself
            made = CUB200Segmentations(self._ENTRY, "segmentations", self.raw_files)
            made.images = names
            # Masks have no variants; those of the originals fit images of the full size.
            masks = RecordReader(ensure(made, root, options, download=download, records_dir=place, variant=None))
            if changes := find_changes(masks, root):
                warn_of_changes(masks, changes, made.command(root), stacklevel=3)
        manifest = masks.manifest
        found = (manifest.dataset, manifest.part, manifest.metadata.get("images"))
        if found != ("cub200", "segmentations", names_digest(names)):
            raise OtherSourceError(
                f"{type(self).__name__}: the masks in {masks.path} belong to other images than those in {reader.path}. "
                "Remove the record set of the masks; it will be made again.",
                path=str(masks.path),
            )
        return masks

    # Any: a tensor or an image.
    def _target(self, kind: str, position: int) -> Any:
        if kind != "segmentation":
            return super()._target(kind, position)
        assert self._masks is not None  # the constructor opened it for this target type
        if not self._masks.has("mask", position):
            raise RecordError(f"{self._masks.path}: {self._masks.names[position]} has no mask.", position=position)
        with naming(self._masks.path, RecordName(self._masks, position)):
            return decode(self._masks.read("mask", position))

    def _hint_positions(self, positions: Sequence[int]) -> None:
        super()._hint_positions(positions)
        if self._masks is not None:
            self._masks.hint("mask", positions)

    @derived
    def image_ids(self) -> NDArray[np.int64]:
        """The number of each sample in ``images.txt``, from 1; int64 [n]."""
        reader = self._selection.reader
        if "image_id" not in reader.manifest.arrays:
            raise not_listed(reader, "image_ids", NEEDS["image_id"])
        return np.array(reader.array("image_id")[self._selection.all_positions()])

    @derived
    def attribute_names(self) -> list[str]:
        """The names of the 312 attributes; empty if ``attributes.txt`` was not there."""
        return list(self._selection.reader.manifest.metadata.get("attribute_names", ()))

    @derived
    def part_names(self) -> list[str]:
        """The names of the 15 parts; empty if ``parts/parts.txt`` was not there."""
        return list(self._selection.reader.manifest.metadata.get("part_names", ()))

    def extra_repr(self) -> str:
        """Return the line that `repr` adds: the split."""
        return f"Split: {self.split}"


class CUB200_2010Record(TargetTypesDataset[TrainTest, Literal["category", "bbox", "segmentation"]], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """The CUB-200 of 2010, read from records: photographs of 200 kinds of birds, in the order of the authors' lists.

    `CUB200Record` is the set of 2011, which has more photographs. A label is the authors' number of the class, less 1:
    the place of its folder ("001.Black_footed_Albatross") among the sorted ones. ``read(index, "annotation")`` gives
    the annotation file, in MATLAB's format.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0), "bbox"
            (float32 [4]: left, top, right, bottom in pixels) or "segmentation" (a rough mask as a PIL image of the size
            of the photograph, with the authors' values).
    """

    _ENTRY = "cub200_2010"
    _TARGET_TYPES = ("category", "bbox", "segmentation")
    _IN_PIXELS = {"bbox": "XYXY", "segmentation": "mask"}
    _FIELDS = {"bbox": "annotation", "segmentation": "annotation"}

    # Any: a tensor or an image.
    def _target(self, kind: str, position: int) -> Any:
        from scipy.io import loadmat

        variable = "bbox" if kind == "bbox" else "seg"
        data = io.BytesIO(self._selection.reader.read("annotation", position))
        # The type is ignored: loadmat takes files, too.
        value = loadmat(data, squeeze_me=True, variable_names=[variable])[variable]  # type: ignore[arg-type,unused-ignore]
        if kind == "segmentation":
            return Image.fromarray(np.atleast_2d(value).astype(np.uint8))
        sides = [float(value[side]) for side in ("left", "top", "right", "bottom")]
        return torch.tensor(sides, dtype=torch.float32)
