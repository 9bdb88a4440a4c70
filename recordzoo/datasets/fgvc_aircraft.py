"""`FGVCAircraftRecord`: torchvision's FGVCAircraft from records."""

import os
from typing import Literal, Unpack

from torchvision.datasets import FGVCAircraft
from torchvision.datasets.folder import default_loader

from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection, not_listed
from recordzoo.preparing import PrepareOptions
from recordzoo.recipes.base import NO_TARGET


class FGVCAircraftRecord(FilesDataset, FGVCAircraft):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FGVCAircraft`, read from records.

    Args:
        root: Where ``fgvc-aircraft-2013b/`` or its archive is or goes to; or the record set.
        split: "train", "val", "trainval" or "test".
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (30).
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` or `annotation_level` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = FGVCAircraftRecord("data", "test", annotation_level="family")
        >>> image, label = dataset[0]
    """

    entry = "fgvc_aircraft"
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
        self._data_path = os.path.join(self.root, "fgvc-aircraft-2013b")
        reader = self._open_part(download=download, options=options)
        folder = os.path.join(self._data_path, "data", "images")
        list_name = f"images_{annotation_level}_{split}.txt"
        selection = Selection(reader, split, column=annotation_level, listed_in=list_name)
        if (selection.targets() == NO_TARGET).any():
            raise not_listed(reader, f"{annotation_level} of each image in the split {split!r}", list_name)
        self._show_files(selection, folder, loader)

    @derived
    def classes(self) -> list[str]:
        """The class names of the annotation level, in the order of their labels."""
        return self._names_of(self._annotation_level)
