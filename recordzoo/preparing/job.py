"""One preparation from beginning to end."""

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from recordzoo import settings
from recordzoo.aliases import JSON
from recordzoo.bars import closed_on_error
from recordzoo.errors import (
    DownloadError,
    HashMismatchError,
    NotPreparedError,
    PrepareError,
    SourceError,
    TermsError,
)
from recordzoo.preparing.assemble import assemble, warn_of_bad
from recordzoo.preparing.convert import Task
from recordzoo.preparing.division import Division
from recordzoo.preparing.estimates import records_bytes
from recordzoo.preparing.journal import Journal
from recordzoo.preparing.located import Located, locate
from recordzoo.preparing.options import DEFAULTS, Options, PrepareOptions
from recordzoo.preparing.raw import RawData, check_addresses, stages
from recordzoo.preparing.run import Workers, run_tasks
from recordzoo.progress import format_bytes
from recordzoo.publish.build import Build
from recordzoo.publish.exchange import check_place
from recordzoo.publish.lock import tidy
from recordzoo.publish.output import Output
from recordzoo.publish.publishing import publish
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.beside import LAYOUT_FILE
from recordzoo.recipes.variants import check_variant
from recordzoo.records.made_from import MADE_FROM_FILE, encode_files
from recordzoo.records.manifest import MANIFEST_NAME, ORIGINAL, VERSION, RawFile, manifest_digest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.sources.member import Source, Unit
from recordzoo.text import name_first

logger = logging.getLogger("recordzoo")

WRITER = 5
"""Part of the plan. Raise it when the same raw data gives other bytes, or when the journal has other fields: a build of
an older version is then begun anew, not resumed."""

_NUM_NAMED = 5


def ensure(
    recipe: Recipe,
    root: Path,
    options: Options = DEFAULTS,
    *,
    download: bool | None = False,
    **changes: Unpack[PrepareOptions],
) -> Path:
    """Return the published record set; make it if it is not there. Silent if it is.

    Any number of processes may ask at once: one works, the others wait for it.

    The set may be read by whom the umask allows: with 077 by nobody else. In a directory with the set-group-ID bit it
    belongs to that directory's group.

    Args:
        recipe: What to make.
        root: Where raw data is, or is downloaded to.
        options: How.
        download: Download raw data that is not there. None: not, and errors do not suggest it: the caller has no such
            argument.
        **changes: Options to take instead of those in `options`.

    Raises:
        NotPreparedError: No records, and no raw data that may be converted without being asked.
        SourceError: Raw data cannot be had or is not what it should be.
        PrepareError: Conversion failed; what is finished is kept.
        ArgumentError: An option has a value that it cannot have.
        OtherSourceError: The record set is there, and holds another variant.
    """
    return ensure_located(locate(recipe, root, dataclasses.replace(options, **changes)), download=download)


def ensure_located(located: Located, *, download: bool | None = False) -> Path:
    """Do what `ensure` does, of a record set that is located."""
    if located.is_published and not located.refresh:
        if located.recipe.variant != ORIGINAL:
            check_variant(RecordReader(located.target), located.recipe.variant)
        tidy(located.target)
        if located.options.discard_raw:
            Job(located, download).discard_raw()
        return located.target
    with closed_on_error(located.progress):
        return Job(located, download).run()


class Job:
    """A preparation: what is asked for, and each step of it."""

    def __init__(self, located: Located, download: bool | None) -> None:
        self.located, self.download = located, download
        self.recipe, self.root, self.target = located.recipe, located.root, located.target
        self.options, self.progress = located.options, located.progress
        self.raw = RawData(located, bool(download))
        self._division = Division(self.recipe, self.options)
        self._hashed: frozenset[Path] = frozenset()  # archives whose hash is compared
        self._raw_files: list[RawFile] = []
        self._digest = ""  # of what was made

    @property
    def is_published(self) -> bool:
        """Whether the record set is there."""
        return is_record_set(self.target)

    def run(self) -> Path:
        """Make the record set, or wait for the process that does."""
        check_place(self.target, is_set=self.is_published)
        if not self.target.parent.is_dir():
            if not self.download or self._is_forbidden:
                self._check_size(self._source())  # a directory is not made for who is then refused
            else:
                self.raw.check_terms()
        output, ready = Output(self.target), lambda: self.is_published
        if publish(
            output, ready, self.progress, self._prepare, again=self.located.refresh, may_replace=self._may_replace
        ):
            self.progress.note(f"publish: {self.target}")
        elif self._digest and manifest_digest((self.target / MANIFEST_NAME).read_bytes()) != self._digest:
            logger.warning("%s was published by another process, from other raw data or options.", self.target)
        if self._digest:
            self.discard_raw()
        return self.target

    def _may_replace(self, path: Path) -> bool:
        return self.located.refresh and is_record_set(path)

    def discard_raw(self) -> None:
        """Delete what was downloaded for the records, if that is wished.

        Raises:
            PrepareError: It cannot be deleted.
        """
        try:
            self.raw.discard_raw()
        except OSError as err:
            raise PrepareError(f"{self.root}: a downloaded archive cannot be removed: {err.strerror}.") from err

    def _prepare(self, build: Build) -> None:
        """Write the record set into a build."""
        source = self._source()
        self._check_size(source)
        if self.options.num_shards:
            source.cut(self.options.num_shards)  # an argument that cannot be is said before anything is made
        build.claim(self._plan(source), records_bytes(self.recipe, source))
        journal = Journal(build, self.progress)
        self._announce(source, journal.written_bytes, build.unusable)
        try:
            self._convert(journal, source)
            self._check_unchanged(source, build, journal)
        except SourceError as err:
            if isinstance(err, HashMismatchError) or err.details.get("worthless"):
                build.remove()
            raise
        self._assemble(journal, source)

    def _source(self) -> Source:
        """Find the raw data, or download it."""
        if self.download and self._is_forbidden:
            raise self._forbidden()
        source = self.raw.find()
        if source is None:
            raise NotPreparedError(f"{self._missing()} {self._how_to_get()}".strip(), root=str(self.root))
        return source

    def _how_to_get(self) -> str:
        """Say how to get the raw data, by the command or by hand."""
        if not self.recipe.raw_files:
            return ""
        try:
            check_addresses(self.recipe, self.root, self.options)
        except (DownloadError, TermsError) as err:
            return str(err)
        command = self.recipe.command(self.root)
        return f"Run: {command}" if self.download is None else f"Pass download=True, or run: {command}"

    @property
    def _title(self) -> str:
        return self.recipe.title(self.root)

    def _missing(self) -> str:
        looked = [self.target.name, *self.recipe.looked_for(self.root)]
        return f"{self._title}: no records and no raw data in {self.root} (looked for {', '.join(looked)})."

    def _check_size(self, source: Source) -> None:
        """Refuse to convert what nobody asked for, or more than one expects of a constructor."""
        if self._is_forbidden:
            raise self._forbidden()
        if self.options.prepare or self.download or self.located.refresh:
            return
        if source.size_bytes > settings.auto_prepare_bytes():
            raise NotPreparedError(
                f"{self._title}: {source.description} ({format_bytes(source.size_bytes)}) is not converted "
                f"unasked: it is more than {format_bytes(settings.auto_prepare_bytes())} "
                f"(RECORDZOO_AUTO_PREPARE_GB). {self._command}"
            )

    @property
    def _is_forbidden(self) -> bool:
        return self.options.prepare is False

    def _forbidden(self) -> NotPreparedError:
        there = f"{self.target} is not made again, for prepare=False" if self.is_published else ""
        return NotPreparedError(
            f"{self._title}: {there or f'no records at {self.target}'}. {self._command}", root=str(self.root)
        )

    @property
    def _command(self) -> str:
        return f"Run: {self.recipe.command(self.root)} (or pass prepare=True)"

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

    def _announce(self, source: Source, resumed: int, others: Sequence[Path]) -> None:
        size = format_bytes(source.size_bytes)
        there = source.size_bytes + records_bytes(self.recipe, source)
        for other in others:
            self.progress.note(
                f"{other} is an interrupted preparation that cannot be resumed: it has other options, or belongs to "
                "another user or to a layer of a container image. It is removed at the end of this one, if possible."
            )
        self.progress.note(
            f"Preparing {self._title}: {source.description} ({size}) -> {self.target}; "
            f"raw data and records together take {format_bytes(there)}"
            + (f"; {format_bytes(resumed)} are already converted" if resumed else "")
        )
        if not self.raw.fetched:
            self.progress.note(stages(checked=self.raw.is_checked(source)))

    def _assemble(self, journal: Journal, source: Source) -> None:
        """Put the finished shards together."""
        origin = self.recipe.origin or ("archive" if self._raw_files else "tree")
        files = source.files()
        extras = {} if files is None else {MADE_FROM_FILE: encode_files(files, self.root)}
        if self.options.layout:
            extras[LAYOUT_FILE] = json.dumps(self.options.layout).encode()
        self._digest = assemble(journal, self.recipe, origin, self._raw_files or self.recipe.made_from, extras)
        warn_of_bad(journal)

    def _convert(self, journal: Journal, source: Source) -> None:
        """Convert each unit that is not finished."""
        archives = self.raw.archives(source)
        hashes = self.raw.start_hashes(archives)
        try:
            units = self._division.units(source)
            self._hashed = frozenset(path for path in hashes if (remote := archives[path]) and remote.hash)
            if stale := self._stale_units(units, journal):
                self.progress.note(f"{source.description} was written to since; some of it is converted again.")
                journal.drop(stale)
            shard_bytes = None if self.options.num_shards else self._division.shard_bytes(source)
            tasks = [
                Task(
                    number=number,
                    unit=unit,
                    recipe=self.recipe,
                    folder=journal.path,
                    shard_bytes=shard_bytes,
                    on_error=self.options.on_error,
                    check_images=self.options.check_images,
                    done=tuple(journal.shards.get(number, ())),
                )
                for number, unit in enumerate(units)
            ]
            total = sum(task.unit.size_bytes for task in tasks)
            done = sum(tasks[number].unit.size_bytes for number in journal.units)
            self.progress.begin(f"converting {self._title}", total, done)
            expansion = records_bytes(self.recipe, source) / max(1, source.size_bytes)
            number, executor = self._division.num_workers(total), self.options.executor
            workers = Workers(number, self.recipe.worker_setup(), expansion, executor)
            run_tasks(journal, tasks, workers, list(hashes.values()), self.progress)
            self.progress.end()
            self._say_read_back(journal)
            self._raw_files = [self.raw.checked(path, remote, hashes.get(path)) for path, remote in archives.items()]
        finally:
            for each in hashes.values():
                each.close()

    def _say_read_back(self, journal: Journal) -> None:
        """Say what was read back: each shard was, while the next one was filled."""
        shards = [shard for done in journal.shards.values() for shard in done]
        size, values = sum(shard.size_bytes for shard in shards), sum(shard.num_values for shard in shards)
        self.progress.note(
            f"read back: {format_bytes(size)} in {_counted(len(shards), 'shard')}, {_counted(values, 'value')}: "
            "as they were written"
        )

    def _check_unchanged(self, source: Source, build: Build, journal: Journal) -> None:
        """Look at the raw data again: what was read must be what is there."""
        again = self.recipe.find(self.root)
        if again is None or again.fingerprint() != build.plan["source"]:
            raise SourceError(
                f"{source.description} changed while it was converted. Nothing was published; run the command again.",
                worthless=True,
            )
        if stale := self._stale_units(self._division.units(again), journal):
            journal.drop(stale)
            raise SourceError(
                f"{source.description} was written to while it was converted{_named(source, again)}. Nothing was "
                "published, and what may be out of date was dropped. Wait until nothing writes to it, then run the "
                "same command again."
            )

    def _stale_units(self, units: Sequence[Unit], journal: Journal) -> list[int]:
        """Return the finished units whose files were written to since they were listed for them.

        An archive whose hash is compared needs no other proof.
        """
        return [
            number
            for number, unit in enumerate(units)
            if number in journal.units
            and journal.units[number].stamp != unit.stamp
            and getattr(unit, "path", None) not in self._hashed
        ]


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _named(source: Source, again: Source) -> str:
    """Name the first files that were written to between two listings."""
    before, now = source.files(), again.files()
    names = list(now.written_since(before)) if before is not None and now is not None else []
    return f" ({name_first(names, _NUM_NAMED)})" if names else ""
