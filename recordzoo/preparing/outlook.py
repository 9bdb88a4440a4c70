"""Predict a preparation: downloads, disk space and approximate time."""

import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from recordzoo.base.types import JSON
from recordzoo.catalogue.facts import CONVERT_SPEED
from recordzoo.errors import DownloadError, SourceError, TermsError
from recordzoo.net.download import RemoteFile
from recordzoo.preparing.located import Located
from recordzoo.preparing.raw import addresses_of, check_addresses, files_bytes, missing_bytes
from recordzoo.publish.output import build_path
from recordzoo.publish.space import existing, free_bytes, volume
from recordzoo.raw.member import Source
from recordzoo.records.manifest import ORIGINAL

MOST_NAMED = 20
"""Changed files listed by name in an outlook's JSON; all are counted."""

_PROBE_BYTES = 32 << 20
_CHUNK = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a preparation would do. Sizes are in bytes, exact or approximate; None: unknown.

    Attributes:
        located: The record set.
        state: The planned action; "missing": there is no raw data, and no address to download it from.
        free_bytes: Free space on the record set's volume.
        source: Description of the raw data.
        raw_bytes: The size of the raw data.
        download_bytes: The size of the raw files that are downloaded.
        peak_bytes: The size of raw data and records together.
        sources: JSON objects of the raw files: name, bytes, path, state ("there", "download", "by hand", "terms"), url,
            optional.
        needed_bytes: Bytes still to be written on the record set's volume.
        convert_seconds: A rough estimate, if requested, from the disk's speed for 32 MiB, limited by the speed of one
            core. None for variants.
        disk_bytes_per_second: The measured speed of the disk.
        changes: Raw files that changed since the existing record set was made.
        obstacle: Why a required raw file cannot be downloaded; None if the set can be prepared.
    """

    located: Located
    state: Literal["ready", "missing", "resume", "convert", "download"]
    free_bytes: int
    source: str | None = None
    raw_bytes: int | None = 0
    download_bytes: int | None = 0
    peak_bytes: int | None = 0
    sources: Sequence[Mapping[str, JSON]] = ()
    needed_bytes: int | None = 0
    convert_seconds: float | None = None
    disk_bytes_per_second: int | None = None
    changes: Sequence[str] = ()
    obstacle: TermsError | DownloadError | None = None

    @property
    def records_bytes(self) -> int | None:
        """The size of the records."""
        return None if self.peak_bytes is None or self.raw_bytes is None else self.peak_bytes - self.raw_bytes

    def to_json(self) -> dict[str, JSON]:
        """Return a JSON object."""
        return {
            "dataset": self.located.recipe.dataset,
            "part": self.located.recipe.part,
            "target": str(self.located.target),
            "state": self.state,
            "source": self.source,
            "raw_bytes": self.raw_bytes,
            "download_bytes": self.download_bytes,
            "peak_bytes": self.peak_bytes,
            "sources": list(self.sources),
            "needed_bytes": self.needed_bytes,
            "free_bytes": self.free_bytes,
            "convert_seconds": self.convert_seconds,
            "disk_bytes_per_second": self.disk_bytes_per_second,
            "changes": list(self.changes[:MOST_NAMED]),
            "num_changes": len(self.changes),
        }


def describe(located: Located, *, measure: bool = False) -> Outlook:
    """Predict what `ensure` would do. Writes and downloads nothing.

    Args:
        measure: Also estimate the time, by writing an unnamed temporary file.
    """
    recipe, free = located.recipe, free_bytes(located.target.parent)
    if located.is_published and not located.refresh:
        return Outlook(located, "ready", free, changes=located.changes().found)
    source = None
    with contextlib.suppress(*([SourceError] if recipe.raw_files else [])):  # a missing file will be downloaded
        source = located.source()
    if source is None and not recipe.raw_files:
        return Outlook(located, "missing", free)
    outlook = _of_downloads(located, free) if source is None else _of_source(located, source, free)
    return _timed(outlook) if measure and recipe.variant == ORIGINAL else outlook


def _of_source(located: Located, source: Source, free: int) -> Outlook:
    """Describe the preparation of existing raw data."""
    records = located.recipe.records_bytes(source)
    return Outlook(
        located,
        "resume" if build_path(located.target).exists() else "convert",
        free,
        source.description,
        source.size_bytes,
        peak_bytes=source.size_bytes + records,
        sources=list(_sources(located, source)),
        needed_bytes=records,
    )


def _of_downloads(located: Located, free: int) -> Outlook:
    """Describe the preparation if raw files are missing."""
    files, root = located.recipe.raw_files, located.root
    missing = [remote for remote in files if not remote.path(root).exists()]
    raw, peak, needed = files_bytes(files), None, None
    if raw is not None:
        peak = raw + (needed := located.recipe.records_bytes(raw))
        if volume(root) == volume(located.target):
            needed += missing_bytes(located)
    return Outlook(
        located,
        "download",
        free,
        ", ".join(remote.name for remote in files),
        raw,
        files_bytes(missing),
        peak,
        list(_sources(located, None)),
        needed,
        obstacle=_obstacle(located),
    )


def _timed(outlook: Outlook) -> Outlook:
    """Add the conversion time, if the disk can be measured and the sizes are known."""
    raw, peak = outlook.raw_bytes, outlook.peak_bytes
    if raw is None or peak is None or not (speed := _disk_speed(outlook.located.target.parent)):
        return outlook
    seconds = round(max(peak / speed, raw / CONVERT_SPEED), 1)
    return dataclasses.replace(outlook, convert_seconds=seconds, disk_bytes_per_second=round(speed))


def _obstacle(located: Located) -> TermsError | DownloadError | None:
    try:
        check_addresses(located)
    except (TermsError, DownloadError) as err:
        return err
    return None


def _sources(located: Located, source: Source | None) -> Iterator[dict[str, JSON]]:
    """Yield each raw file with name, size, path and origin.

    Args:
        located: The record set, with the options for downloads.
        source: The existing raw data; None if some is missing.
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
    try:
        found = addresses_of(remote, located)
    except TermsError:
        return "terms", None
    except DownloadError:
        return "by hand", None
    return "download", str(found[0])


def _disk_speed(folder: Path) -> float | None:
    """Measure the speed of writing 32 MiB, in bytes per second, once per volume.

    Returns:
        None if the folder is not writable or its volume is full.
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
