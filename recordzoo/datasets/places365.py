"""`Places365Record`: torchvision's Places365 from records."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from torchvision.datasets import Places365
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform

from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import SamplesDataset
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import Loader
from recordzoo.families.selection import Selection, UnlabelledSelection
from recordzoo.preparing import PrepareOptions


class Places365Record(SamplesDataset, Places365):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Places365`, read from records; each split and size is a record set of its own.

    Args:
        root: Where the lists and ``data_large_standard/``, or the archives, are or go to; or the record set.
        split: "train-standard", "train-challenge", "val" or "test", whose labels are None.
        small: Images of 256 by 256 pixels instead of the large ones.
        download: Download the archives of the split and size, and no others, if they are not there.
        transform: Applied to the image.
        target_transform: Applied to the label.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `split` has another value.
        NotPreparedError: There are no records and no raw data.

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
        reader = self._open_part(download=download, options=options)
        kind = UnlabelledSelection if split == "test" else Selection
        self._show_samples(kind(reader, split), self.images_dir, loader)

    @derived
    def classes(self) -> list[str]:
        """The class names, sorted; `class_to_idx` has their labels."""
        return sorted(self._class_names())

    # Any: what the loader and the transforms make of it.
    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return (image, label).

        Raises:
            IndexError: There is no such sample.
            ImageError: The image cannot be decoded.
            CorruptRecordError: The stored bytes are damaged.
        """
        image, target = self._load(index)
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target

    def fusion_problem(self) -> str:
        """See `ZooDataset`. Samples go through ``transforms``, which must be the other two for that."""
        both: Any = StandardTransform() if self.transforms is None else self.transforms
        if (
            type(both) is not StandardTransform
            or both.transform is not self.transform
            or both.target_transform is not self.target_transform
        ):
            return "its transforms are not its transform and its target_transform"
        return self._label_problem(Places365Record, self._ITEMS) or self._loader.fusion_problem()

    def download_devkit(self) -> None:
        """Do nothing: as `download`."""

    def download_images(self) -> None:
        """Do nothing: as `download`."""

    def _member_md5s(self) -> Mapping[str, str]:
        return dict((self._CATEGORIES_META, self._FILE_LIST_META[self.split]))
