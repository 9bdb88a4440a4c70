"""`RecordDataset`: the images of any record set, with the attributes of torchvision's ImageFolder."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torchvision import tv_tensors
from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder, default_loader
from torchvision.transforms.v2 import functional
from typing_extensions import override

from recordzoo.base.text import no_split
from recordzoo.errors import OtherSourceError
from recordzoo.families.base import Pair, Root, Transform, open_given
from recordzoo.families.folders import ClassFolderDataset, Loader, files_folder
from recordzoo.families.selection import Selection, as_mask, check_fields, stored_selection, warn_if_left_behind
from recordzoo.images.decode import Objects, find_objects
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import raise_if_empty
from recordzoo.records.reader import RecordReader, is_record_set

# Any, in this module: values are images, tensors, numbers, or anything else that a field stores.


@dataclass(frozen=True)
class JointTargets:
    """Makes the targets of a record set's images.

    Attributes:
        objects: The fields with boxes, labels and masks.
        keys: The keys of a target; empty if a target is the image's mask.
    """

    objects: Objects
    keys: tuple[str, ...]

    def target(self, position: int, image: Any) -> Any:
        """Return the target of a record: a mask, or a dict.

        Args:
            image: Its image, whose size is the canvas of the boxes.
        """
        if not self.keys:
            return as_mask(self.objects.mask_of(position))
        height, width = functional.get_size(image)
        return {key: self._value(key, position, (width, height)) for key in self.keys}

    def _value(self, key: str, position: int, size: tuple[int, int]) -> Any:
        found, reader = self.objects, self.objects.reader
        if key == "image_id":
            return int(reader.value(key, position)) if key in reader.manifest.fields else position
        if key == "boxes":
            boxes, canvas = found.boxes_of(position, size), (size[1], size[0])
            return tv_tensors.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=canvas)
        if key == "labels":
            return torch.from_numpy(found.labels_of(position))
        if key == "masks":
            return tv_tensors.Mask(torch.from_numpy(found.masks_of(position, size)))
        return as_mask(found.mask_of(position)) if key == found.mask else reader.value(key, position)


def joint_targets(reader: RecordReader, target_type: str | Sequence[str] | None) -> JointTargets | None:
    """Find out which targets a record set has; None if it has neither boxes nor masks.

    Args:
        reader: The record set.
        target_type: The keys of a target. Default: all that the records have, but masks only if they are stored as
            such: drawing polygons takes time.

    Raises:
        ArgumentError: The records do not have such a key.
    """
    found = find_objects(reader)
    if not found:
        return None
    if not (found.boxes or found.masks):
        return JointTargets(found, ()) if target_type in (None, found.mask) else None
    has = {"image_id": True, "boxes": found.boxes, "masks": found.masks, "labels": found.labels}
    if found.mask:
        has[found.mask] = found.mask
    default = tuple(key for key, there in has.items() if there)
    others = [name for name in reader.manifest.fields if name not in (*has, "image")]
    valid = [*default, *(["masks"] if found.annotations and not found.masks else []), *others]
    keys = check_fields(reader, () if target_type is None else target_type, valid, "With transforms, valid values")
    return JointTargets(found, keys or default)


class RecordDataset(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """The images of any record set: of a tree, a list, another tool's database, a dataset of your own.

    Args:
        root: The record set, or its URL.
        transform: Applied to the image.
        target_transform: Applied to the target.
        loader: Returns the image at a path; torchvision's own loaders decode the stored bytes.
        is_valid_file: Which images are samples, by path. Default: all.
        allow_empty: Whether a class may be without samples.
        split: A split of the record set. Default: all images.
        target_type: The field that is the target, or a list of fields for a tuple of them. A class or whole number is
            an int, a float numpy.float32 (float64 if it would change), several labels float32 [C] of 0 and 1.
            Default: the set's own target.
        transforms: Applied to image and target together, instead of the other two. For a set with boxes, the target is
            then a dict as `torchvision.datasets.wrap_dataset_for_transforms_v2` has it: ``boxes`` (BoundingBoxes XYXY,
            float32 [N, 4]), ``labels`` (int64 [N], numbers of `classes`), ``masks`` (Mask, uint8 [N, H, W]) if they are
            stored, ``image_id``; `target_type` names its keys, and ``masks`` are also drawn from polygons. For a set
            with one mask per image, the target is this Mask [H, W].
        **options: See `PrepareOptions`: ``variant``, and how one is prepared that does not exist yet.

    Raises:
        ArgumentError: The record set has no such split or field; `transforms` comes with one of the others, or
            boxes or masks do not fit the smaller images of a variant.
        FolderError: A class is empty; in torchvision's words.
        OtherSourceError: `root` is no record set, or it holds no images, or nothing that could be a target.

    Examples:
        >>> import recordzoo
        >>> dataset = recordzoo.open("my.records")
        >>> image, target = dataset[0]
    """

    _joint: JointTargets | None = None
    _left_behind: Sequence[str] = ()

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        split: str | None = None,
        target_type: str | Sequence[str] | None = None,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        chosen = self._chosen(options)
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        if is_url(self.root):
            reader = open_given(type(self).__name__, Url.parse(self.root), chosen)
        elif is_record_set(Path(self.root).expanduser()):
            reader = RecordReader(Path(self.root).expanduser())
        else:
            raise OtherSourceError(
                f"{self.root} is no record set. A tree of images is opened by ImageFolderRecord.",
                path=os.fspath(self.root),
            )
        reader = self._as_variant(with_images(reader), chosen)
        self.target_type = target_type
        if self._transforms_pairs:
            self._joint = joint_targets(reader, target_type)
        if self._joint is not None:
            self._refuse_in_pixels(reader.manifest.variant)
            found = self._joint.objects  # `classes` and `targets` come from a field that needs no image
            target_type = found.labels or found.boxes or found.masks or found.mask
        else:
            self._left_behind = _fields_in_pixels(reader, target_type)
        if split is not None and split not in reader.manifest.splits:
            raise no_split(reader.path, split, reader.manifest.splits)
        is_tree = split is None and target_type is None and not reader.manifest.is_listed
        if is_tree and is_valid_file is None and not allow_empty:  # without counting the samples of each class
            raise_if_empty(empty_classes(reader), IMG_EXTENSIONS)
        selection = Selection(reader) if is_tree else stored_selection(reader, split or "", target_type)
        folder = files_folder(reader, os.fspath(reader.path))
        self._show_files(selection, folder, loader, is_valid_file, allow_empty or not is_tree or is_valid_file is None)
        warn_if_left_behind(self, self._in_pixels())

    @override
    def _in_pixels(self) -> Sequence[str]:
        return ["the target"] if self._joint is not None else self._left_behind

    @override
    def _load(self, index: int) -> Pair:
        number = None if self._joint is None else self._as_opened(self._ITEMS, index)
        if self._joint is None or number is None:
            return super()._load(index)
        position = self._selection.position(number)
        image = self._loader.load(position)
        return image, self._joint.target(position, image)


def _fields_in_pixels(reader: RecordReader, target_type: str | Sequence[str] | None) -> list[str]:
    """Name the targets that lie on the image, and that `transform` alone would leave behind."""
    found = find_objects(reader)
    names = target_type or reader.manifest.default_target or ()
    on_image = {found.boxes, found.masks, found.annotations, found.mask}
    return [f"target_type {name!r}" for name in ([names] if isinstance(names, str) else names) if name in on_image]


def open_images(path: Path) -> RecordReader:
    """Open a record set that has images."""
    return with_images(RecordReader(path))


def with_images(reader: RecordReader) -> RecordReader:
    """Return a reader that has images; refuse any other one."""
    manifest = reader.manifest
    if "image" not in manifest.blobs:
        raise OtherSourceError(
            f'{reader.path} has no "image", but {", ".join([*manifest.blobs, *reader.columns])}. Its records can be '
            "read with RecordReader.",
            path=str(reader.path),
        )
    return reader


def empty_classes(reader: RecordReader) -> list[str]:
    """List the classes without images, of the record set of a tree; sets of other datasets have none."""
    empty = reader.manifest.metadata.get("empty_classes", [])
    return [str(name) for name in empty] if isinstance(empty, list) else []
