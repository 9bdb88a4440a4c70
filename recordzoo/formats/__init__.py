"""Formats of other tools, a module for each: what is there, and its samples, read without running any of it.

A module has

* ``find``, which returns the dataset at a location (a path or an address), given the field names of the tool's keys;
  None if names and first bytes show another format. It raises `SourceError` for a dataset of this format that is
  incomplete or damaged, and `PrepareError` if a required package is not installed.
* ``LOOKS_FOR``, a text that says in messages what ``find`` looks for.

To add a format, write such a module, and put its name into `FORMATS`, at its place in the order of detection.
"""

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from recordzoo.base.text import shown
from recordzoo.errors import ArgumentError, NotPreparedError

if TYPE_CHECKING:
    from recordzoo.formats.base import Foreign

FORMATS = ("tfrecord", "webdataset", "zip", "huggingface", "sqlite", "mongodb", "indexed")
"""The modules, in the order in which they are tried."""

LAYOUTS = ("folder2lmdb", "torchrecord", "caffe", "lmdb_arrays", "lmdb_objects", "lmdb_text", "lmdb_images")
"""The layouts of LMDB databases that are known; LMDB is tried last."""


NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


def find_foreign(location: str, name: str | None, fields: Mapping[str, str]) -> "Foreign | None":
    """Find the dataset at a path or an address; None if no format of this package fits.

    Args:
        location: The path, or the address.
        name: The format, or the layout of an LMDB database, if given by the user. Default: detected.
        fields: As in `Foreign`.

    Raises:
        ArgumentError: A directory has files of several formats.
        NotPreparedError: The location does not have the given format.
        SourceError, PrepareError: As ``find``.
    """
    fit: dict[str, Foreign] = {}
    for each in (*FORMATS, "lmdb") if name is None else (name,):
        if each == "huggingface" and "webdataset" in fit:
            continue  # tables of metadata, as img2dataset writes them beside its tars
        found = _module(each).find(location, fields, *([each] if each in LAYOUTS else []))
        fit |= {} if found is None else {each: found}
        if fit and not os.path.isdir(location):
            break  # only a directory may have others
    if len(fit) > 1:
        text = f"{location} has files of {' and '.join(fit)}. Pass the path of those that are meant"
        raise ArgumentError(f"{text}, or their format: --from {next(iter(fit))} (from_=).")
    if fit or name is None:
        return next(iter(fit.values()), None)
    is_there = "://" in location or "{" in location or os.path.lexists(location)
    text = f" (looked for {_module(name).LOOKS_FOR})" if is_there else ": it does not exist"
    raise NotPreparedError(f"There is nothing of format {name} at {shown(location)}{text}.", path=shown(location))


def _module(name: str) -> ModuleType:
    """Import the module of a format, or of a layout of LMDB."""
    return importlib.import_module(f"recordzoo.formats.{'lmdb' if name in LAYOUTS else name}")
