"""`Preparation`: the record set of a recipe; whether it is ready, what its making would take, and the making."""

import contextlib
import dataclasses
import functools
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from recordzoo.base.files import behind_links, free_bytes, volume
from recordzoo.base.process import default_workers
from recordzoo.base.progress import closed_on_error, format_bytes
from recordzoo.base.settings import auto_prepare_bytes
from recordzoo.base.text import JSON
from recordzoo.errors import (
    ArgumentError,
    DownloadError,
    FolderError,
    HashMismatchError,
    NotPreparedError,
    SourceError,
    TermsError,
)
from recordzoo.preparing.assemble import Finished, assemble
from recordzoo.preparing.changes import Changes, encode_files, find_changes
from recordzoo.preparing.convert import Task
from recordzoo.preparing.options import DEFAULTS, Options, PrepareOptions
from recordzoo.preparing.publish import Build, Output, build_path, check_place, check_space, publishing, tidy
from recordzoo.preparing.raw import RawData, files_bytes, near
from recordzoo.preparing.workers import run_tasks
from recordzoo.raw.member import Source, Unit
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import check_variant, variant_recipe
from recordzoo.records.manifest import MANIFEST_NAME, ORIGINAL, VERSION, SetKind, manifest_digest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.writer import LAYOUT_FILE, MADE_FROM_FILE

logger = logging.getLogger("recordzoo")

WRITER = 8
"""Part of the plan. Raise it when the same raw data gives other bytes, or when the files of finished shards change: a
build of an older version is then begun again."""

MOST_NAMED = 20
"""Changed files listed by name in an outlook's JSON; all are counted."""

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
    """Return the published record set; prepare it if it does not exist. See `Preparation.run`.

    Args:
        root: Directory of the raw data, or of its download.
        **changes: Options that replace those in `options`.
    """
    return Preparation(recipe, root, dataclasses.replace(options, **changes)).run(download=download)


class Preparation:
    """The preparation of a record set that exists or will be made.

    Args:
        recipe: The recipe of the original.
        root: Directory of the raw data, or of its download.
        options: The options.

    Raises:
        ArgumentError: The variant does not exist, or this data has no variants.
        OtherSourceError: A variant occupies the place of the original.

    Attributes:
        recipe: The recipe, in the requested variant.
        root: As given; absolute if an executor converts.
        options: As given.
        target: The set's directory, with links resolved.
    """

    def __init__(self, recipe: Recipe, root: Path, options: Options = DEFAULTS) -> None:
        if options.executor is not None:  # its workers may have another current directory
            root = root.absolute()
        if options.incomplete:
            recipe.takes_incomplete = True
        self.recipe, self.root, self.options = recipe, root, options
        if options.variant is not None:
            self.recipe = variant_recipe(recipe, root, options.variant, anew=bool(options.refresh))
        self.target = behind_links(options.records_dir or self.recipe.target(root))
        self._digest = ""  # of the set that this process made

    @functools.cached_property
    def raw(self) -> RawData:
        """The raw data; a set that is ready needs none."""
        return RawData(self.recipe, self.root, self.options)

    @property
    def _title(self) -> str:
        return self.recipe.title(self.root)

    def is_ready(self) -> bool:
        """Whether the record set is published."""
        return is_record_set(self.target)

    def changes(self) -> Changes:
        """Compare all existing raw files with those that the published record set was made from."""
        now = None
        with contextlib.suppress(SourceError, FolderError):  # some cannot be listed; the others are compared
            source = self.raw.source()
            now = None if source is None else source.files()
        return find_changes(RecordReader(self.target), self.root, full=True, now=now, progress=self.raw.progress)

    @functools.cached_property
    def refresh(self) -> bool:
        """Whether an existing record set is rebuilt."""
        if self.options.refresh != "if-changed":
            return bool(self.options.refresh)
        if not self.is_ready():
            return False
        return self.recipe.difference(RecordReader(self.target).manifest, self.root) is not None or bool(self.changes())

    def run(self, *, download: bool | None = False) -> Path:
        """Return the published record set; prepare it if it does not exist.

        Any number of processes may call this at once: one prepares, the others wait. No output if the set exists. File
        modes follow the umask. In a directory with the set-group-ID bit the set belongs to that directory's group.

        Args:
            download: Download missing raw data. None: no, and errors do not suggest it, because the caller has no such
                argument.

        Raises:
            NotPreparedError: There are no records, and no raw data that may be converted without being asked.
            SourceError: Raw data cannot be downloaded, or is not what it should be.
            PrepareError: Conversion failed; finished shards are kept.
            ArgumentError: An option has an invalid value.
            OtherSourceError: The existing record set holds another variant.
        """
        if self.is_ready() and not self.refresh:
            if self.recipe.variant != ORIGINAL:
                check_variant(RecordReader(self.target), self.recipe.variant)
            tidy(Output(self.target))
            if self.options.discard_raw:
                self.raw.discard()
            return self.target
        with closed_on_error(self.raw.progress):
            check_place(self.target)
            if self.recipe.kind is SetKind.FOLDER and self.target.is_relative_to(self.root.resolve()):
                raise ArgumentError(
                    f"{self.target} is in {self.root}, where it would be a class. Pass another records_dir (--output)."
                )
            if not self.target.parent.is_dir():
                self._check_before_download(download)
            self._publish(download)
        return self.target

    def outlook(self) -> "Outlook":
        """Predict what `run` would do. Writes and downloads nothing."""
        recipe, free = self.recipe, free_bytes(self.target.parent)
        if self.is_ready() and not self.refresh:
            return Outlook(self, "ready", free, changes=self.changes().found)
        source = self._existing(download=True)
        if source is None:
            return self._outlook_of_downloads(free) if recipe.raw_files else Outlook(self, "missing", free)
        records = recipe.records_bytes(source)
        return Outlook(
            self,
            "resume" if build_path(self.target).exists() else "convert",
            free,
            source.description,
            source.size_bytes,
            peak_bytes=source.size_bytes + records,
            sources=list(self._sources(source)),
            needed_bytes=records,
        )

    def _outlook_of_downloads(self, free: int) -> "Outlook":
        files = self.recipe.raw_files
        raw, peak, needed = files_bytes(files), None, None
        if raw is not None:
            peak = raw + (needed := self.recipe.records_bytes(raw))
            if volume(self.root) == volume(self.target):
                needed += self.raw.missing_bytes
        obstacle = None
        try:
            self.raw.check_addresses()
        except (TermsError, DownloadError) as err:
            obstacle = err
        return Outlook(
            self,
            "download",
            free,
            ", ".join(remote.name for remote in files),
            raw,
            files_bytes(self.raw.missing),
            peak,
            list(self._sources(None)),
            needed,
            obstacle=obstacle,
        )

    def _sources(self, source: Source | None) -> Iterator[dict[str, JSON]]:
        """Yield the JSON objects of the raw files; `source` is None if some are missing."""
        if source is not None and not source.archives:
            where = source.description
            facts = {"name": os.path.basename(where), "bytes": source.size_bytes, "path": where}
            yield {**facts, "state": "there", "url": None, "optional": False}
            return
        for remote in self.recipe.raw_files:
            path, size, state, url = remote.path(self.root), remote.expected_bytes, "there", None
            if path.exists():
                size = path.stat().st_size
            elif source is not None:  # an optional one
                continue
            else:
                try:
                    state, url = "download", str(self.raw.addresses(remote)[0])
                except TermsError:
                    state = "terms"
                except DownloadError:
                    state = "by hand"
            facts = {"name": remote.name, "bytes": size, "path": str(path)}
            yield {**facts, "state": state, "url": url, "optional": remote.optional}

    def _check_before_download(self, download: bool | None) -> None:
        """Raise the errors of `_found`, without a download; called before a directory is created."""
        if not download or self.options.prepare is False:
            self._found(download)
        elif self._existing(download) is None:
            self.raw.check_addresses()

    def _found(self, download: bool | None) -> Source:
        """Find the raw data, or download it.

        Raises:
            NotPreparedError: There is no raw data and no permission to download it, or it may not be converted without
                being asked.
            SourceError: Part of the raw data is missing, or cannot be downloaded.
        """
        if download:
            self._refuse_if_forbidden()
        source = self._existing(download)
        if source is None and download:
            self._download()
            source = self.raw.source()
        if source is None:
            looked_for = self.recipe.looked_for(self.root)
            missing = (
                f"{self._title}: no records and no raw data in {self.root} "
                f"(looked for {', '.join([self.target.name, *looked_for])})."
            )
            hints = [near(self.root, looked_for), self._how_to_get(download)] if self.recipe.raw_files else []
            raise NotPreparedError(" ".join(filter(None, [missing, *hints])), root=str(self.root))
        self._refuse_if_forbidden()
        self._check_size(source, download)
        self.raw.tidy()
        return source

    def _existing(self, download: bool | None) -> Source | None:
        """Return the raw data; None if there is none, or if missing files may be downloaded."""
        try:
            return self.raw.source()
        except SourceError:
            if not download or not self.recipe.raw_files:
                raise
            return None

    def _download(self) -> None:
        looked_for = self.recipe.looked_for(self.root)
        if not self.recipe.raw_files:
            raise NotPreparedError(
                f"{self._title}: no raw data in {self.root} (looked for {', '.join(looked_for)}). It cannot be "
                "downloaded: pass the path of data that you have.",
                root=str(self.root),
            )
        if hint := near(self.root, looked_for):
            self.raw.progress.note(hint)
        self.raw.check_addresses()
        self._check_room()
        self.raw.download()

    def _how_to_get(self, download: bool | None) -> str:
        """Describe how to get the raw data, by a command or by hand."""
        try:
            self.raw.check_addresses()
        except (DownloadError, TermsError) as err:
            return str(err)
        command = self.recipe.command(self.root)
        return f"Run: {command}" if download is None else f"Pass download=True, or run: {command}"

    def _refuse_if_forbidden(self) -> None:
        """Refuse to convert anything with prepare=False."""
        if self.options.prepare is not False:
            return
        is_there = self.is_ready()
        what = f"{self.target} is not made again, for prepare=False" if is_there else f"no records at {self.target}"
        raise NotPreparedError(f"{self._title}: {what}. {self._command}", root=str(self.root))

    def _check_size(self, source: Source, download: bool | None) -> None:
        """Refuse to convert large raw data without being asked."""
        if self.options.prepare or download or self.refresh or source.size_bytes <= auto_prepare_bytes():
            return
        raise NotPreparedError(
            f"{self._title}: {source.description} ({format_bytes(source.size_bytes)}) is not converted "
            f"unasked: it is more than {format_bytes(auto_prepare_bytes())} "
            f"(RECORDZOO_AUTO_PREPARE_GB). {self._command}"
        )

    @property
    def _command(self) -> str:
        return f"Run: {self.recipe.command(self.root)} (or pass prepare=True)"

    def _check_room(self) -> None:
        """Check, before the download, for enough space for missing files and records.

        A note names files of unknown size, which are not counted.
        """
        missing = self.raw.missing
        if unknown := [remote.name for remote in missing if remote.expected_bytes is None]:
            self.raw.progress.note(
                f"Whether there is room for {', '.join(unknown)} is not checked: the size is not known."
            )
        files = [(remote, remote.path(self.root)) for remote in self.recipe.raw_files]
        raw = sum(path.stat().st_size if path.is_file() else remote.expected_bytes or 0 for remote, path in files)
        records = self.recipe.records_bytes(raw)
        if volume(self.root) == volume(self.target):
            check_space(self.root, self.raw.missing_bytes + records)
        else:
            check_space(self.root, self.raw.missing_bytes)
            check_space(self.target.parent, records)

    def _publish(self, download: bool | None) -> None:
        """Make the record set, or wait for the process that makes it."""
        output, again = Output(self.target), self.refresh
        with publishing(output, self.is_ready, self.raw.progress, again=again, replaces=again) as build:
            try:
                if build is not None:
                    self._make(build, download)
            except FileNotFoundError:  # without locks another process may have published, and discarded the raw data
                if again or not self.is_ready():
                    raise
        if build is not None and build.is_first:
            self.raw.progress.note(f"publish: {self.target}")
        elif self._digest and manifest_digest((self.target / MANIFEST_NAME).read_bytes()) != self._digest:
            logger.warning("%s was published by another process, from other raw data or options.", self.target)
        if self._digest:
            self.raw.discard()

    def _make(self, build: Build, download: bool | None) -> None:
        """Write the record set into a build."""
        source = self._found(download)
        if self.options.num_shards:
            source.cut(self.options.num_shards)  # an invalid number is refused before anything is written
        build.claim(self._plan(source), self.recipe.records_bytes(source))
        finished = Finished(build, self.raw.progress)
        self._announce(source, build, finished.written_bytes)
        try:
            with self.raw.hashing(source):
                self._convert(finished, source)
                raw_files = self.raw.checked()
            self._check_unchanged(source, build, finished)
        except SourceError as err:
            if isinstance(err, HashMismatchError) or err.details.get("worthless"):
                build.remove()
            raise
        origin = self.recipe.origin or ("archive" if raw_files else "tree")
        files = source.files()
        extras = {} if files is None else {MADE_FROM_FILE: encode_files(files, self.root)}
        if self.options.layout:
            extras[LAYOUT_FILE] = json.dumps(self.options.layout).encode()
        self._digest = assemble(finished, self.recipe, origin, raw_files or self.recipe.made_from, extras)

    def _plan(self, source: Source) -> dict[str, JSON]:
        return {
            "writer": WRITER,
            "format": VERSION,
            "set": self.recipe.set_name,
            "source": source.fingerprint(),
            "options": dict(self.recipe.options),
            **(self.options.layout or {"shard_bytes": self._shard_bytes(source)}),
            "on_error": self.options.on_error,
            "check_images": self.options.check_images,
        }

    def _shard_bytes(self, source: Source) -> int:
        """Return the target shard size in bytes; unused if the number of shards is given.

        Default: raw size / 8, so that several processes have work, clipped to 64 MiB..1 GiB. For variants: raw size /
        32, clipped to 16 MiB..1 GiB, because a megabyte of a variant takes a second of work.
        """
        if self.options.shard_bytes:
            return self.options.shard_bytes
        parts, least = (8, 64 << 20) if self.recipe.variant == ORIGINAL else (32, 16 << 20)
        data_bytes = int(source.size_bytes * min(1, self.recipe.expansion))
        return max(least, min(1 << 30, data_bytes // parts))

    def units(self, source: Source) -> list[Unit]:
        """Cut the source into units: one per shard if `num_shards` is given, otherwise units that fill shards."""
        if self.options.num_shards:
            return source.cut(self.options.num_shards)
        # Slightly less raw data than fills a shard: an overflow would give a small extra shard.
        expansion = max(self.recipe.expansion, self.recipe.records_bytes(source) / max(1, source.size_bytes))
        return source.units(int(self._shard_bytes(source) / (_SPILL * expansion)))

    def _announce(self, source: Source, build: Build, resumed: int) -> None:
        size = format_bytes(source.size_bytes)
        there = source.size_bytes + self.recipe.records_bytes(source)
        if build.discarded:
            self.raw.progress.note(
                f"{build.path} was an interrupted preparation with other options or raw data, or of another version of "
                "recordzoo: it is begun again."
            )
        self.raw.progress.note(
            f"Preparing {self._title}: {source.description} ({size}) -> {self.target}; "
            f"raw data and records together take {format_bytes(there)}"
            + (f"; {format_bytes(resumed)} are already converted" if resumed else "")
        )

    def _convert(self, finished: Finished, source: Source) -> None:
        """Convert each unit that is not finished."""
        units = self.units(source)
        if stale := self._stale_units(units, finished):
            self.raw.progress.note(f"{source.description} was written to since; some of it is converted again.")
            finished.drop(stale)
        shard_bytes, ended = None if self.options.num_shards else self._shard_bytes(source), finished.units
        tasks = [
            Task(
                number=number,
                unit=unit,
                recipe=self.recipe,
                folder=finished.folder,
                shard_bytes=shard_bytes,
                on_error=self.options.on_error,
                check_images=self.options.check_images,
                done=tuple(finished.done.get(number, ())),
            )
            for number, unit in enumerate(units)
            if number not in ended
        ]
        total = sum(unit.size_bytes for unit in units)
        self.raw.progress.begin(f"converting {self._title}", total, sum(units[number].size_bytes for number in ended))
        # Size does not predict the work for samples of a user's own dataset; such a recipe has a set-up.
        is_little = total < _FEW_BYTES and self.recipe.worker_setup() is None
        run_tasks(
            finished,
            tasks,
            list(self.raw.hashes.values()),
            self.raw.progress,
            num_workers=self.options.workers or (1 if is_little else default_workers()),
            executor=self.options.executor,
            expansion=self.recipe.records_bytes(source) / max(1, source.size_bytes),
        )
        self.raw.progress.end()

    def _check_unchanged(self, source: Source, build: Build, finished: Finished) -> None:
        """Check that the raw data did not change during the conversion."""
        again = self.recipe.find(self.root)
        if again is None or again.fingerprint() != build.plan["source"]:
            raise SourceError(
                f"{source.description} changed while it was converted. Nothing was published; run the command again.",
                worthless=True,
            )
        if stale := self._stale_units(self.units(again), finished):
            finished.drop(stale)
            raise SourceError(
                f"{source.description} was written to while it was converted. Nothing was published, and what may be "
                "out of date was dropped. Wait until nothing writes to it, then run the same command again."
            )

    def _stale_units(self, units: Sequence[Unit], finished: Finished) -> list[int]:
        """Return the finished units whose files were written to since they were listed for them.

        An archive whose hash is compared needs no other proof.
        """
        ended, proven = finished.units, self.raw.proven
        return [
            number
            for number, unit in enumerate(units)
            if number in ended and ended[number].stamp != unit.stamp and unit.archive not in proven
        ]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a preparation would do. Sizes are in bytes, exact or approximate; None: unknown.

    Attributes:
        preparation: The preparation.
        state: The planned action; "missing": there is no raw data, and no address to download it from.
        free_bytes: Free space on the record set's volume.
        source: Description of the raw data.
        raw_bytes: The size of the raw data.
        download_bytes: The size of the raw files that are downloaded.
        peak_bytes: The size of raw data and records together.
        sources: JSON objects of the raw files: name, bytes, path, state ("there", "download", "by hand", "terms"), url,
            optional.
        needed_bytes: Bytes still to be written on the record set's volume.
        changes: Raw files that changed since the existing record set was made.
        obstacle: Why a required raw file cannot be downloaded; None if the set can be prepared.
    """

    preparation: Preparation
    state: Literal["ready", "missing", "resume", "convert", "download"]
    free_bytes: int
    source: str | None = None
    raw_bytes: int | None = 0
    download_bytes: int | None = 0
    peak_bytes: int | None = 0
    sources: Sequence[Mapping[str, JSON]] = ()
    needed_bytes: int | None = 0
    changes: Sequence[str] = ()
    obstacle: TermsError | DownloadError | None = None

    @property
    def records_bytes(self) -> int | None:
        """The size of the records."""
        return None if self.peak_bytes is None or self.raw_bytes is None else self.peak_bytes - self.raw_bytes

    def to_json(self) -> dict[str, JSON]:
        """Return a JSON object."""
        return {
            "dataset": self.preparation.recipe.dataset,
            "part": self.preparation.recipe.part,
            "target": str(self.preparation.target),
            "state": self.state,
            "source": self.source,
            "raw_bytes": self.raw_bytes,
            "download_bytes": self.download_bytes,
            "peak_bytes": self.peak_bytes,
            "sources": list(self.sources),
            "needed_bytes": self.needed_bytes,
            "free_bytes": self.free_bytes,
            "changes": list(self.changes[:MOST_NAMED]),
            "num_changes": len(self.changes),
        }
