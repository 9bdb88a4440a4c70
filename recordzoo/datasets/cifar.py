"""torchvision's CIFAR10 and CIFAR100 from records, and the test sets for their models: CIFAR-10-C, -100-C and -10.1."""

from typing import Literal, Unpack

import numpy as np
from torchvision.datasets import CIFAR10, CIFAR100
from typing_extensions import override

from recordzoo.datasets.cifar_recipe import CORRUPTIONS
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader


class CIFAR10Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR10`, read from records.

    ``data``, uint8 [n, 32, 32, 3], is read into memory on first access; from then on, changes show in the samples.
    """

    _ENTRY = "cifar10"

    def _member_md5s(self) -> dict[str, str]:
        return {**dict(self.train_list + self.test_list), self.meta["filename"]: self.meta["md5"]}


class CIFAR100Record(CIFAR10Record, CIFAR100):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CIFAR100`, read from records; labels are the fine ones. See `CIFAR10Record`."""

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
        self._start(root, transform=transform, target_transform=target_transform)
        self.corruption = check_choice(corruption, "corruption", CORRUPTIONS)
        self.severity = check_severity(severity)
        self._show_split(corruption.replace("_", "-"), download=download, options=options)

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
        self._start(root, transform=transform, target_transform=target_transform)
        self.version = self._part = check_choice(version, "version", ("v6", "v4"))
        self._show_split("test", download=download, options=options)
