"""One repair from beginning to end."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from recordzoo import durable
from recordzoo.bars import default_progress
from recordzoo.errors import RecordZooError, SourceError
from recordzoo.preparing.build import Build
from recordzoo.preparing.build_lock import my_turn
from recordzoo.preparing.division import default_shard_bytes
from recordzoo.preparing.options import PrepareOptions
from recordzoo.preparing.space import check_space, disk_error
from recordzoo.preparing.stale_builds import put_back, remove_dead
from recordzoo.progress import Progress
from recordzoo.recipes.jpeg import UNKNOWN, mark_of
from recordzoo.records.arrays import file_name, load_array
from recordzoo.records.files import Directory
from recordzoo.records.manifest import MANIFEST_NAME, NO_SHARD, Manifest
from recordzoo.records.marks import marks_name, pack_marks
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import Report, verify
from recordzoo.repairing.origin import Facts
from recordzoo.repairing.raw import find_raw
from recordzoo.repairing.rebuild import rebuild
from recordzoo.repairing.shards import target_bytes, write_again
from recordzoo.repairing.spool import Spool
from recordzoo.repairing.values import Search, ShardValues, shard_values
from recordzoo.steps import step
from recordzoo.text import name_first

_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Repaired:
    """What a repair did.

    Attributes:
        report: What `verify` found before it.
        files: The files that were made again; empty if nothing was damaged.
        num_values: How many values were read from raw data; None if all of them were.
        source: Which raw data was read; "" for none.
    """

    report: Report
    files: Sequence[str] = ()
    num_values: int | None = 0
    source: str = ""


def repair(
    path: Path, *, root: Path | None = None, download: bool = False, **options: Unpack[PrepareOptions]
) -> Repaired:
    """Make the damaged files of a record set again, and publish it in one step; the bytes are those from before.

    Of a damaged shard, only the values that are damaged are read from the raw data. All other files are kept. If the
    manifest or an array is damaged, all of the raw data is converted again, and the result published only if it is the
    same record set.

    Args:
        path: The record set's directory.
        root: Where the raw data is; None: where it was, or beside the record set.
        download: Download raw data that is not there.
        **options: Those of `PrepareOptions` that say how raw data is fetched and read.

    Raises:
        ManifestError: It is not a record set: it has no manifest.
        NotPreparedError: The raw data is not there.
        SourceError: It is not the raw data from which the set was made.
        PrepareError: The result is not the same as before; nothing was replaced.
        FormatVersionError: The set was written in a later format.
    """
    place = Path(os.path.realpath(path))
    progress = options.get("progress") or default_progress()
    before = _generation(place)
    with my_turn(place, lambda: _generation(place) != before, progress) as is_mine:
        if is_mine:
            put_back(place)
        report = verify(place, full=True, progress=progress, max_problems=None)
        if is_mine and report.damaged and not _needs_all(place, report):
            done = _Repair(place, root, download, options, progress, report).run()
            if done is not None:
                return done
    if not report.damaged:
        return Repaired(report)
    source = rebuild(place, report, root, download, options, progress)
    return Repaired(report, report.damaged, None, source)


def _generation(place: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = place.stat()
        return status.st_dev, status.st_ino
    return None


def _needs_all(place: Path, report: Report) -> bool:
    """Whether more is damaged than shards and marks."""
    if MANIFEST_NAME in report.damaged:
        return True
    return bool(set(map(file_name, RecordReader(place).manifest.arrays)).intersection(report.damaged))


@dataclass
class _Repair:
    """The repair of shards and marks."""

    place: Path
    root: Path | None
    download: bool
    options: PrepareOptions
    progress: Progress
    report: Report
    manifest: Manifest = field(init=False)
    directory: Directory = field(init=False)
    source: str = ""
    num_values: int = 0
    default_bytes: int = 0  # the shard size that the raw data gives without options

    def run(self) -> Repaired | None:
        """Do all of it; None if a shard holds values that the indices do not know.

        Raises:
            RecordZooError: As `repair`.
        """
        reader = RecordReader(self.place)
        self.manifest, self.directory = reader.manifest, Directory(self.place)
        indices = {name: self._index(name) for name in self.manifest.blobs}
        damaged = set(self.report.damaged)
        numbers = [n for n, spec in enumerate(self.manifest.shards) if spec.name in damaged]
        shards = [shard_values(self.directory, self.manifest, indices, number) for number in numbers]
        known = [shard for shard in shards if shard is not None]
        if len(known) < len(shards):
            return None
        needed = sum(self.manifest.shards[number].size_bytes for number in numbers)
        missing = sum(int(shard.lengths[~shard.is_good].astype(np.int64).sum()) for shard in known)
        check_space(self.place.parent, needed + missing)
        try:
            build, _ = Build.claim(self.place, self._plan(reader.digest), self.progress)
            with build.kept(), contextlib.closing(Spool(build.path)) as spool:
                if missing:
                    self._search(reader, indices, known, spool)
                self._write(build, known, spool)
                build.publish(replace=True)
        except OSError as err:
            if isinstance(err, RecordZooError):
                raise
            raise disk_error(err, self.place.parent, needed) from err
        build.remove()
        remove_dead(self.place)
        return Repaired(self.report, self.report.damaged, self.num_values, self.source)

    def _index(self, field_name: str) -> NDArray[Any]:  # Any: rows
        name = f"{field_name}.index"
        return load_array(self.directory, name, self.manifest.arrays[name])

    def _plan(self, digest: str) -> dict[str, Any]:  # Any: JSON
        return {"repair": digest, "files": sorted(self.report.damaged)}

    def _search(
        self, reader: RecordReader, indices: dict[str, NDArray[Any]], shards: list[ShardValues], spool: Spool
    ) -> None:
        """Find the damaged values in the raw data.

        Raises:
            SourceError: Some are not there.
        """
        search = Search(indices, reader.names, shards, spool, self.progress)
        names = list(search.wanted.values())
        found = find_raw(Facts.of(reader), self.root, self.download, self.options, self.progress, names)
        self.source = found.source.description
        self.default_bytes = default_shard_bytes(found.recipe, found.source)
        self.progress.begin(f"reading {len(names):,} damaged value{'s' if len(names) > 1 else ''} from raw data")
        search.run(found.recipe, found.source)
        self.progress.end()
        self.num_values = len(spool)
        if search.wanted:
            missing = name_first(list(search.wanted.values()), _NAMES_SHOWN)
            raise SourceError(
                f"{self.source} does not hold {len(search.wanted):,} of the {len(names):,} damaged values as they were "
                f"stored ({missing}). Nothing was replaced. If the raw data has changed "
                "since, `recordzoo prepare` with --refresh makes a new record set of it.",
                path=str(self.place),
            )

    def _write(self, build: Build, shards: list[ShardValues], spool: Spool) -> None:
        """Put the repaired set together: damaged shards are written again, all other files are kept."""
        folder = build.set_folder
        sizes = target_bytes(self.directory, ((each.name, each.page_size) for each in self.manifest.shards))
        written = self.manifest.metadata.get("written")  # of a list
        asked = written.get("shard_bytes") if isinstance(written, dict) else None
        sizes = [*([asked] if isinstance(asked, int) else []), *sizes, self.default_bytes]
        specs = [self.manifest.shards[shard.number] for shard in shards]
        self.progress.begin("writing shards", sum(spec.size_bytes for spec in specs))
        for spec, shard in zip(specs, shards, strict=True):
            build.check()
            write_again(folder, self.directory, spec, shard, spool, sizes)
            self.progress.advance(spec.size_bytes, spec.num_values)
        self.progress.end()
        step("set.shards_moved")
        left = {*self.report.damaged, MANIFEST_NAME}
        with os.scandir(self.place) as entries:
            for entry in entries:
                if entry.name not in left:
                    _keep(Path(entry.path), folder / entry.name)
        step("set.arrays_written")
        _keep(self.place / MANIFEST_NAME, folder / MANIFEST_NAME)
        self._write_marks(folder)
        durable.sync_directory(folder)
        step("set.manifest_written")

    def _write_marks(self, folder: Path) -> None:
        for name in self.manifest.blobs:
            if marks_name(name) not in self.report.damaged:
                continue
            reader = RecordReader(folder)
            marks = np.full(len(reader), UNKNOWN, np.uint8)
            for position in np.flatnonzero(reader.array(f"{name}.index")["shard"] != NO_SHARD).tolist():
                marks[position] = mark_of(reader.read(name, position))
            data = pack_marks(marks, self.manifest.arrays[f"{name}.index"])
            durable.write_file(folder / marks_name(name), data)


def _keep(path: Path, target: Path) -> None:
    """Let a file of the damaged set be one of the repaired set too: by a second name, or as a copy."""
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, target, symlinks=True)  # somebody else put it there
        return
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(path, target, follow_symlinks=False)
        with contextlib.suppress(OSError), open(target, "rb") as file:
            os.fsync(file.fileno())
