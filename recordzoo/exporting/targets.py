"""The formats of exports by name; a format's module is imported when it is asked for."""

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from recordzoo.exporting.target import Target

TARGETS = {
    "folder": "recordzoo.exporting.folder.Folder",
    "webdataset": "recordzoo.exporting.webdataset.WebDataset",
    "tfrecord": "recordzoo.exporting.tfrecord.TFRecord",
    "parquet": "recordzoo.exporting.parquet.Parquet",
    "zip": "recordzoo.exporting.zipped.Zipped",
}
"""Class of each format."""


def target_class(name: str) -> "type[Target]":
    """Return the class of a format."""
    module, _, attribute = TARGETS[name].rpartition(".")
    # A class, looked up by its name.
    return cast("type[Target]", getattr(importlib.import_module(module), attribute))
