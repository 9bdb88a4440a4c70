"""torchvision's MNIST and CIFAR from records, with their relatives, and the test sets for CIFAR's models."""

import os
from collections.abc import Collection
from typing import Any, Literal, Unpack

import numpy as np
import torch
from torchvision.datasets import CIFAR10, CIFAR100, EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.datasets.cifar_mnist_recipe import CORRUPTIONS
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader

# Any, in this module: arguments that torchvision's classes hand on to MNIST's.

EMNISTSplit = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]
QMNISTPart = Literal["train", "test", "test10k", "test50k", "nist"]


class MNISTRecord(ArrayDataset, MNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `MNIST`, read from records.

    Args:
        train: The 60,000 training images or the 10,000 test images.
    """

    _ENTRY = "mnist"
    _INT_LABELS = True
    _OUT_OF_RANGE = "index {index} is out of bounds for dimension 0 with size {length}"
    classes: list[str] = MNIST.classes
    # For EMNIST under the v2 wrapper this names MNIST's classes, as torchvision does.
    class_to_idx: dict[str, int] = MNIST.class_to_idx

    @property
    def raw_folder(self) -> str:
        """The folder of the raw files, existing or not."""
        return os.path.join(self.root, catalogue.entry(self._ENTRY).folder)

    @property
    def processed_folder(self) -> str:
        """The folder that torchvision's versions before 0.9 wrote to."""
        return os.path.join(os.path.dirname(self.raw_folder), "processed")

    @derived
    def data(self) -> torch.Tensor:  # type: ignore[override]  # torchvision's is a tensor here
        """All images, a tensor uint8 [n, 28, 28]; made on first access; from then on, changes show in the samples."""
        return torch.from_numpy(self._all_pixels())

    @derived
    def targets(self) -> torch.Tensor:  # type: ignore[override]  # torchvision's is a tensor here
        """The labels, int64 [n]."""
        return torch.from_numpy(self._selection.targets())


class FashionMNISTRecord(MNISTRecord, FashionMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FashionMNIST`, read from records."""

    _ENTRY = "fashion_mnist"
    classes: list[str] = FashionMNIST.classes


class KMNISTRecord(MNISTRecord, KMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `KMNIST`, read from records."""

    _ENTRY = "kmnist"
    classes: list[str] = KMNIST.classes


class EMNISTRecord(MNISTRecord, EMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `EMNIST`, read from records: six selections, each a record set of its own.

    Images are transposed, as in torchvision. Labels of "letters" begin at 1.

    Args:
        **kwargs: `MNISTRecord`'s arguments: ``train``, ``transform``, ``target_transform``, ``download``, and
            `PrepareOptions`.

    Examples:
        >>> dataset = EMNISTRecord("data", "letters", train=False)
        >>> image, label = dataset[0]
    """

    _ENTRY = "emnist"

    # Any: as above.
    def __init__(self, root: Root, split: EMNISTSplit, **kwargs: Any) -> None:
        self.split = self._part = check_choice(split, "split", self.splits)
        self.training_file, self.test_file = self._training_file(split), self._test_file(split)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _required_files(self) -> Collection[str]:
        return [f"emnist-{self.split}-{self._chosen_split()}-images-idx3-ubyte"]


class QMNISTRecord(MNISTRecord, QMNIST):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `QMNIST`, read from records.

    Args:
        what: "train", "test", "test10k", "test50k" or "nist"; None: "train" or "test", as `train` says.
        compat: Targets are digits; otherwise tensors int64 [8] with the writer and the place of each digit.
        train: Whether `what` is "train" if it is None.
        **kwargs: `MNISTRecord`'s other arguments: ``transform``, ``target_transform``, ``download``, `PrepareOptions`.
    """

    _ENTRY = "qmnist"
    classes: list[str] = QMNIST.classes

    # Any: as above.
    def __init__(
        self, root: Root, what: QMNISTPart | None = None, compat: bool = True, train: bool = True, **kwargs: Any
    ) -> None:
        what = ("train" if train else "test") if what is None else what
        self.what = check_choice(what, "what", tuple(self.subsets))
        self.compat, self._part = compat, self.subsets[what]
        self.data_file = self.training_file = self.test_file = f"{what}.pt"
        super().__init__(root, train, **kwargs)

    @override
    def _chosen_split(self) -> str:
        return self.what

    @derived
    def targets(self) -> torch.Tensor:  # type: ignore[override]  # torchvision's is a tensor here
        """The eight numbers of each digit, int64 [n, 8]."""
        return torch.from_numpy(self._selection.array("target").astype(np.int64))

    # Any: as above.
    def _label(self, label: Any) -> Any:
        return int(label[0]) if self.compat else label

    # Any: as above.
    def _stored_label(self, number: int) -> Any:
        return torch.from_numpy(super()._stored_label(number).astype(np.int64))


class CIFAR10Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR10`, read from records."""

    _ENTRY = "cifar10"

    def _member_md5s(self) -> dict[str, str]:
        return {**dict(self.train_list + self.test_list), self.meta["filename"]: self.meta["md5"]}


class CIFAR100Record(CIFAR10Record, CIFAR100):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR100`, read from records; labels are the fine ones."""

    _ENTRY = "cifar100"


def check_severity(severity: int | None) -> int | None:
    """Return the severity of a corruption; raise unless it is None or 1 to 5."""
    if severity not in (None, 1, 2, 3, 4, 5):
        raise ArgumentError(f"severity must be None or 1 to 5; it is {severity!r}.")
    return severity


class CIFAR10CRecord(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """CIFAR-10-C, read from records: the test images of CIFAR-10, with a corruption in five severities.

    Args:
        corruption: "gaussian_noise", "fog", ...: one of the 15 of the benchmark and 4 more.
        severity: 1 to 5; None for all of them, one after another.
    """

    _ENTRY = "cifar10_c"
    train = False  # torchvision's `repr` shows it

    def __init__(
        self,
        root: Root,
        corruption: str = "gaussian_noise",
        severity: int | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.corruption = check_choice(corruption, "corruption", CORRUPTIONS)
        self.severity = check_severity(severity)
        self._open_split(root, corruption.replace("_", "-"), transform, target_transform, download, **options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        if self.severity is None:
            return Selection(reader, split)
        return Selection(reader, positions=np.split(reader.split(split), 5)[self.severity - 1])


class CIFAR100CRecord(CIFAR10CRecord, CIFAR100):  # type: ignore[misc]  # as above
    """CIFAR-100-C, read from records: the test images of CIFAR-100, with a corruption in five severities.

    Args:
        corruption: "gaussian_noise", "fog", ...: as in `CIFAR10CRecord`.
        severity: 1 to 5; None for all of them, one after another.
    """

    _ENTRY = "cifar100_c"


class CIFAR10_1Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """CIFAR-10.1, read from records: new test images for CIFAR-10, collected as the first ones were.

    Args:
        version: "v6" (2,000 images, as many of each class) or "v4" (2,021).
    """

    _ENTRY = "cifar10_1"
    train = False  # as above

    def __init__(
        self,
        root: Root,
        version: Literal["v6", "v4"] = "v6",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.version = self._part = check_choice(version, "version", ("v6", "v4"))
        self._open_split(root, "test", transform, target_transform, download, **options)
