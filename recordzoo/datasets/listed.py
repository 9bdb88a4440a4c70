"""torchvision's datasets of files with labels from records: CLEVR, DTD, GTSRB, Food-101, Places365, SUN397, ..."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from torchvision.datasets import (
    DTD,
    GTSRB,
    SUN397,
    CLEVRClassification,
    FGVCAircraft,
    Flowers102,
    Food101,
    Imagenette,
    Places365,
    StanfordCars,
)
from torchvision.datasets.folder import default_loader, pil_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainVal, TrainValTest
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import Loader, SamplesDataset, SplitDataset, SplitFilesDataset
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

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)


class DTDRecord(FilesDataset, DTD):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `DTD`, read from records: textures of 47 kinds, in ten partitions.

    Args:
        partition: 1 to 10: which images are in which split.
    """

    _ENTRY = "dtd"

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


class Food101Record(SplitFilesDataset[TrainTest], FilesDataset, Food101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Food101`, read from records: photographs of 101 kinds of food."""

    _ENTRY = "food101"

    @derived
    def classes(self) -> list[str]:
        """The names of the classes in the order of their labels."""
        return self._class_names()


class SUN397Record(FilesDataset, SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SUN397`, read from records: photographs of 397 kinds of scenes, sorted by folder and name."""

    _ENTRY = "sun397"

    @derived
    def classes(self) -> list[str]:
        """The names of the scenes in the order of their labels."""
        return self._class_names()


class GTSRBRecord(SplitDataset[TrainTest], SamplesDataset, GTSRB):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `GTSRB`, read from records; each split is a record set of its own."""

    _ENTRY = "gtsrb"

    @override
    def _show_split(
        self, split: str, *, download: bool | None, options: PrepareOptions, loader: Loader = pil_loader
    ) -> None:
        split = "" if split == "train" else split  # class folders have no splits
        super()._show_split(split, download=download, options=options, loader=loader)


class ImagenetteRecord(SamplesDataset, Imagenette):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Imagenette`, read from records; each size is a record set of its own.

    Args:
        size: "full", "320px" or "160px": the shorter side of the images.
    """

    _ENTRY = "imagenette"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        size: Literal["full", "320px", "160px"] = "full",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._split = check_choice(split, "split", ["train", "val"])
        self._size = self._part = check_choice(size, "size", ["full", "320px", "160px"])
        self._show_split(split, download=download, options=options, loader=loader)
        self.wnids = self._class_names()
        self.wnid_to_idx = {wnid: label for label, wnid in enumerate(self.wnids)}

    @derived
    def classes(self) -> list[tuple[str, ...]]:  # type: ignore[override]  # torchvision's are tuples here
        """The names of each label, as a tuple."""
        return [self._WNID_TO_CLASS[wnid] for wnid in self.wnids]

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, names in enumerate(self._first_classes()) for name in names}


class Places365Record(SamplesDataset, Places365):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Places365`, read from records; each split and size is a record set of its own.

    Args:
        split: "train-standard", "train-challenge", "val" or "test", whose labels are None.
        small: Images of 256 by 256 pixels instead of the large ones.
    """

    _ENTRY = "places365"
    _ITEMS = "imgs"

    def __init__(
        self,
        root: Root,
        split: Literal["train-standard", "train-challenge", "val", "test"] = "train-standard",
        small: bool = False,
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", self._SPLITS)
        self.small = small
        self._part = f"{split}-small" if small else split
        self._show_split(split, download=download, options=options, loader=loader)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)

    @derived
    def classes(self) -> list[str]:
        """The class names, sorted; `class_to_idx` has their labels."""
        return sorted(self._class_names())

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label)."""
        image, target = self._load(index)
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def _batch_problem(self) -> str:
        # Samples go through `transforms`, which must be the other two.
        both: Any = StandardTransform() if self.transforms is None else self.transforms
        if (
            type(both) is not StandardTransform
            or both.transform is not self.transform
            or both.target_transform is not self.target_transform
        ):
            return "its transforms are not its transform and its target_transform"
        return self._label_problem(Places365Record, self._ITEMS) or self._loader.problem

    def download_devkit(self) -> None:
        """Do nothing: as `download`."""

    def download_images(self) -> None:
        """Do nothing: as `download`."""

    def _member_md5s(self) -> Mapping[str, str]:
        return dict((self._CATEGORIES_META, self._FILE_LIST_META[self.split]))


class StanfordCarsRecord(SplitFilesDataset[TrainTest], SamplesDataset, StanfordCars):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `StanfordCars`, read from records; each split is a record set of its own.

    The host of the dataset is gone. ``download=True`` says how to get the files, or takes them from a mirror
    (`PrepareOptions`).
    """

    _ENTRY = "stanford_cars"
