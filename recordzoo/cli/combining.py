"""Commands that make a new record set from others: `merge`, `split` and `subset`."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import recordzoo
from recordzoo.base.addresses import shown
from recordzoo.base.progress import format_seconds
from recordzoo.base.text import clean
from recordzoo.cli import targets
from recordzoo.cli.options import (
    Converters,
    Json,
    RecordSet,
    data_argument,
    directory_option,
    option,
    path_option,
)
from recordzoo.cli.output import make_progress, put_json, say
from recordzoo.combining.split import split_place
from recordzoo.errors import ArgumentError
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.system.npy import map_file

_NUMBERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_MOST_INDICES = 1 << 32


Output = Annotated[Path, directory_option("The new record set's directory.", "--output")]


def merge(
    sets: Annotated[
        list[str],
        data_argument(
            "SET...", "Record sets, in this order: directories, URLs, or trees and lists that sets were made from."
        ),
    ],
    output: Output,
    classes: Annotated[
        str,
        option(
            "equal|union",
            "union: unite classes by name, and number labels anew. Default: the classes must be equal.",
            show_default=False,
        ),
    ] = "equal",
    split_of: Annotated[
        list[str] | None,
        path_option("SET=SPLIT", "All records of a set are this split of the new one; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Store the records of several sets, one after another, as one record set.

    The sets must have the same fields, stored alike. Splits of one name are put together. The new set shares the
    shards of the sets by hard links; from URLs and other file systems they are copied. To grow a set, merge it with
    the new records: recordzoo merge photos.records new.records --output bigger.records
    """
    paths = {name: str(targets.find_record_set(name)) for name in sets}
    splits = _read_splits(split_of or [], paths)
    how: Any = classes  # Any: checked by `merge`
    make = partial(recordzoo.merge, [paths[name] for name in sets], output, classes=how, splits=splits)
    _make(make, output, " + ".join(map(shown, sets)), as_json=as_json)


def split(
    path: RecordSet,
    val: Annotated[str, option("SHARE", "The share of val: 10%, or 0.1.")],
    by: Annotated[str | None, option("FIELD", "Records with the same value of this field stay together.")] = None,
    seed: Annotated[int, option("N", "Another number gives another division.")] = 0,
    output: Annotated[
        Path | None,
        directory_option("The new record set's directory. Default: SET-split.records beside the set.", "--output"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Divide a record set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val. A split train is divided and other splits stay; without one, all records that
    are in no split are divided. The same set, share and seed give the same division.
    """
    found = str(targets.find_record_set(path))
    make = partial(recordzoo.split, found, val, by=by, seed=seed, output=output)
    _make(make, output or split_place(found), shown(path), as_json=as_json)


def subset(
    path: RecordSet,
    output: Output,
    classes: Annotated[
        str | None, option("NAME,...", "Only these classes, by name or number; they are numbered anew, in this order.")
    ] = None,
    indices: Annotated[
        str | None,
        path_option(
            "LIST|FILE", "Only the records at these places, from 0: 0,5,10-19, or a file with a number a line, or .npy."
        ),
    ] = None,
    split: Annotated[str | None, option("NAME", "Only records of this split.")] = None,
    workers: Converters = None,
    as_json: Json = False,
) -> None:
    """Store some records of a set as a new record set.

    With several options, a record must fit all of them. Values are copied as they are and their checksums compared.
    Run the same command again to go on after any failure or interruption. In Python, recordzoo.subset() also shows
    some samples of a set without copying them.
    """
    found = str(targets.find_record_set(path))
    names = None if classes is None else classes.split(",")
    places = None if indices is None else _read_indices(indices)
    make = partial(recordzoo.subset, found, classes=names, indices=places, split=split, output=output, workers=workers)
    _make(make, output, shown(path), as_json=as_json)


def _make(make: Callable[..., Path], place: Path, title: str, *, as_json: bool) -> None:
    """Make a record set and print the result."""
    targets.refuse_urls("--output", place)
    was_ready, began = is_record_set(place), time.monotonic()  # another set is never replaced
    made = make(progress=make_progress())
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made)
    how = "unchanged" if was_ready else f"made in {format_seconds(max(1, elapsed_s))}"
    say(f"{clean(title)}: ready, {len(reader):,} records in {clean(str(made))}, {how}")
    if as_json:
        put_json(
            {
                "path": str(made),
                "digest": reader.digest,
                "records": len(reader),
                "was_ready": was_ready,
                "elapsed_s": round(elapsed_s, 3),
            }
        )


def _read_indices(text: str) -> NDArray[np.int64]:
    """Read places: "0,5,10-19", or a file with one number per line or an array of NumPy."""
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


def _read_splits(words: Sequence[str], sets: Mapping[str, str]) -> dict[str, str]:
    """Read `SET=SPLIT` words, given the paths of the sets by their names on the command line."""
    found = {}
    for word in words:
        name, _, split = word.rpartition("=")
        if name not in sets or not split:
            raise ArgumentError(f"--split-of {shown(word)}: it must be SET=SPLIT, with one of the sets as it is given.")
        found[sets[name]] = split
    return found
