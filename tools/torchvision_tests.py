"""Run torchvision's own tests of its datasets with recordzoo's classes in place of torchvision's.

Needs a checkout of pytorch/vision (its tag should be that of the installed torchvision) and `make install`:

    git clone --depth 1 --branch v0.29.2 https://github.com/pytorch/vision ../vision
    .venv/bin/python tools/torchvision_tests.py ../vision
    .venv/bin/python tools/torchvision_tests.py ../vision -k "SVHN or FER2013"

Arguments behind the checkout go to pytest. Cases of classes that recordzoo lacks are left out, and those of `SKIPPED`.
"""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
import torchvision

from recordzoo import catalogue

SKIPPED: dict[str, str] = {}
"""Cases that say nothing about recordzoo, by the end of their ids, with the reason."""


def stand_in(name: str, record_class: type) -> type:
    """Return the class under torchvision's name: its tests write files to a folder of that name.

    Their files have other content than the dataset's, so hashes are not compared.
    """

    # Any: torchvision's arguments.
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        record_class.__init__(self, *args, check_hash=False, **kwargs)  # type: ignore[misc]  # of this very class

    return type(name, (record_class,), {"__init__": __init__, "__module__": record_class.__module__})


class OurClasses:
    """The pytest plugin: exchanges the classes before the tests are imported, then drops what it has no class for."""

    def __init__(self) -> None:
        modules = catalogue.class_modules()
        found = {name: getattr(importlib.import_module(module), name) for name, module in modules.items()}
        self.classes = {
            name.removesuffix("Record"): stand_in(name.removesuffix("Record"), each) for name, each in found.items()
        }
        for name in self.classes.keys() & set(torchvision.datasets.__all__):
            setattr(torchvision.datasets, name, self.classes[name])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = []
        for item in items:
            kind = getattr(getattr(item, "cls", None), "DATASET_CLASS", None)
            if kind not in self.classes.values() or any(item.nodeid.endswith(end) for end in SKIPPED):
                left_out.append(item)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(inspect.getdoc(sys.modules[__name__]))
    tests = Path(sys.argv[1], "test", "test_datasets.py")
    sys.exit(pytest.main([str(tests), "-p", "no:cacheprovider", *sys.argv[2:]], plugins=[OurClasses()]))
