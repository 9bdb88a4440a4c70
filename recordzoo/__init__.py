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
    from recordzoo.sampling.samplers import RecordSampler as RecordSampler

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
    "import_records",
    "prepare_list",
]

OWN = {
    "RecordReader": "recordzoo.records.reader",
    "RecordWriter": "recordzoo.own.writer",
    "convert": "recordzoo.own.convert",
    "import_records": "recordzoo.own.importing",
    "prepare_list": "recordzoo.own.listing",
}
"""Where that is which is for everybody's own data; the dataset classes have their own such list."""

TRAINING = {
    "RecordLoader": "recordzoo.batches.loader",
    "RecordSampler": "recordzoo.sampling.samplers",
}
"""Where that is which brings samples to a training loop; it imports torch."""


# Any: a class or function.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module((OWN | TRAINING).get(name, "recordzoo.datasets")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
