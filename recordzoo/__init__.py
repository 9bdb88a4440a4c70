"""A torchvision-compatible dataset zoo: raw data is downloaded, converted once into record sets, and read fast.

    from recordzoo import CUB200Record
    train = CUB200Record("data", split="train", download=True)

    import recordzoo
    recordzoo.convert(my_dataset, "my.records")

Importing this package touches no disk, no network and no torch; a dataset class is imported when it is first named.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

ZOO = {
    "PrepareOptions": "recordzoo.preparing.options",
    "copy": "recordzoo.sets.copy",
    "list_datasets": "recordzoo.catalogue.search",
    "info": "recordzoo.zoo",
    "open": "recordzoo.zoo",
    "prepare": "recordzoo.zoo",
    "pull": "recordzoo.sets.copy",
    "push": "recordzoo.sets.push",
    "verify": "recordzoo.records.verify",
}
"""Modules of the functions that work without a dataset object, and of their options."""

OWN = {
    "Progress": "recordzoo.base.progress",
    "RecordDataset": "recordzoo.families.record_set",
    "RecordReader": "recordzoo.records.reader",
    "RecordWriter": "recordzoo.own.writer",
    "convert": "recordzoo.own.writer",
    "export": "recordzoo.formats.export",
    "merge": "recordzoo.sets.merge",
    "split": "recordzoo.sets.split",
    "subset": "recordzoo.sets.subset",
    "to_hf": "recordzoo.formats.to_hf",
}
"""Modules of the names that work on a user's own data. The catalogue knows those of dataset classes."""

TRAINING = {
    "HasImageBytes": "recordzoo.loader.stores",
    "MultiView": "recordzoo.loader.plan",
    "RecordLoader": "recordzoo.loader.loader",
    "RecordSampler": "recordzoo.loader.samplers",
    "mix": "recordzoo.loader.parts",
}
"""Modules of the names that bring samples to a training loop; they import torch."""


# Any: a class, function or module; or the list of all names.
def __getattr__(name: str) -> Any:
    if name in ("datasets", "errors"):
        return importlib.import_module(f"recordzoo.{name}")
    if name == "__all__":
        names = {"__version__", "datasets", "errors", *_modules()}
        return sorted(names - {"open"})  # `import *` must not replace Python's open
    module = (ZOO | OWN | TRAINING).get(name) or (_modules().get(name) if name.endswith("Record") else None)
    if module is None:
        known = name[:1].isupper() and f"{name}Record" in _modules()  # torchvision's name
        hint = f". Did you mean {name}Record?" if known else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__getattr__("__all__"), "open"})


def _modules() -> dict[str, str]:
    """Return the module of each public name: of the dataset classes, too, which the catalogue knows."""
    from recordzoo import catalogue

    return ZOO | OWN | TRAINING | catalogue.class_modules()
