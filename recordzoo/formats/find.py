"""List the formats, and detect the format of a location."""

import importlib
import os
from collections.abc import Mapping
from typing import Protocol, cast

from recordzoo.base.text import shown
from recordzoo.errors import NotPreparedError
from recordzoo.formats import FORMATS, LAYOUTS, lmdb
from recordzoo.formats.base import Foreign


class Format(Protocol):
    """The interface of a format's module.

    Attributes:
        LOOKS_FOR: Description of what `find` looks for, for messages.
    """

    LOOKS_FOR: str

    def find(self, location: str, fields: Mapping[str, str]) -> Foreign | None:
        """Return the dataset at a location; None if names and first bytes show another format.

        Raises:
            SourceError: The dataset has this format, but is incomplete or damaged.
            PrepareError: A required package is not installed.
        """
        ...


def format_module(name: str) -> Format:
    """Return the module of a format."""
    # A module, looked at as its names are.
    return cast(Format, importlib.import_module(f"recordzoo.formats.{name}"))


def find_foreign(location: str, name: str | None, fields: Mapping[str, str]) -> Foreign | None:
    """Find the dataset at a path or an address; None if no format of this package fits.

    Args:
        location: The path, or the address.
        name: The format, if given by the user.
        fields: As in `Foreign`.

    Raises:
        NotPreparedError: The location does not have the given format.
        SourceError, PrepareError: As `Format.find`.
    """
    if name in LAYOUTS:
        found, looks_for = lmdb.find(location, fields, name), lmdb.LOOKS_FOR
    elif name is not None:
        found, looks_for = format_module(name).find(location, fields), format_module(name).LOOKS_FOR
    else:
        there = (format_module(each).find(location, fields) for each in (*FORMATS, "lmdb"))
        return next((each for each in there if each is not None), None)
    if found is not None:
        return found
    is_there = "://" in location or "{" in location or os.path.lexists(location)
    text = f" (looked for {looks_for})" if is_there else ": it does not exist"
    raise NotPreparedError(f"There is nothing of format {name} at {shown(location)}{text}.", path=shown(location))
