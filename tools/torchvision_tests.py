"""Run torchvision's own tests of its datasets with recordzoo's classes in place of torchvision's.

Takes a checkout of pytorch/vision, of about the version of the installed torchvision; what follows goes to pytest:

    git clone --depth 1 --branch v0.29.2 https://github.com/pytorch/vision ../vision
    python -m tools.torchvision_tests ../vision -k "SVHN or FER2013"

Tests of classes that recordzoo lacks are left out: video, optical flow, stereo. `-rs` shows what is skipped and why.
"""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
import torchvision

from recordzoo import catalogue
from recordzoo.datasets.arrays_recipe import PCAM

NOT_FOUND = "test_not_found_or_corrupted"
SKIPPED = {
    **dict.fromkeys(("CIFAR10", "CIFAR100"), "pickles of torch tensors; torchvision compares MD5s, unless mocked"),
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST"), "one split only; torchvision refuses that, unless mocked"),
    "ImageNet": "meta.bin with numbers as names of classes, and None for the validation images",
    "MovingMNIST": "frames of float64; a record is bytes, as the frames of the dataset are",
    "Places365": "3 of 365 categories, images that are no .jpg; torchvision compares MD5s, unless mocked",
    f"LSUN.{NOT_FOUND}": "wants LMDB's own error; ours is a FileNotFoundError",
}
"""Classes whose fake data is not what the dataset has, of which only `NOT_FOUND` is run; and one test."""


def stand_in(name: str, ours: type) -> type:
    """Return our class with the name and the signature of torchvision's; hashes of the fake data are not compared."""
    has_options = any(each.kind is each.VAR_KEYWORD for each in inspect.signature(ours).parameters.values())
    options = {"check_hash": False} if has_options else {}

    # Any: torchvision's arguments.
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        ours.__init__(self, *args, **options, **kwargs)  # type: ignore[misc]  # of this very class

    # Their tests ask for the defaults.
    init.__signature__ = inspect.signature(getattr(torchvision.datasets, name).__init__)  # type: ignore[attr-defined]
    return type(name, (ours,), {"__init__": init, "__module__": ours.__module__})


class OurClasses:
    """A pytest plugin: the classes are exchanged before the tests are imported."""

    def __init__(self) -> None:
        found = {name.removesuffix("Record"): name for name in catalogue.class_modules()}
        modules = {name: importlib.import_module(catalogue.class_modules()[ours]) for name, ours in found.items()}
        known = found.keys() & set(torchvision.datasets.__all__)
        self.classes = {name: stand_in(name, getattr(modules[name], found[name])) for name in known}
        for name, ours in self.classes.items():
            setattr(torchvision.datasets, name, ours)
        PCAM.image_shape = (10, 10, 3)  # of their fake patches

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what recordzoo has no class for, and skip `SKIPPED`."""
        # Any: a class, or None of a test that is in no class of a dataset.
        kinds: dict[pytest.Item, Any] = {
            item: getattr(getattr(item, "cls", None), "DATASET_CLASS", None) for item in items
        }
        config.hook.pytest_deselected(items=[item for item in items if kinds[item] not in self.classes.values()])
        items[:] = [item for item in items if kinds[item] in self.classes.values()]
        for item in items:
            name, test = kinds[item].__name__, item.name
            if reason := SKIPPED.get(f"{name}.{test}") or (test != NOT_FOUND and SKIPPED.get(name)):
                item.add_marker(pytest.mark.skip(reason=reason))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tests = Path(sys.argv[1], "test", "test_datasets.py")
    sys.exit(pytest.main([str(tests), "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[OurClasses()]))
