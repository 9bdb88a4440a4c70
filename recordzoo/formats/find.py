"""The table of formats, and the detection of a location's format.

To add a format, write a module with `find` and `LOOKS_FOR`, put its name into `recordzoo.formats.FORMATS`, at its place
in the order of detection, and a row into `formats`.
"""

import functools
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from recordzoo.base.text import shown
from recordzoo.errors import NotPreparedError
from recordzoo.formats import LAYOUTS
from recordzoo.formats.base import Foreign


class Format(NamedTuple):
    """A format that `prepare` imports.

    Attributes:
        find: Returns the dataset at a location (a path or an address), given the field names of the tool's keys; None
            if names and first bytes show another format. It raises `SourceError` for a dataset of this format that is
            incomplete or damaged, and `PrepareError` if a required package is not installed.
        looks_for: Description of what `find` looks for, for messages.
    """

    find: Callable[[str, Mapping[str, str]], Foreign | None]
    looks_for: str


@functools.cache
def formats() -> Mapping[str, Format]:
    """Return the formats by name, in the order in which they are tried: LMDB, which has several layouts, is last."""
    from recordzoo.formats import huggingface, indexed, lmdb, mongodb, sqlite, tfrecord, webdataset, zip

    modules = {
        "tfrecord": tfrecord,
        "webdataset": webdataset,
        "zip": zip,
        "huggingface": huggingface,
        "sqlite": sqlite,
        "mongodb": mongodb,
        "indexed": indexed,
        "lmdb": lmdb,
    }
    layouts = {layout: Format(functools.partial(lmdb.find, layout=layout), lmdb.LOOKS_FOR) for layout in LAYOUTS}
    return {name: Format(module.find, module.LOOKS_FOR) for name, module in modules.items()} | layouts


def find_foreign(location: str, name: str | None, fields: Mapping[str, str]) -> Foreign | None:
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
