"""`FGVCAircraftRecord`: torchvision's FGVCAircraft from records."""

from typing import Literal, Unpack

from torchvision.datasets import FGVCAircraft
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.folders import Loader
from recordzoo.families.selection import Selection, not_listed
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.reader import RecordReader


class FGVCAircraftRecord(FilesDataset, FGVCAircraft):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FGVCAircraft`, read from records.

    Args:
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (30).

    Examples:
        >>> dataset = FGVCAircraftRecord("data", "test", annotation_level="family")
        >>> image, label = dataset[0]
    """

    entry = "fgvc_aircraft"
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
