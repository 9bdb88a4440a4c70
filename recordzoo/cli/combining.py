"""`merge`, `append`, `add-field`, `split` and `subset`: record sets become a new one."""

import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.addresses import shown
from recordzoo.cli import output, targets
from recordzoo.cli.progress import make_progress
from recordzoo.combining.add_field import add_field
from recordzoo.combining.append import append
from recordzoo.combining.merge import merge
from recordzoo.combining.split import split, split_place
from recordzoo.combining.subset import subset
from recordzoo.copying.places import digest_at
from recordzoo.errors import ArgumentError
from recordzoo.progress import format_seconds
from recordzoo.records.reader import RecordReader
from recordzoo.system.npy import map_file
from recordzoo.text import clean

_NUMBERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_MOST_INDICES = 1 << 32


def read_indices(text: str) -> NDArray[np.int64]:
    """Read places: "0,5,10-19"; or a file of them, one a line or an array of NumPy.

    Raises:
        ArgumentError: It is neither, or a range is too long.
    """
    if _NUMBERS.fullmatch(text):
        ends = [tuple(map(int, each.split("-"))) for each in text.split(",")]
        if sum(max(0, each[-1] - each[0] + 1) for each in ends) > _MOST_INDICES or max(map(max, ends)) >> 62:
            raise ArgumentError(f"--indices {text[:40]}: that are more than {_MOST_INDICES:,}.")
        return np.concatenate([np.arange(each[0], each[-1] + 1, dtype=np.int64) for each in ends])
    path = Path(text)
    if not path.is_file():
        raise ArgumentError(f"--indices {shown(text)}: it must be numbers, such as 0,5,10-19, or a file of numbers.")
    try:
        found = map_file(path) if path.suffix == ".npy" else np.array(path.read_text().split(), int)
        return np.asarray(found).astype(np.int64, casting="safe")
    except (ValueError, TypeError, EOFError, UnicodeDecodeError) as err:
        raise ArgumentError(f"--indices {text}: the file holds something else than whole numbers: {err}") from err


def read_splits(words: Sequence[str], sets: Mapping[str, str]) -> dict[str, str]:
    """Read `SET=SPLIT` words.

    Args:
        words: Them.
        sets: The paths of the sets, by what they were called.

    Raises:
        ArgumentError: One is none.
    """
    found = {}
    for word in words:
        name, _, split = word.rpartition("=")
        if name not in sets or not split:
            raise ArgumentError(f"--split-of {shown(word)}: it must be SET=SPLIT, with one of the sets as it is given.")
        found[sets[name]] = split
    return found


# Any: the options are checked by the library.
def merge_sets(
    names: Sequence[str], place: Path, splits: Sequence[str], options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Merge record sets, and say what came of it."""
    sets = {name: str(targets.find_record_set(name)) for name in names}
    split_of = read_splits(splits, sets)
    paths = [sets[name] for name in names]
    make = functools.partial(merge, paths, place, splits=split_of, progress=make_progress(), **options)
    _make(make, place, " + ".join(map(shown, names)), refresh=bool(options["refresh"]), as_json=as_json)


# Any: as above.
def append_records(name: str, more: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Add records to a set, and say what came of it."""
    path = targets.find_record_set(name)
    make = functools.partial(append, str(path), more, progress=make_progress(), **options)
    title, refresh = f"{shown(name)} + {shown(more)}", bool(options["refresh"])
    place = options["output"] or (path if isinstance(path, Path) else None)
    _make(make, place, title, refresh=refresh, as_json=as_json)


# Any: as above.
def add_values(name: str, values: Path, field: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Add a field to a set, and say what came of it."""
    path = targets.find_record_set(name)
    make = functools.partial(add_field, str(path), values, field, progress=make_progress(), **options)
    place = options["output"] or (path if isinstance(path, Path) else None)
    _make(make, place, f"{shown(name)} with {field}", refresh=bool(options["refresh"]), as_json=as_json)


# Any: as above.
def divide(name: str, val: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Make a set with the splits train and val, and say what came of it."""
    path = str(targets.find_record_set(name))
    make = functools.partial(split, path, val, progress=make_progress(), **options)
    place = options["output"] or split_place(path)
    _make(make, place, shown(name), refresh=bool(options["refresh"]), as_json=as_json)


# Any: as above.
def make_subset(name: str, place: Path, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Store some records of a set, and say what came of it."""
    path = str(targets.find_record_set(name))
    make = functools.partial(subset, path, output=place, progress=make_progress(), **options)
    _make(make, place, shown(name), refresh=bool(options["refresh"]), as_json=as_json)


def _make(make: Callable[[], Path], place: Path | None, title: str, *, refresh: bool, as_json: bool) -> None:
    before = None
    if place is not None:
        targets.refuse_urls("--output", place)
        before = digest_at(place)
    began = time.monotonic()
    made = make()
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made)
    was_ready = reader.digest == before and not refresh
    how = "" if was_ready else f", made in {format_seconds(max(1, elapsed_s))}"
    output.say(f"{clean(title)}: ready, {len(reader):,} records in {clean(str(made))}{how}")
    if as_json:
        output.put_json(
            {
                "path": str(made),
                "digest": reader.digest,
                "records": len(reader),
                "was_ready": was_ready,
                "elapsed_s": round(elapsed_s, 3),
            }
        )
