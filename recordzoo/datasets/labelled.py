"""torchvision's datasets of pairs of path and label from records: GTSRB, Imagenette, Places365 and StanfordCars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from torchvision.datasets import GTSRB, Imagenette, Places365, StanfordCars
from torchvision.datasets.folder import default_loader, pil_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainVal
from recordzoo.datasets.labelled_recipe import CARS_ANNOTATIONS, GTSRB_FOLDERS
from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.folders import Loader, SamplesDataset, SplitDataset, SplitFilesDataset
from recordzoo.families.selection import Selection, UnlabelledSelection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader


class GTSRBRecord(SplitDataset[TrainTest], SamplesDataset, GTSRB):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `GTSRB`, read from records; each split is a record set of its own."""

    _ENTRY = "gtsrb"
    _PATHS = {"_base_folder": "gtsrb"}

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        self._target_folder = Path(self.root, "gtsrb", GTSRB_FOLDERS[split])

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
        self._url, self._md5 = self._ARCHIVES[size]
        self._size_root = Path(self.root) / Path(self._url).stem
        self._image_root = str(self._size_root / split)
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
    _PATHS = {"_base_folder": "stanford_cars"}

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        folder = Path(self.root, "stanford_cars")
        self._annotations_mat_path, self._images_base_path = folder / CARS_ANNOTATIONS[split], folder / f"cars_{split}"
