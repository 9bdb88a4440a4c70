"""What a preparation would do, said without doing it."""

import contextlib
from typing import Any

from recordzoo.aliases import JSON
from recordzoo.errors import SourceError
from recordzoo.preparing.estimates import files_bytes, records_bytes
from recordzoo.preparing.located import Located
from recordzoo.preparing.outlook import missing_bytes, sources, write_speed
from recordzoo.publish.found import dead_builds
from recordzoo.publish.space import free_bytes, volume
from recordzoo.records.manifest import ORIGINAL

CONVERT_SPEED = 130e6
"""Bytes of raw data that one core converts per second: `benchmarks/prepare_imagenet.py`, 1.1 GB in 8.3 s of CPU."""

MOST_NAMED = 20
"""How many changed files a plan names; of more it has the number."""


def describe(located: Located, *, download: bool = True, measure: bool = False) -> dict[str, JSON]:
    """Say what `ensure` would do: a JSON object. Writes nothing and fetches nothing.

    Sizes are in bytes: exact, about, or None where one is not known. "convert_seconds" is a rough estimate, if
    `measure` asks for one: raw data is read and records are written as fast as the disk takes 32 MiB now, in a file
    without a name, but no faster than one core converts; None for variants, which decode and encode.
    Of a record set that is there, "changes" names raw files that have changed since, and "num_changes" counts them.
    """
    recipe, root = located.recipe, located.root
    result: dict[str, Any] = {
        "dataset": recipe.dataset,
        "part": recipe.part,
        "target": str(located.target),
        "state": "ready",
        "source": None,
        "raw_bytes": 0,
        "download_bytes": 0,
        "peak_bytes": 0,
        "sources": [],
        "needed_bytes": 0,
        "free_bytes": free_bytes(located.target.parent),
        "convert_seconds": None,
        "disk_bytes_per_second": None,
        "changes": [],
        "num_changes": 0,
    }
    if located.is_published and not located.refresh:
        changes = located.changes()
        return {**result, "changes": list(changes.found[:MOST_NAMED]), "num_changes": len(changes.found)}
    source = None
    with contextlib.suppress(*([SourceError] if recipe.raw_files else [])):  # something is missing: to be downloaded
        source = located.source()
    if source is not None:
        resumable = bool(dead_builds(located.target))
        result |= {"state": "resume" if resumable else "convert", "source": source.description}
        result["raw_bytes"] = source.size_bytes
    elif download and recipe.raw_files:
        missing = [remote for remote in recipe.raw_files if not remote.path(root).exists()]
        result |= {"state": "download", "source": ", ".join(remote.name for remote in recipe.raw_files)}
        result["download_bytes"] = files_bytes(missing)
        result["raw_bytes"] = files_bytes(recipe.raw_files)
    else:
        result["state"] = "missing"
    raw_bytes: int | None = result["raw_bytes"]
    if raw_bytes is None:
        result["peak_bytes"] = None
    else:
        result["peak_bytes"] = raw_bytes + records_bytes(recipe, raw_bytes if source is None else source)
    if result["state"] != "missing":
        result["sources"] = list(sources(located, source))
        _estimate(result, located, raw_bytes, is_there=source is not None, measure=measure)
    return result


# Any: JSON values.
def _estimate(
    result: dict[str, Any], located: Located, raw_bytes: int | None, *, is_there: bool, measure: bool
) -> None:
    """Add how much room the preparation needs, and about how long it converts."""
    missing = 0 if is_there else missing_bytes(located.recipe, located.root)
    if raw_bytes is None or missing is None:
        result["needed_bytes"] = None
        return
    records = result["peak_bytes"] - raw_bytes
    result["needed_bytes"] = records + (missing if volume(located.root) == volume(located.target) else 0)
    if measure and located.recipe.variant == ORIGINAL and (speed := write_speed(located.target.parent)):
        result["disk_bytes_per_second"] = round(speed)
        result["convert_seconds"] = round(max((raw_bytes + records) / speed, raw_bytes / CONVERT_SPEED), 1)
