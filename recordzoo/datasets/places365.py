"""`Places365Record`: torchvision's Places365 from records."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from torchvision.datasets import Places365
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.folders import Loader, SamplesDataset
from recordzoo.families.selection import Selection, UnlabelledSelection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader


class Places365Record(SamplesDataset, Places365):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Places365`, read from records; each split and size is a record set of its own.

    Args:
        split: "train-standard", "train-challenge", "val" or "test", whose labels are None.
        small: Images of 256 by 256 pixels instead of the large ones.

    Examples:
        >>> dataset = Places365Record("data", "val", small=True)
        >>> image, label = dataset[0]
    """

    entry = "places365"
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
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target

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
