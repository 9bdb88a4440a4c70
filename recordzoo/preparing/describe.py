"""What a preparation would do, said without doing it."""

import contextlib
from pathlib import Path
from typing import Any, Unpack

from recordzoo.aliases import JSON
from recordzoo.errors import SourceError
from recordzoo.preparing.changes import Changes
from recordzoo.preparing.job import Job
from recordzoo.preparing.options import PrepareOptions
from recordzoo.preparing.space import files_bytes, records_bytes
from recordzoo.preparing.stale_builds import find_builds
from recordzoo.recipes.base import Recipe

MOST_NAMED = 20
"""How many changed files a plan names; of more it has the number."""


def changes_since(recipe: Recipe, root: Path, **options: Unpack[PrepareOptions]) -> Changes:
    """Compare all raw files with those that a published record set was made from."""
    return Job(recipe, root, False, options).changes()


def describe(
    recipe: Recipe, root: Path, *, download: bool = True, **options: Unpack[PrepareOptions]
) -> dict[str, JSON]:
    """Say what `ensure` would do: a JSON object. Writes nothing and fetches nothing.

    Sizes are in bytes: exact, about, or None where one is not known.
    Of a record set that is there, "changes" names raw files that have changed since, and "num_changes" counts them.
    """
    job = Job(recipe, root, download, options)
    recipe = job.recipe
    result: dict[str, Any] = {
        "dataset": recipe.dataset,
        "part": recipe.part,
        "target": str(job.target),
        "state": "ready",
        "source": None,
        "raw_bytes": 0,
        "download_bytes": 0,
        "peak_bytes": 0,
        "changes": [],
        "num_changes": 0,
    }
    if job.is_published and not job.refresh:
        changes = job.changes()
        return {**result, "changes": list(changes.found[:MOST_NAMED]), "num_changes": len(changes.found)}
    source = None
    with contextlib.suppress(*([SourceError] if recipe.raw_files else [])):  # something is missing: to be downloaded
        source = recipe.find(root)
    if source is not None:
        resumable = any(found.is_dead for found in find_builds(job.target))
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
    return result
