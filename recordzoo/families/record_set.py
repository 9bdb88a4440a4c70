"""`RecordDataset`: the images of any record set, with the attributes of torchvision's ImageFolder."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from torchvision.datasets.folder import IMG_EXTENSIONS, ImageFolder, default_loader
from typing_extensions import override

from recordzoo.base.meant import no_split
from recordzoo.errors import OtherSourceError
from recordzoo.families.at_url import open_given
from recordzoo.families.base import Pair, Root, Transform
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.custom import stored_selection
from recordzoo.families.joint import JointTargets, joint_targets
from recordzoo.families.path_loader import Loader, files_folder
from recordzoo.families.selection import Selection
from recordzoo.net.url import Url, is_url
from recordzoo.preparing import PrepareOptions, is_record_set
from recordzoo.recipes.folder import raise_if_empty
from recordzoo.records.reader import RecordReader

# Any, in all of this module: images and targets are of all kinds.


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
            an int, a float numpy.float32, several labels float32 [C] of 0 and 1. Default: the set's own target.
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
        self.transforms_pairs = transforms is not None
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
        if self.transforms_pairs:
            self._joint = joint_targets(reader, target_type)
        if self._joint is not None:
            self._refuse_in_pixels(reader.manifest.variant)
        folder = os.fspath(reader.path)
        self.target_type = target_type
        if self._joint is not None:
            target_type = self._joint.field
        if split is not None or target_type is not None or reader.manifest.is_listed:
            folder, allow_empty = files_folder(reader, folder), True
            selection = _selection(reader, split, target_type)
        else:
            selection = Selection(reader)
            if is_valid_file is None and not allow_empty:  # without counting the samples of each class
                raise_if_empty(empty_classes(reader), IMG_EXTENSIONS)
                allow_empty = True
        self._show_files(selection, folder, loader, is_valid_file, allow_empty)

    @override
    def _in_pixels(self) -> Sequence[str]:
        return ["the target"] if self._joint is not None else []

    @override
    def _load(self, index: int) -> Pair:
        number = None if self._joint is None else self._as_opened(self._ITEMS, index)
        if self._joint is None or number is None:
            return super()._load(index)
        position = self._selection.position(number)
        image = self._loader.load(position)
        return image, self._joint.target(position, image)


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


def _selection(reader: RecordReader, split: str | None, target_type: str | Sequence[str] | None) -> Selection:
    splits = reader.manifest.splits
    if split is not None and split not in splits:
        raise no_split(reader.path, split, splits)
    return stored_selection(reader, split or "", target_type)
