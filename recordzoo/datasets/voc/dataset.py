"""`VOCDetectionRecord` and `VOCSegmentationRecord`: torchvision's Pascal VOC classes from the records of a year."""

import io
import os
from collections.abc import Callable, Sequence
from typing import Any, Unpack, cast

from PIL import Image
from torchvision.datasets import VOCDetection, VOCSegmentation
from torchvision.datasets.voc import ET_parse

from recordzoo.addresses import public_url
from recordzoo.datasets.voc.recipe import FOLDER_OF, base_folder, image_name, list_name, split_name
from recordzoo.errors import FolderError, NotPreparedError
from recordzoo.families.base import RecordDataset, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection, join_name, list_paths
from recordzoo.loading.decode import decode_rgb, naming
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.class_folders import find_name
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.images import open_image

_YEARS = [str(year) for year in range(2007, 2013)]


class _VOCRecord(RecordDataset):
    """What both classes share: `images` and `targets`, paths that torchvision would use, existing or not."""

    # Any: transforms take and return what their user wants.
    transforms: Callable[[Any, Any], tuple[Any, Any]] | None

    _SPLITS_DIR: str
    _TARGET_DIR: str
    _TARGET_FILE_EXT: str
    _TARGET_FIELD: str
    _ITEMS = "images"
    entry = "voc"

    def __init__(
        self,
        root: str | os.PathLike[str],
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        transforms: Callable[..., Any] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.year = check_choice(year, "year", _YEARS)
        valid = ["train", "trainval", "val", *(["test"] if year == "2007" else [])]
        self.image_set = check_choice(image_set, "image_set", valid)
        self._part = "2007-test" if image_set == "test" else year
        archive = dataset_recipe(self.entry, self._part, self.raw_files).raw_files[0]
        self.url, self.filename, self.md5 = public_url(next(iter(archive.urls), "")), archive.name, archive.md5
        reader = self._open_part(download=download, options=options)
        split = split_name(self._SPLITS_DIR, image_set)
        if split not in reader.manifest.splits:
            raise NotPreparedError(
                f"{type(self).__name__}: there was no list {list_name(split)} when {reader.path} was prepared; there "
                f"were {', '.join(map(list_name, reader.manifest.splits))}. If it is there now, prepare again with "
                "refresh=True.",
                path=str(reader.path),
            )
        self._show(Selection(reader, split))
        self._folder = join_name(os.fspath(self.root), base_folder(self._part))

    @derived
    def images(self) -> list[str]:
        """The paths of the images."""
        return list_paths(self._selection, os.path.join(self._folder, "JPEGImages"), ".jpg")

    @derived
    def targets(self) -> list[str]:
        """The paths of the annotations or masks."""
        return list_paths(self._selection, os.path.join(self._folder, self._TARGET_DIR), self._TARGET_FILE_EXT)

    def __len__(self) -> int:
        return self._length("images")

    def _image(self, index: int) -> Image.Image:
        if isinstance(cast(object, index), slice):
            Image.open(cast(Any, self.images)[index])  # fails, in torchvision's way
        data, name = self._bytes("images", index, "image")
        with naming(self.records_path, name):
            return decode_rgb(data)

    def _bytes(self, name: str, index: int, field: str) -> tuple[bytes, str]:
        """Return the content of the file whose path an attribute has at an index, and its name for messages."""
        reader = self._selection.reader
        position = self._stored_at(name, index, field)
        if position is not None and reader.has(field, position):
            return reader.read(field, position), f"{field} of {reader.names[position]}"
        path = getattr(self, name)[index]
        if position is not None:
            raise FolderError(
                f"{path} was missing when {reader.path} was prepared. If it is there now, prepare again with "
                "refresh=True.",
                path=path,
            )
        with open(path, "rb") as file:
            return file.read(), path

    def _stored_at(self, name: str, index: int, field: str) -> int | None:
        """Return the position of the file whose path an attribute has at an index; None if it is not in the records."""
        number = self._as_opened(name, index)
        return self._find(getattr(self, name)[index], field) if number is None else self._selection.position(number)

    def _position(self, index: int) -> int | None:
        return self._stored_at("images", index, "image")

    def _find(self, path: str, field: str) -> int | None:
        """Find the record of a path that was assigned: the one whose file in this field had this very path."""
        folder, ending = FOLDER_OF[field]
        start = os.path.join(self._folder, folder, "")
        if not (isinstance(path, str) and path.startswith(start) and path.endswith(ending)):
            return None
        return find_name(self._selection.reader.names, image_name(path[len(start) : -len(ending)]))

    def _hint_positions(self, positions: Sequence[int]) -> None:
        for field in ("image", self._TARGET_FIELD):
            self._selection.reader.hint(field, positions)


class VOCDetectionRecord(_VOCRecord, VOCDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCDetection`, read from records.

    A tree needs no other lists than those that are opened. A listed file that is missing is logged when the records are
    prepared, and is an error when its sample is read.

    Args:
        root: Where ``VOCdevkit/`` or the year's archive is or goes to; or the record set.
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval"; "test" for 2007.
        download: Download the year's archive if it is not there.
        transform: Applied to the image.
        target_transform: Applied to the annotation.
        transforms: Applied to both, instead of the other two.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `year` or `image_set` has another value, or `transforms` comes with one of the others.
        NotPreparedError: There are no records and no raw data, or there was no such list in it.

    Examples:
        >>> dataset = VOCDetectionRecord("data", image_set="val")
        >>> image, annotation = dataset[0]
    """

    _TARGET_FIELD = "annotation"

    # Any: an annotation is a nested dict; transforms make of both what they want.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (RGB PIL image, annotation as a dict).

        Raises:
            IndexError: There is no such sample.
            ImageError: The image cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        image: Any = self._image(index)
        paths = "targets" if type(self).annotations is VOCDetection.annotations else "annotations"
        data, name = self._bytes(paths, index, self._TARGET_FIELD)
        with naming(self.records_path, name):
            target: Any = self.parse_voc_xml(ET_parse(io.BytesIO(data)).getroot())
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target


class VOCSegmentationRecord(_VOCRecord, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCSegmentation`, read from the same records as `VOCDetectionRecord`, which see.

    Examples:
        >>> dataset = VOCSegmentationRecord("data", image_set="val")
        >>> image, mask = dataset[0]
    """

    _TARGET_FIELD = "mask"

    # Any: transforms make of both what they want.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (RGB PIL image, mask as a PIL image of mode P: the class of each pixel, 255 for the borders).

        Raises:
            IndexError: There is no such sample.
            ImageError: One of them cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        image: Any = self._image(index)
        paths = "targets" if type(self).masks is VOCSegmentation.masks else "masks"
        data, name = self._bytes(paths, index, self._TARGET_FIELD)
        with naming(self.records_path, name):
            target: Any = open_image(data)
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target
