"""`prepare_list`: the files that a list names → a record set, in the order of the list."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from recordzoo.aliases import JSON
from recordzoo.custom.options import OwnOptions, check_options
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.preparing import ensure, is_record_set
from recordzoo.preparing.changes import find_changes
from recordzoo.progress import format_bytes
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.list_file import read_list
from recordzoo.recipes.listing import ListRecipe, list_path
from recordzoo.recipes.variants import variant_recipe
from recordzoo.records.reader import RecordReader


def prepare_list(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    shuffle_seed: int | None = None,
    variant: str | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Store the files that a list names as a record set, in its order; `ImageFolderRecord` opens it.

    A ``.txt`` list has a path and a label on each line, with spaces or a tab between them; a ``.csv`` or ``.tsv`` has a
    header that names the columns "path" and "label", and any further ones. Relative paths are relative to the list.
    Labels that are not all whole numbers are class names, and get their numbers in sorted order.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time. If the
    record set is there and holds what the list says, nothing is done.

    Args:
        path: The list.
        output: The record set's directory; by default ``<list>.records`` beside the list.
        shuffle_seed: Write the records in a random order that follows from this number, so that shards read front to
            back give a mixture. ``dataset[i]`` stays line i of the list.
        variant: Store the images smaller or otherwise encoded, as ``docs/variants.md`` says: "256", "max512-webp". The
            record set is then ``<list>-<variant>.records``.
        **options: See `OwnOptions`.

    Returns:
        The record set's directory.

    Raises:
        SourceError: The list is no list; the message names its lines.
        NotPreparedError: There is no list, or files that it names are not there; all are found before the work begins.
        OtherSourceError: `output` holds something else, or the list or a file changed since; `refresh` replaces it.
        PrepareError: The disk is full, or a process was killed; what is finished is kept.
        ArgumentError: An option has a value that it cannot have.

    Examples:
        >>> recordzoo.prepare_list("train.csv", "train.records", num_shards=4)
        PosixPath('/data/train.records')
    """
    check_options(options, "prepare_list()")
    if shuffle_seed is not None and not isinstance(shuffle_seed, int):
        raise ArgumentError(f"Argument shuffle_seed is {shuffle_seed!r}; it must be a whole number.")
    listed = Path(path).expanduser().absolute()
    recipe = ListRecipe(shuffle_seed, layout_of(options))
    wanted = variant_recipe(recipe, listed, variant)
    place = wanted.target(listed) if output is None else Path(output).expanduser().absolute()
    was_ready = is_record_set(place) and options.get("refresh") is not True
    ensure(wanted, listed, prepare=True, records_dir=place, **options)
    check_list(place, recipe, listed, was_ready=was_ready)
    return place


# Any: options of all kinds.
def layout_of(options: Mapping[str, Any]) -> dict[str, int]:
    """Return those options that show in how a record set is cut."""
    return {name: options[name] for name in ("num_shards", "shard_bytes") if options.get(name) is not None}


def check_list(place: Path, recipe: Recipe, path: Path, *, was_ready: bool, full: bool = False) -> None:
    """Refuse records that are not those of a list as it is now.

    Args:
        place: The record set.
        recipe: How it should have been made. What was not asked for (None) may be anything.
        path: The list.
        was_ready: It was not made just now: also compare the files, as far as they are still there.
        full: All of them, not a bounded number.

    Raises:
        OtherSourceError: They are not.
    """
    reader = RecordReader(place)
    problem = _difference(reader, recipe, path)
    if problem is None and was_ready and (changes := find_changes(reader, path.absolute(), full=full)):
        problem = f"is out of date: in {changes.root}, {changes.summary}"
    if problem is not None:
        raise OtherSourceError(
            f"{place} {problem}. Pass --refresh (refresh=True) to rebuild it, or another --output.", path=str(place)
        )


def _difference(reader: RecordReader, recipe: Recipe, path: Path) -> str | None:
    metadata = reader.manifest.metadata
    if reader.manifest.dataset != recipe.dataset:
        return f"is a record set of {reader.manifest.dataset}, not of the list {path}"
    if metadata.get("list") != read_list(path).digest:
        made_from = list_path(reader)
        if made_from == os.fspath(path.absolute()):
            return f"was made from {path}, which has changed since"
        return f"was made from {made_from or 'another list'}, which is not what {path} says"
    written = metadata.get("written")
    for name, wanted in recipe.options.items():
        found = written.get(name) if isinstance(written, dict) else None
        if wanted is not None and wanted != found:
            return f"was written {_written(name, found)}, not {_written(name, wanted)}"
    return None


def _written(name: str, value: JSON) -> str:
    """Say how a list was written, with the options of Python and of the command line."""
    options = {"shuffle_seed": "--shuffle", "num_shards": "--shards", "shard_bytes": "--shard-size"}
    if value is None:
        return f"without {name} ({options[name]})"
    shown = f" ({format_bytes(value)})" if name == "shard_bytes" and isinstance(value, int) else ""
    return f"with {name} ({options[name]}) {value}{shown}"
