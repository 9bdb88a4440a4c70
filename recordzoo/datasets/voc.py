"""`VOCDetectionRecord` and `VOCSegmentationRecord`: torchvision's Pascal VOC classes from the records of a year."""

import io
from typing import Any, Literal, Unpack

from torchvision.datasets import VOCDetection, VOCSegmentation
from torchvision.datasets.voc import ET_parse

from recordzoo.base.text import public_url
from recordzoo.datasets.voc_recipe import image_name, list_name, split_name
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import PairsDataset
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import dataset_recipe

_YEARS = [str(year) for year in range(2007, 2013)]


class _VOCRecord(PairsDataset):
    """What both classes share: `images` and `targets`, paths that torchvision would use, existing or not."""

    _ENTRY = "voc"
    _PREFIX = image_name("").removesuffix(".jpg")
    _SPLITS_DIR: str

    def __init__(
        self,
        root: Root,
        year: Literal["2007", "2008", "2009", "2010", "2011", "2012"] = "2012",
        image_set: Literal["train", "trainval", "val", "test"] = "train",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self.year = check_choice(year, "year", _YEARS)
        valid = ["train", "trainval", "val", *(["test"] if year == "2007" else [])]
        self.image_set = check_choice(image_set, "image_set", valid)
        self._part = "2007-test" if image_set == "test" else year
        archive = dataset_recipe(self._ENTRY, self._part, self.raw_files).raw_files[0]
        self.url, self.filename, self.md5 = public_url(next(iter(archive.urls), "")), archive.name, archive.md5
        reader = self._open_part(download=download, options=options)
        split = split_name(self._SPLITS_DIR, image_set)
        files = self._recipe_files(image="images", **{self._TARGET: self._target_attribute()})
        self._show_paths(Selection(reader, split, listed_in=list_name(split)), files)

    def _target_attribute(self) -> str:
        """Return the attribute with the paths of the targets: torchvision's other name for it, if overridden."""
        return "targets"

    @derived
    def targets(self) -> list[str]:
        """The paths of the annotations or masks."""
        return self._paths(self._TARGET)


class VOCDetectionRecord(_VOCRecord, VOCDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCDetection`, read from records.

    A tree needs no other lists than those that are opened. A listed file that is missing is logged when the records are
    prepared, and is an error when its sample is read.

    Args:
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval"; "test" for 2007.
        target_transform: Applied to the annotation.
    """

    _TARGET = "annotation"

    def _target_attribute(self) -> str:
        return "targets" if type(self).annotations is VOCDetection.annotations else "annotations"

    # Any: a nested dict.
    def _load_target(self, data: bytes) -> Any:
        return self.parse_voc_xml(ET_parse(io.BytesIO(data)).getroot())


class VOCSegmentationRecord(_VOCRecord, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCSegmentation`, read from the same records as `VOCDetectionRecord`, which see.

    Args:
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval"; "test" for 2007.
    """

    _TARGET = "mask"

    def _target_attribute(self) -> str:
        return "targets" if type(self).masks is VOCSegmentation.masks else "masks"
