"""Checks shared by all functions that make records of user data."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.preparing import Options, is_record_set
from recordzoo.publish.build import tidy
from recordzoo.publish.output import Output


def options_to_make(place: Path, options: Options, check: Callable[[], object]) -> Options | None:
    """Return the options to make a record set with; None if the existing set fits the request.

    Args:
        place: The record set's directory.
        options: What was asked for.
        check: Raises `OtherSourceError` if the set that is there is not what is asked for.

    Raises:
        OtherSourceError: It is not, and may not be replaced.
    """
    to_make = dataclasses.replace(options, prepare=True, records_dir=place)
    if not is_record_set(place):
        return to_make
    try:
        if options.refresh is not True:
            check()
            tidy(Output(place))
            return None
    except OtherSourceError:
        if options.refresh != "if-changed":
            raise
    return dataclasses.replace(to_make, refresh=True)


def check_classes(classes: Sequence[str] | None) -> None:
    """Raise if the class names are one string instead of a sequence.

    Raises:
        ArgumentError: They are.
    """
    if isinstance(classes, str):
        raise ArgumentError(f"Argument classes is {classes!r}; it must be a list of names.")
