"""torchvision's datasets of listed files from records: CLEVR, DTD, FGVC-Aircraft, Flowers-102, Food-101 and SUN397."""

from typing import Literal, Unpack

from torchvision.datasets import DTD, SUN397, CLEVRClassification, FGVCAircraft, Flowers102, Food101
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import Loader, SplitFilesDataset
from recordzoo.families.selection import Selection, UnlabelledSelection, not_listed
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import class_labels
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.reader import RecordReader


class CLEVRClassificationRecord(SplitFilesDataset[TrainValTest], FilesDataset, CLEVRClassification):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CLEVRClassification`, read from records: rendered scenes, labelled by their number of objects.

    The labels of the split "test" are None.
    """

    _ENTRY = "clevr"
    _PATHS = {"_base_folder": "clevr", "_data_folder": "clevr/CLEVR_v1.0"}

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)


class DTDRecord(FilesDataset, DTD):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `DTD`, read from records: textures of 47 kinds, in ten partitions.

    Args:
        partition: 1 to 10: which images are in which split.
    """

    _ENTRY = "dtd"
    _PATHS = {
        "_base_folder": "dtd",
        "_data_folder": "dtd/dtd",
        "_meta_folder": "dtd/dtd/labels",
        "_images_folder": "dtd/dtd/images",
    }

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        partition: int = 1,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("train", "val", "test"))
        if not isinstance(partition, int) or not 1 <= partition <= 10:
            raise ArgumentError(
                f"Parameter 'partition' should be an integer with `1 <= partition <= 10`, but got {partition} instead"
            )
        self._partition = partition
        self._start(root, transform=transform, target_transform=target_transform)
        self._show_split(f"{split}{partition}", download=download, options=options, loader=loader)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        # Labels count the classes that the split has images of: all 47, unless the lists were shortened.
        self.classes, labels = class_labels(Selection(reader, split).names())
        return Selection(reader, split, targets=labels)


class FGVCAircraftRecord(FilesDataset, FGVCAircraft):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FGVCAircraft`, read from records.

    Args:
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (30).
    """

    _ENTRY = "fgvc_aircraft"
    _PATH = str
    _PATHS = {"_data_path": "fgvc-aircraft-2013b"}

    def __init__(
        self,
        root: Root,
        split: Literal["train", "val", "trainval", "test"] = "trainval",
        annotation_level: Literal["variant", "family", "manufacturer"] = "variant",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ("train", "val", "trainval", "test"))
        levels = ("variant", "family", "manufacturer")
        self._annotation_level = check_choice(annotation_level, "annotation_level", levels)
        self._show_split(split, download=download, options=options, loader=loader)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        list_name = f"images_{self._annotation_level}_{split}.txt"
        selection = Selection(reader, split, column=self._annotation_level, listed_in=list_name)
        if (selection.targets() == NO_TARGET).any():
            raise not_listed(reader, f"{self._annotation_level} of each image in the split {split!r}", list_name)
        return selection

    @derived
    def classes(self) -> list[str]:
        """The class names of the annotation level, in the order of their labels."""
        return self._names_of(self._annotation_level)


class Flowers102Record(SplitFilesDataset[TrainValTest], FilesDataset, Flowers102):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flowers102`, read from records: photographs of 102 kinds of flowers."""

    _ENTRY = "flowers102"
    _PATHS = {"_base_folder": "flowers-102", "_images_folder": "flowers-102/jpg"}


class Food101Record(SplitFilesDataset[TrainTest], FilesDataset, Food101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Food101`, read from records: photographs of 101 kinds of food."""

    _ENTRY = "food101"
    _PATHS = {"_base_folder": "food-101", "_meta_folder": "food-101/meta", "_images_folder": "food-101/images"}

    @derived
    def classes(self) -> list[str]:
        """The names of the classes in the order of their labels."""
        return self._class_names()


class SUN397Record(FilesDataset, SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SUN397`, read from records: photographs of 397 kinds of scenes, sorted by folder and name."""

    _ENTRY = "sun397"
    _PATHS = {"_data_dir": "SUN397"}

    @derived
    def classes(self) -> list[str]:
        """The names of the scenes in the order of their labels."""
        return self._class_names()
