"""The dataset classes; each is imported when it is first asked for, because torch takes seconds to load."""

import importlib
from typing import Any

CLASSES = {
    "CIFAR10Record": "recordzoo.datasets.cifar10",
    "CUB200Record": "recordzoo.datasets.cub200",
    "ImageFolderRecord": "recordzoo.datasets.folder",
    "ImageNetRecord": "recordzoo.datasets.imagenet",
    "VOCDetectionRecord": "recordzoo.datasets.voc",
    "VOCSegmentationRecord": "recordzoo.datasets.voc",
}
"""Where each dataset class is."""

__all__ = sorted(CLASSES)


# Any: a class.
def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(CLASSES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *CLASSES]
