"""`ObjectNetRecord`: ObjectNet, a test set of 313 kinds of objects, from records."""

from typing import Literal, Unpack

from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.preparing.options import PrepareOptions


class ObjectNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """ObjectNet, read from records, in ImageFolder's order over ``objectnet-1.0/images``. Its license: only to test on.

    A label is the place of the folder among the sorted ones. `imagenet_labels` says what a model of ImageNet may
    answer: ``prediction in dataset.imagenet_labels[label]``. Images have the red border of 1 pixel that the authors put
    on them; `without_border` is a transform that removes it.

    Args:
        root: Where ``objectnet-1.0/`` is, the extracted tree; or the record set. The zip itself is not read.
        split: "test" for all images, or "imagenet" for those of the classes that ImageNet has. Labels are the same.
        download: Has no use: the error says how to get the tree.

    Attributes:
        classes: The names of the folders: "air_freshener".

    Raises:
        SourceError: There is the zip, and not the tree.

    Examples:
        >>> dataset = ObjectNetRecord("data", transform=ObjectNetRecord.without_border)
        >>> image, label = dataset[0]
    """

    entry = "objectnet"
    _PATH = str
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        split: Literal["test", "imagenet"] = "test",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.split = check_choice(split, "split", ("test", "imagenet"))
        self._show_split(split, download=download, options=options, loader=loader)

    @staticmethod
    def without_border(image: Image.Image) -> Image.Image:
        """Crop the border of 1 pixel."""
        return image.crop((1, 1, image.width - 1, image.height - 1))

    @derived
    def class_names(self) -> list[str]:
        """The authors' names of the classes in the order of the labels: "Air freshener"."""
        return list(self._selection.reader.manifest.metadata["class_names"])

    @derived
    def imagenet_labels(self) -> list[list[int]]:
        """The equivalent labels of torchvision's ImageNet for each label; usually none."""
        return [list(labels) for labels in self._selection.reader.manifest.metadata["imagenet_labels"]]
