"""Whether a record set holds what a list says."""

import os
from pathlib import Path

from recordzoo.base.progress import format_bytes
from recordzoo.base.types import JSON
from recordzoo.errors import OtherSourceError
from recordzoo.preparing.changes import find_changes
from recordzoo.recipes.list_columns import Columns
from recordzoo.recipes.listing import ListRecipe, list_path
from recordzoo.records.kinds import SetKind
from recordzoo.records.reader import RecordReader


def check_list(place: Path, recipe: ListRecipe, path: Path, *, was_ready: bool, full: bool = False) -> None:
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


def _difference(reader: RecordReader, recipe: ListRecipe, path: Path) -> str | None:
    metadata = reader.manifest.metadata
    if reader.manifest.kind is not SetKind.LIST:
        return f"is a record set of {reader.manifest.dataset}, not of the list {path}"
    if metadata.get("list") != recipe.digest(path):
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
    if name == "columns":
        return f"with {' '.join(Columns.from_json(value or {}).words()) or 'the usual columns'}"
    options = {"shuffle_seed": "--shuffle", "num_shards": "--shards", "shard_bytes": "--shard-size"}
    if value is None:
        return f"without {name} ({options[name]})"
    shown = f" ({format_bytes(value)})" if name == "shard_bytes" and isinstance(value, int) else ""
    return f"with {name} ({options[name]}) {value}{shown}"
