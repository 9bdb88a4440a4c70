"""What a preparation will need: files from where, room, and about how much time."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from recordzoo.aliases import JSON
from recordzoo.errors import DownloadError, TermsError
from recordzoo.preparing.located import Located
from recordzoo.preparing.raw import there_bytes
from recordzoo.publish.space import existing, volume
from recordzoo.recipes.base import Recipe
from recordzoo.sources.download import RemoteFile, addresses
from recordzoo.sources.member import Source

_PROBE_BYTES = 32 << 20
_CHUNK = bytes(1 << 20)


def sources(located: Located, source: Source | None) -> Iterator[dict[str, JSON]]:
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


def missing_bytes(recipe: Recipe, root: Path) -> int | None:
    """Return how many bytes are still to be downloaded, less what an interrupted download has; None if not known."""
    total = 0
    for remote in recipe.raw_files:
        if not remote.path(root).exists():
            if remote.expected_bytes is None:
                return None
            total += max(0, remote.expected_bytes - there_bytes(remote.path(root)))
    return total


def write_speed(folder: Path) -> float | None:
    """Measure, once for each volume, how fast it takes 32 MiB, in bytes per second.

    The file has no name, and is gone afterwards.

    Returns:
        None if the folder may not be written to, or its volume is full.
    """
    folder = existing(folder)
    number = volume(folder)
    if number not in _speeds:
        _speeds[number] = _write_speed(folder)
    return _speeds[number]


_speeds: dict[int, float | None] = {}


def _write_speed(folder: Path) -> float | None:
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
