"""What a preparation would do and need, said without doing it: files from where, room, and about how much time."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recordzoo.aliases import JSON
from recordzoo.errors import DownloadError, SourceError, TermsError
from recordzoo.net.download import RemoteFile, addresses
from recordzoo.preparing.division import records_bytes
from recordzoo.preparing.located import Located
from recordzoo.preparing.raw import files_bytes, there_bytes
from recordzoo.publish.found import dead_builds
from recordzoo.publish.space import existing, free_bytes, volume
from recordzoo.raw.member import Source
from recordzoo.records.manifest import ORIGINAL

CONVERT_SPEED = 130e6
"""Bytes of raw data that one core converts per second: `benchmarks/prepare_imagenet.py`, 1.1 GB in 8.3 s of CPU."""

MOST_NAMED = 20
"""How many changed files a plan names; of more it has the number."""

_PROBE_BYTES = 32 << 20
_CHUNK = bytes(1 << 20)


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
        result["sources"] = list(_sources(located, source))
        _estimate(result, located, raw_bytes, is_there=source is not None, measure=measure)
    return result


# Any: JSON values.
def _estimate(
    result: dict[str, Any], located: Located, raw_bytes: int | None, *, is_there: bool, measure: bool
) -> None:
    """Add how much room the preparation needs, and about how long it converts."""
    missing = 0 if is_there else _missing_bytes(located)
    if raw_bytes is None or missing is None:
        result["needed_bytes"] = None
        return
    records = result["peak_bytes"] - raw_bytes
    result["needed_bytes"] = records + (missing if volume(located.root) == volume(located.target) else 0)
    if measure and located.recipe.variant == ORIGINAL and (speed := _disk_speed(located.target.parent)):
        result["disk_bytes_per_second"] = round(speed)
        result["convert_seconds"] = round(max((raw_bytes + records) / speed, raw_bytes / CONVERT_SPEED), 1)


def _sources(located: Located, source: Source | None) -> Iterator[dict[str, JSON]]:
    """Yield what is read: for each file its name, size and path, and where it comes from.

    Args:
        located: What is prepared, and how missing files are fetched.
        source: The raw data that is there; None if some is missing.
    """
    archives = getattr(source, "archives", ())
    if source is not None and not archives:
        size = source.size_bytes
        yield _source(os.path.basename(source.description), size, source.description, "there")
        return
    for remote in located.recipe.raw_files:
        path = remote.path(located.root)
        if path.exists():
            yield _source(remote.name, path.stat().st_size, str(path), "there", optional=remote.optional)
        elif source is None:
            state, url = _address(remote, located)
            yield _source(remote.name, remote.expected_bytes, str(path), state, url, optional=remote.optional)


def _source(
    name: str, size: int | None, path: str, state: str, url: str | None = None, *, optional: bool = False
) -> dict[str, JSON]:
    return {"name": name, "bytes": size, "path": path, "state": state, "url": url, "optional": optional}


def _address(remote: RemoteFile, located: Located) -> tuple[str, str | None]:
    dataset, options = located.recipe.dataset, located.options
    try:
        found = addresses(
            remote, located.root, dataset=dataset, mirror=options.mirror, accept_terms=options.accept_terms
        )
    except TermsError:
        return "terms", None
    except DownloadError:
        return "by hand", None
    return "download", str(found[0])


def _missing_bytes(located: Located) -> int | None:
    """Return how many bytes are still to be downloaded, less what an interrupted download has; None if not known."""
    total = 0
    for remote in located.recipe.raw_files:
        path = remote.path(located.root)
        if not path.exists():
            if remote.expected_bytes is None:
                return None
            total += max(0, remote.expected_bytes - there_bytes(path))
    return total


def _disk_speed(folder: Path) -> float | None:
    """Measure, once for each volume, how fast it takes 32 MiB, in bytes per second.

    The file has no name, and is gone afterwards.

    Returns:
        None if the folder may not be written to, or its volume is full.
    """
    folder = existing(folder)
    number = volume(folder)
    if number not in _speeds:
        _speeds[number] = _measure(folder)
    return _speeds[number]


_speeds: dict[int, float | None] = {}


def _measure(folder: Path) -> float | None:
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < 4 * _PROBE_BYTES:
            return None
        with tempfile.TemporaryFile(prefix=".recordzoo-probe-", dir=folder) as file:
            began = time.perf_counter()
            for _ in range(_PROBE_BYTES // len(_CHUNK)):
                file.write(_CHUNK)
            file.flush()
            os.fsync(file.fileno())
            return _PROBE_BYTES / max(time.perf_counter() - began, 1e-6)
    return None
