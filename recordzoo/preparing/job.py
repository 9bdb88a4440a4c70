"""Run one preparation."""

import contextlib
import dataclasses
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from recordzoo.base.process import default_workers
from recordzoo.base.progress import closed_on_error, format_bytes
from recordzoo.base.text import JSON, name_first
from recordzoo.catalogue.facts import CONVERT_SPEED
from recordzoo.errors import DownloadError, HashMismatchError, SourceError, TermsError
from recordzoo.net.download import RemoteFile
from recordzoo.preparing.assemble import Finished, assemble
from recordzoo.preparing.convert import Task
from recordzoo.preparing.located import Located, locate
from recordzoo.preparing.options import DEFAULTS, Options, PrepareOptions
from recordzoo.preparing.publish import Build, check_place, publish, tidy
from recordzoo.preparing.raw import Archives, RawData, addresses_of, check_addresses, files_bytes, missing_bytes, stages
from recordzoo.preparing.space import Output, build_path, existing, free_bytes, volume
from recordzoo.preparing.workers import run_tasks
from recordzoo.raw.member import Source, Unit
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import check_variant
from recordzoo.records.made_from import LAYOUT_FILE, MADE_FROM_FILE, encode_files
from recordzoo.records.manifest import MANIFEST_NAME, ORIGINAL, VERSION, RawFile, manifest_digest
from recordzoo.records.reader import RecordReader, is_record_set

logger = logging.getLogger("recordzoo")

WRITER = 6
"""Part of the plan. Raise it when the same raw data gives other bytes, or when the files of finished shards change: a
build of an older version is then begun again."""

_NUM_NAMED = 5

_SPILL = 1.03
"""Allowed excess of a unit's stored size over the average."""

_FEW_BYTES = 16 << 20
"""One process converts less raw data than this in about a second, the start-up time of workers."""


def ensure(
    recipe: Recipe,
    root: Path,
    options: Options = DEFAULTS,
    *,
    download: bool | None = False,
    **changes: Unpack[PrepareOptions],
) -> Path:
    """Return the published record set; prepare it if it does not exist.

    Any number of processes may call this at once: one prepares, the others wait. No output if the set exists. File
    modes follow the umask. In a directory with the set-group-ID bit the set belongs to that directory's group.

    Args:
        root: Directory of the raw data, or of its download.
        download: Download missing raw data. None: no, and errors do not suggest it, because the caller has no such
            argument.
        **changes: Options that replace those in `options`.

    Raises:
        NotPreparedError: There are no records, and no raw data that may be converted without being asked.
        SourceError: Raw data cannot be downloaded, or is not what it should be.
        PrepareError: Conversion failed; finished shards are kept.
        ArgumentError: An option has an invalid value.
        OtherSourceError: The existing record set holds another variant.
    """
    return ensure_located(locate(recipe, root, dataclasses.replace(options, **changes)), download=download)


def ensure_located(located: Located, *, download: bool | None = False) -> Path:
    """Do what `ensure` does for a located record set."""
    if located.is_published and not located.refresh:
        if located.recipe.variant != ORIGINAL:
            check_variant(RecordReader(located.target), located.recipe.variant)
        tidy(Output(located.target))
        if located.options.discard_raw:
            RawData(located, download).discard_raw()
        return located.target
    with closed_on_error(located.progress):
        return Job(RawData(located, download)).run()


@dataclass(frozen=True)
class Division:
    """Divides raw data by the options, or by its size."""

    recipe: Recipe
    options: Options

    def shard_bytes(self, source: Source) -> int:
        """Return the target shard size in bytes; unused if the number of shards is given.

        Default: raw size / 8, so that several processes have work, clipped to 64 MiB..1 GiB. For variants: raw size /
        32, clipped to 16 MiB..1 GiB, because a megabyte of a variant takes a second of work.
        """
        if self.options.shard_bytes:
            return self.options.shard_bytes
        parts, least = (8, 64 << 20) if self.recipe.variant == ORIGINAL else (32, 16 << 20)
        data_bytes = int(source.size_bytes * min(1, self.recipe.expansion))
        return max(least, min(1 << 30, data_bytes // parts))

    def plan(self, source: Source) -> dict[str, JSON]:
        """Return the shard layout for a build's plan."""
        return self.options.layout or {"shard_bytes": self.shard_bytes(source)}

    def units(self, source: Source) -> list[Unit]:
        """Cut the source into units: one per shard if `num_shards` is given, otherwise units that fill shards."""
        if self.options.num_shards:
            return source.cut(self.options.num_shards)
        # Slightly less raw data than fills a shard: an overflow would give a small extra shard.
        expansion = max(self.recipe.expansion, self.recipe.records_bytes(source) / max(1, source.size_bytes))
        return source.units(int(self.shard_bytes(source) / (_SPILL * expansion)))

    def num_workers(self, num_bytes: int) -> int:
        """Return the number of processes for this much raw data; one if the data is small.

        Size does not predict the work for samples of a user's own dataset; such a recipe has a set-up.
        """
        if self.options.workers:
            return self.options.workers
        return 1 if num_bytes < _FEW_BYTES and self.recipe.worker_setup() is None else default_workers()


class Job:
    """One preparation and its steps."""

    def __init__(self, raw: RawData) -> None:
        self.raw, self.located = raw, raw.located
        self.recipe, self.root, self.options, self.progress = raw.recipe, raw.root, raw.options, raw.progress
        self.target = self.located.target
        self._division = Division(self.recipe, self.options)
        self._digest = ""  # of the published set

    @property
    def is_published(self) -> bool:
        """Whether the record set is there."""
        return is_record_set(self.target)

    def run(self) -> Path:
        """Prepare the record set, or wait for the process that prepares it."""
        check_place(self.target, is_set=self.is_published)
        if not self.target.parent.is_dir():
            self.raw.check()
        output, ready = Output(self.target), lambda: self.is_published
        if publish(
            output, ready, self.progress, self._prepare, again=self.located.refresh, may_replace=self._may_replace
        ):
            self.progress.note(f"publish: {self.target}")
        elif self._digest and manifest_digest((self.target / MANIFEST_NAME).read_bytes()) != self._digest:
            logger.warning("%s was published by another process, from other raw data or options.", self.target)
        if self._digest:
            self.raw.discard_raw()
        return self.target

    def _may_replace(self, path: Path) -> bool:
        return self.located.refresh and is_record_set(path)

    def _prepare(self, build: Build) -> None:
        """Write the record set into a build."""
        source = self.raw.find()
        if self.options.num_shards:
            source.cut(self.options.num_shards)  # an invalid number is refused before anything is written
        build.claim(self._plan(source), self.recipe.records_bytes(source))
        finished, archives = Finished(build, self.progress), Archives(source, self.raw)
        self._announce(source, build, finished.written_bytes, is_checked=archives.are_checked)
        try:
            with archives:
                self._convert(finished, source, archives)
                raw_files = archives.checked()
            self._check_unchanged(source, build, finished, archives)
        except SourceError as err:
            if isinstance(err, HashMismatchError) or err.details.get("worthless"):
                build.remove()
            raise
        self._assemble(finished, source, raw_files)

    def _plan(self, source: Source) -> dict[str, JSON]:
        return {
            "writer": WRITER,
            "format": VERSION,
            "set": self.recipe.set_name,
            "source": source.fingerprint(),
            "options": dict(self.recipe.options),
            **self._division.plan(source),
            "on_error": self.options.on_error,
            "check_images": self.options.check_images,
        }

    def _announce(self, source: Source, build: Build, resumed: int, *, is_checked: bool) -> None:
        size = format_bytes(source.size_bytes)
        there = source.size_bytes + self.recipe.records_bytes(source)
        if build.discarded:
            self.progress.note(
                f"{build.path} was an interrupted preparation with other options or raw data, or of another version of "
                "recordzoo: it is begun again."
            )
        self.progress.note(
            f"Preparing {self.raw.title}: {source.description} ({size}) -> {self.target}; "
            f"raw data and records together take {format_bytes(there)}"
            + (f"; {format_bytes(resumed)} are already converted" if resumed else "")
        )
        if not self.raw.fetched:
            self.progress.note(stages(checked=is_checked))

    def _convert(self, finished: Finished, source: Source, archives: Archives) -> None:
        """Convert each unit that is not finished."""
        units = self._division.units(source)
        if stale := _stale_units(units, finished, archives):
            self.progress.note(f"{source.description} was written to since; some of it is converted again.")
            finished.drop(stale)
        shard_bytes = None if self.options.num_shards else self._division.shard_bytes(source)
        tasks = [
            Task(
                number=number,
                unit=unit,
                recipe=self.recipe,
                folder=finished.folder,
                shard_bytes=shard_bytes,
                on_error=self.options.on_error,
                check_images=self.options.check_images,
                done=tuple(finished.begun.get(number, ())),
            )
            for number, unit in enumerate(units)
            if number not in finished.units
        ]
        total = sum(unit.size_bytes for unit in units)
        self.progress.begin(f"converting {self.raw.title}", total, sum(units[n].size_bytes for n in finished.units))
        run_tasks(
            finished,
            tasks,
            list(archives.hashes.values()),
            self.progress,
            num_workers=self._division.num_workers(total),
            executor=self.options.executor,
            expansion=self.recipe.records_bytes(source) / max(1, source.size_bytes),
        )
        self.progress.end()
        self._say_read_back(finished)

    def _say_read_back(self, finished: Finished) -> None:
        """Log how much was verified. Each shard is read back while the next is written."""
        shards = finished.shards
        size, values = finished.written_bytes, sum(facts.num_values for facts in shards)
        self.progress.note(
            f"read back: {format_bytes(size)} in {_counted(len(shards), 'shard')}, {_counted(values, 'value')}: "
            "as they were written"
        )

    def _check_unchanged(self, source: Source, build: Build, finished: Finished, archives: Archives) -> None:
        """Check that the raw data did not change during the conversion."""
        again = self.recipe.find(self.root)
        if again is None or again.fingerprint() != build.plan["source"]:
            raise SourceError(
                f"{source.description} changed while it was converted. Nothing was published; run the command again.",
                worthless=True,
            )
        if stale := _stale_units(self._division.units(again), finished, archives):
            finished.drop(stale)
            raise SourceError(
                f"{source.description} was written to while it was converted{_named(source, again)}. Nothing was "
                "published, and what may be out of date was dropped. Wait until nothing writes to it, then run the "
                "same command again."
            )

    def _assemble(self, finished: Finished, source: Source, raw_files: Sequence[RawFile]) -> None:
        """Assemble the finished shards."""
        origin = self.recipe.origin or ("archive" if raw_files else "tree")
        files = source.files()
        extras = {} if files is None else {MADE_FROM_FILE: encode_files(files, self.root)}
        if self.options.layout:
            extras[LAYOUT_FILE] = json.dumps(self.options.layout).encode()
        self._digest = assemble(finished, self.recipe, origin, raw_files or self.recipe.made_from, extras)


def _stale_units(units: Sequence[Unit], finished: Finished, archives: Archives) -> list[int]:
    """Return the finished units whose files were written to since they were listed for them.

    An archive whose hash is compared needs no other proof.
    """
    return [
        number
        for number, unit in enumerate(units)
        if number in finished.units
        and finished.units[number][-1].stamp != unit.stamp
        and getattr(unit, "path", None) not in archives.proven
    ]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(source: Source, again: Source) -> str:
    """Name the first files that changed between two listings."""
    before, now = source.files(), again.files()
    names = list(now.written_since(before)) if before is not None and now is not None else []
    return f" ({name_first(names, _NUM_NAMED)})" if names else ""


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
