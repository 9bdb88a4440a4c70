"""`CIFAR10CRecord` and `CIFAR10_1Record`: test sets for models of CIFAR-10, from records."""

from typing import Literal, Unpack

import numpy as np
from torchvision.datasets import CIFAR10

from recordzoo.datasets.cifar_tests_recipe import CORRUPTIONS
from recordzoo.errors import ArgumentError
from recordzoo.families.arrays import ArrayDataset
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.selection import Selection
from recordzoo.preparing import PrepareOptions


class CIFAR10CRecord(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """CIFAR-10-C, read from records: the test images of CIFAR-10, with a corruption in five severities.

    Args:
        root: Where ``CIFAR-10-C/`` or ``CIFAR-10-C.tar`` is or goes to; or the record set.
        corruption: "gaussian_noise", "fog", ...: one of the 15 of the benchmark and 4 more.
        severity: 1 to 5; None for all of them, one after another.
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the archive if it is not there.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `corruption` or `severity` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = CIFAR10CRecord("data", "fog", severity=3)
        >>> image, label = dataset[0]
    """

    entry = "cifar10_c"
    train = False

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
        if severity not in (None, 1, 2, 3, 4, 5):
            raise ArgumentError(f"severity must be None or 1 to 5; it is {severity!r}.")
        self.severity = severity
        reader = self._open_part(download=download, options=options)
        severities = np.split(reader.split(corruption.replace("_", "-")), 5)
        self._show(Selection(reader, positions=np.concatenate(severities[:severity][-1:] if severity else severities)))


class CIFAR10_1Record(ArrayDataset, CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    """CIFAR-10.1, read from records: new test images for CIFAR-10, collected as the first ones were.

    Args:
        root: Where ``cifar10_1/`` with the files is or goes to; or the record set.
        version: "v6" (2,000 images, as many of each class) or "v4" (2,021).
        transform: Applied to the image.
        target_transform: Applied to the label.
        download: Download the files if they are not there.
        **options: See `PrepareOptions`.

    Raises:
        ArgumentError: `version` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = CIFAR10_1Record("data")
        >>> image, label = dataset[0]
    """

    entry = "cifar10_1"
    train = False

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
