"""`CIFAR10Record` and `CIFAR100Record`: torchvision's CIFAR10 and CIFAR100 from records."""

from typing import Unpack

from torchvision.datasets import CIFAR10, CIFAR100

from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform
from recordzoo.preparing import PrepareOptions


class CIFAR10Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR10`, read from records.

    ``data``, uint8 [n, 32, 32, 3], is read into memory when somebody asks for it, and counts from then on.

    Args:
        root: Where ``cifar-10-batches-py/`` or ``cifar-10-python.tar.gz`` is or goes to; or the record set.
        train: The 50,000 training images or the 10,000 test images.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        **options: See `PrepareOptions`.

    Raises:
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = CIFAR10Record("data", train=False)
        >>> image, label = dataset[0]
    """

    entry = "cifar10"

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.train = train
        self._show_split("train" if train else "test", download=download, options=options)

    def _member_md5s(self) -> dict[str, str]:
        return {**dict(self.train_list + self.test_list), self.meta["filename"]: self.meta["md5"]}


class CIFAR100Record(CIFAR10Record, CIFAR100):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR100`, read from records; labels are the fine ones. See `CIFAR10Record`.

    Examples:
        >>> dataset = CIFAR100Record("data", train=False)
        >>> image, label = dataset[0]
    """

    entry = "cifar100"
