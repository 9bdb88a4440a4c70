"""`CIFAR10Record` and `CIFAR100Record`: torchvision's CIFAR10 and CIFAR100 from records."""

from torchvision.datasets import CIFAR10, CIFAR100

from recordzoo.families.arrays import ArrayDataset


class CIFAR10Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR10`, read from records.

    ``data``, uint8 [n, 32, 32, 3], is read into memory on first access; from then on, changes show in the samples.
    """

    entry = "cifar10"

    def _member_md5s(self) -> dict[str, str]:
        return {**dict(self.train_list + self.test_list), self.meta["filename"]: self.meta["md5"]}


class CIFAR100Record(CIFAR10Record, CIFAR100):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR100`, read from records; labels are the fine ones. See `CIFAR10Record`."""

    entry = "cifar100"
