"""Errors for a name or a path that does not exist, with similar ones that do."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from recordzoo import catalogue
from recordzoo.base import roots
from recordzoo.base.program import command
from recordzoo.base.text import name_first
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.recipes.list_table import LIST_ENDINGS

_ENDING = ".records"
_NUM_NAMED = 5


def unknown_name(name: str) -> ArgumentError:
    """Make the error for a word that is no dataset and no path, with datasets and paths that have similar names."""
    err = catalogue.unknown(name)
    meant = err.details.get("meant")
    near = near_paths(name)
    if meant is None and near:
        meant = near[0]
    hint = f"Did you mean {meant}? " if meant else ""
    return ArgumentError(
        f"There is no dataset and no path {name!r}. {hint}{command('list')} shows the datasets; a path is a directory "
        f"with one folder for each class, a list of files ({', '.join(LIST_ENDINGS)}), another tool's files, or a "
        f"record set. Prepare your copy of a dataset that is not in the list: {command('prepare', './FOLDER')}",
        name=name,
        meant=meant,
    )


def nothing_there(text: str) -> NotPreparedError:
    """Make the error for a path that does not exist, with similar paths beside it."""
    near = near_paths(text)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return NotPreparedError(
        f"{text} does not exist.{hint} Give a directory with one folder for each class, a list of files "
        f"({', '.join(LIST_ENDINGS)}), a record set, or the name of a dataset; {command('list')} shows them.",
        path=text,
        meant=near[0] if near else None,
    )


def no_set(text: str, places: Sequence[Path], *, is_dataset: bool) -> NotPreparedError:
    """Make the error for data without a record set, with the sets in that directory or, of a dataset, elsewhere.

    Args:
        text: The argument: a dataset, a tree or a list.
        places: Where its record sets would be.
        is_dataset: Whether it names a dataset.
    """
    from recordzoo.records.reader import is_record_set

    absent = f"{' and '.join(map(str, places))} {'does' if len(places) == 1 else 'do'} not exist"
    if is_dataset:
        there = "It is prepared elsewhere"
        candidates = [root / place.name for root in roots.known() for place in places]
    else:
        there = f"{text} holds record sets; give the path of one"
        candidates = sorted(Path(text).glob(f"*{_ENDING}"))
    found = [str(path) for path in candidates if is_record_set(path)]
    hint = f"{there}: {name_first(found, _NUM_NAMED)}." if found else f"Run: {command('prepare', text)}"
    return NotPreparedError(f"There is no record set for {text}: {absent}. {hint}", path=str(places[0]))


def near_paths(text: str) -> list[str]:
    """Find directories, lists and record sets beside a path that have a similar name, the most similar first."""
    path = Path(text)
    found: dict[str, str] = {}
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return []
    for name in names:
        is_list = name.lower().endswith(LIST_ENDINGS)
        if name.startswith(".") or not (is_list or (path.parent / name).is_dir()):
            continue
        # Every command takes photos and photos.records alike: name only one of them.
        found.setdefault(_stem(name), name)
    close = difflib.get_close_matches(_stem(path.name), list(found), 3, 0.7)
    folder = "." if path.parent == Path() else str(path.parent)
    return [os.path.join(folder, found[stem]) for stem in close]


def _stem(name: str) -> str:
    return name.lower().removesuffix(_ENDING)
