"""Formats of other tools, a module for each: what is there, and its samples, read without running any of it.

To add a format, write a module with `find` and `LOOKS_FOR`, and put its name into `FORMATS`, at its place in the order
of detection.
"""

import functools
import importlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from recordzoo.base.text import shown
from recordzoo.errors import NotPreparedError

if TYPE_CHECKING:
    from recordzoo.formats.base import Foreign

FORMATS = (
    "tfrecord",
    "webdataset",
    "zip",
    "huggingface",
    "sqlite",
    "mongodb",
    "indexed",
)
"""The modules, in the order in which they are tried."""

LAYOUTS = ("folder2lmdb", "torchrecord", "caffe", "lmdb_arrays", "lmdb_objects", "lmdb_text", "lmdb_images")
"""The layouts of LMDB databases that are known; LMDB is tried last."""


NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


class Format(NamedTuple):
    """A format that `prepare` imports.

    Attributes:
        find: Returns the dataset at a location (a path or an address), given the field names of the tool's keys; None
            if names and first bytes show another format. It raises `SourceError` for a dataset of this format that is
            incomplete or damaged, and `PrepareError` if a required package is not installed.
        looks_for: Description of what `find` looks for, for messages.
    """

    find: Callable[[str, Mapping[str, str]], "Foreign | None"]
    looks_for: str


@functools.cache
def formats() -> Mapping[str, Format]:
    """Return the formats by name, in the order in which they are tried, then the layouts of LMDB."""
    modules = {name: importlib.import_module(f"recordzoo.formats.{name}") for name in (*FORMATS, "lmdb")}
    found = {name: Format(module.find, module.LOOKS_FOR) for name, module in modules.items()}
    lmdb = modules["lmdb"]
    return found | {name: Format(functools.partial(lmdb.find, layout=name), lmdb.LOOKS_FOR) for name in LAYOUTS}


def find_foreign(location: str, name: str | None, fields: Mapping[str, str]) -> "Foreign | None":
    """Find the dataset at a path or an address; None if no format of this package fits.

    Args:
        location: The path, or the address.
        name: The format, or the layout of an LMDB database, if given by the user. Default: detected.
        fields: As in `Foreign`.

    Raises:
        NotPreparedError: The location does not have the given format.
        SourceError, PrepareError: As `Format.find`.
    """
    if name is None:
        there = (each.find(location, fields) for key, each in formats().items() if key not in LAYOUTS)
        return next((each for each in there if each is not None), None)
    found = formats()[name].find(location, fields)
    if found is not None:
        return found
    is_there = "://" in location or "{" in location or os.path.lexists(location)
    text = f" (looked for {formats()[name].looks_for})" if is_there else ": it does not exist"
    raise NotPreparedError(f"There is nothing of format {name} at {shown(location)}{text}.", path=shown(location))
