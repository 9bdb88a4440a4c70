"""Options and arguments of several commands, which read the same everywhere."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from recordzoo.errors import ArgumentError

_OWN_FILES = ("complete_bash", "complete_zsh")
"""Shells that complete paths themselves if we offer nothing: they quote, and add no space after a directory."""

_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kmgt]?)(?P<kind>i?b)?", re.IGNORECASE)


def parse_bytes(option: str, text: str) -> int:
    """Read ``512M`` or ``512MiB`` (2 to the power of 20) and ``512MB`` (10 to the power of 6) as bytes.

    Raises:
        ArgumentError: The text is not a size, or the size is less than a byte.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match:
        base = 1000 if (match["kind"] or "").lower() == "b" else 1024
        size = int(float(match["number"]) * base ** " kmgt".index(match["unit"].lower() or " "))
    if size < 1:
        raise ArgumentError(f"{option} {text!r} is no size: give bytes, or a number with K, M, G or T, as in 512M.")
    return size


def complete_data(incomplete: str) -> list[str]:
    """Complete the names of datasets and their parts, and the paths of directories and lists."""
    from recordzoo import catalogue

    entries = [catalogue.entry(name) for name in catalogue.names()]
    known = [*(e.name for e in entries), *(e.label(p.name) for e in entries for p in e.parts if p.name)]
    names = [name for name in known if name.startswith(incomplete)]
    return [*names, *_paths(incomplete)] if names else complete_path(incomplete)


def complete_path(incomplete: str) -> list[str]:
    """Complete the paths of directories and files."""
    return [] if os.environ.get("_RECORDZOO_COMPLETE") in _OWN_FILES else list(_paths(incomplete))


def _paths(incomplete: str) -> Iterator[str]:
    """Yield the paths with this beginning; a directory ends with a separator."""
    folder, start = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
            yield os.path.join(folder, entry.name, *([""] if entry.is_dir() else []))


# Any: typer's own class; so, too, below.
def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option with a value; `names` if it differs from the parameter's name."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(name: str, help: str, *names: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, *names, help=help)


def path_option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option that is, or begins with, a path."""
    return option(metavar, help, *names, autocompletion=complete_path, callback=_at_home, **more)


def directory_option(help: str, *names: str, **more: Any) -> Any:
    """Return an option that is a directory."""
    return path_option("DIR", help, *names, file_okay=False, **more)


def file_option(help: str) -> Any:
    """Return an option that is a file."""
    return path_option("FILE", help, dir_okay=False)


def path_argument(metavar: str, help: str, **more: Any) -> Any:
    """Return an argument that is a path."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete_path, callback=_at_home, **more)


def data_argument(metavar: str, help: str) -> Any:
    """Return an argument that is a record set, or the data of one."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete_data, callback=_at_home)


def _at_home(value: Any) -> Any:
    """Expand "~" in a path or in each of several: a shell leaves it in ``--root=~/zoo``, and another program anywhere.

    URLs do not begin with it, and stay.
    """
    if isinstance(value, list | tuple):
        return [_at_home(each) for each in value]
    if isinstance(value, Path):
        return value.expanduser()
    return os.path.expanduser(value) if isinstance(value, str) else value


Json = Annotated[bool, flag("--json", "Print one JSON document on stdout; errors as JSON on stderr.")]

RecordSet = Annotated[
    str,
    data_argument(
        "NAME|PATH|URL",
        "A record set's directory or URL, the tree or list that it was made from, or a dataset prepared here.",
    ),
]

SplitOption = Annotated[str | None, option("NAME", "Only images of this split.")]

Converters = Annotated[
    int | None,
    option("N", "Processes that convert. Default: a core each, at most 8; one for less than 16 MiB.", min=1),
]

Refresh = Annotated[bool, flag("--refresh", "Rebuild the record set and replace the existing one atomically.")]

AcceptTerms = Annotated[bool, flag("--accept-terms", "You accept the terms of access of a dataset's files.")]

DryRun = Annotated[bool, flag("--dry-run", "Print what would be done, and how large; do nothing.")]
