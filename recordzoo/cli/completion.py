"""Completion of datasets' names and of paths, in the shells that typer knows."""

import os
from collections.abc import Iterator

_OWN_FILES = ("complete_bash", "complete_zsh")
"""Shells that complete paths themselves where we offer nothing: quoted, and with no space after a directory."""


def complete_dataset(incomplete: str) -> list[str]:
    """Complete the names of datasets and their parts."""
    from recordzoo import catalogue

    entries = [catalogue.entry(name) for name in catalogue.names()]
    names = [*(e.name for e in entries), *(e.label(p.name) for e in entries for p in e.parts if p.name)]
    return [name for name in names if name.startswith(incomplete)]


def complete_data(incomplete: str) -> list[str]:
    """Complete the names of datasets, and the paths of directories and lists."""
    names = complete_dataset(incomplete)
    return [*names, *_paths(incomplete)] if names else complete_path(incomplete)


def complete_path(incomplete: str) -> list[str]:
    """Complete the paths of directories and files."""
    if os.environ.get("_RECORDZOO_COMPLETE") in _OWN_FILES:
        return []
    return list(_paths(incomplete))


def _paths(incomplete: str) -> Iterator[str]:
    """Yield what a path may go on with; a directory ends with a separator."""
    folder, start = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
            yield os.path.join(folder, entry.name, *([""] if entry.is_dir() else []))
