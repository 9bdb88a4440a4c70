"""`CLEVRClassificationRecord`: torchvision's CLEVRClassification from records."""

from pathlib import Path
from typing import Unpack

from torchvision.datasets import CLEVRClassification
from torchvision.datasets.folder import default_loader

from recordzoo.base.types import TrainValTest
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.files import FilesDataset
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection, UnlabelledSelection
from recordzoo.preparing import PrepareOptions


class CLEVRClassificationRecord(FilesDataset, CLEVRClassification):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CLEVRClassification`, read from records: rendered scenes, labelled by their number of objects.

    Args:
        root: Where ``clevr/`` with the tree or ``CLEVR_v1.0.zip`` is or goes to; or the record set.
        split: "train", "val" or "test", whose labels are None.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data; or no scenes of this split.

    Examples:
        >>> dataset = CLEVRClassificationRecord("data", "val")
        >>> image, number_of_objects = dataset[0]
    """

    entry = "clevr"

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("train", "val", "test"))
        self._start(root, transform=transform, target_transform=target_transform)
        self._base_folder = Path(self.root) / "clevr"
        self._data_folder = self._base_folder / "CLEVR_v1.0"
        reader = self._open_part(download=download, options=options)
        kind = UnlabelledSelection if split == "test" else Selection
        self._show_files(kind(reader, split), self._data_folder / "images", loader)
