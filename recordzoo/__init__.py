"""A torchvision-compatible dataset zoo: raw data is downloaded, converted once into record sets, and read fast.

    from recordzoo import CUB200Record
    train = CUB200Record("data", split="train", download=True)

    import recordzoo
    recordzoo.convert(my_dataset, "my.records")

Importing this package touches no disk, no network and no torch; a dataset class is imported when it is first named.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from recordzoo import errors as errors
    from recordzoo.batches.loader import RecordLoader as RecordLoader
    from recordzoo.datasets.cifar10 import CIFAR10Record as CIFAR10Record
    from recordzoo.datasets.cub200 import CUB200Record as CUB200Record
    from recordzoo.datasets.folder import ImageFolderRecord as ImageFolderRecord
    from recordzoo.datasets.imagenet import ImageNetRecord as ImageNetRecord
    from recordzoo.datasets.voc import VOCDetectionRecord as VOCDetectionRecord
    from recordzoo.datasets.voc import VOCSegmentationRecord as VOCSegmentationRecord
    from recordzoo.own.convert import convert as convert
    from recordzoo.own.importing import import_records as import_records
    from recordzoo.own.listing import prepare_list as prepare_list
    from recordzoo.own.writer import RecordWriter as RecordWriter
    from recordzoo.records.reader import RecordReader as RecordReader
    from recordzoo.records.verify import verify as verify
    from recordzoo.sampling.samplers import RecordSampler as RecordSampler
    from recordzoo.zoo import info as info
    from recordzoo.zoo import list_datasets as list_datasets
    from recordzoo.zoo import prepare as prepare

__all__ = [
    "CIFAR10Record",
    "CUB200Record",
    "ImageFolderRecord",
    "ImageNetRecord",
    "RecordLoader",
    "RecordReader",
    "RecordSampler",
    "RecordWriter",
    "VOCDetectionRecord",
    "VOCSegmentationRecord",
    "__version__",
    "convert",
    "errors",
    "import_records",
    "info",
    "list_datasets",
    "prepare",
    "prepare_list",
    "verify",
]

ZOO = {
    "list_datasets": "recordzoo.zoo",
    "info": "recordzoo.zoo",
    "prepare": "recordzoo.zoo",
    "verify": "recordzoo.records.verify",
}
"""Modules of the functions that work without a dataset object."""

OWN = {
    "RecordReader": "recordzoo.records.reader",
    "RecordWriter": "recordzoo.own.writer",
    "convert": "recordzoo.own.convert",
    "import_records": "recordzoo.own.importing",
    "prepare_list": "recordzoo.own.listing",
}
"""Modules of the names that work on a user's own data. Dataset classes are listed in `recordzoo.datasets`."""

TRAINING = {
    "RecordLoader": "recordzoo.batches.loader",
    "RecordSampler": "recordzoo.sampling.samplers",
}
"""Modules of the names that bring samples to a training loop; they import torch."""


# Any: a class, function or module.
def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("recordzoo.errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module((ZOO | OWN | TRAINING).get(name, "recordzoo.datasets")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
