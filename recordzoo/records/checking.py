"""Check a record set: the report of `verify`, and the checks shared by directories and URLs."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import hash_text
from recordzoo.base.progress import Progress
from recordzoo.errors import CorruptRecordError, FormatVersionError, RecordError
from recordzoo.net.url import Url
from recordzoo.records.arrays import (
    AnyArray,
    Names,
    data_start,
    file_name,
    leads_out,
    load_array,
    marks_name,
    read_marks,
)
from recordzoo.records.files import AnyDirectory, pread
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NO_SHARD,
    ArraySpec,
    Manifest,
    ShardSpec,
    parse_manifest,
)
from recordzoo.records.shard import crc32, read_meta

_CHUNK_BYTES = 4 << 20


_MAX_RECORDS_NAMED = 100  # per shard and field; further ones are only counted


MAX_PROBLEMS = 1000
"""Default number of problems after which a check stops."""


_MAX_NAMES_NOTED = 10


@dataclass(frozen=True)
class Report:
    """The result of `verify`.

    Attributes:
        path: The record set.
        problems: One sentence per problem, with shard, position and name where they apply.
        checked: Number of checked "files", "bytes" and "records"; records only in a full check.
        notes: Remarks that are no problems: files that the manifest does not name, names that lead elsewhere.
        damaged: The damaged or missing files, including damaged marks, which are optional and only in `notes`.
        stopped: Whether the check stopped after too many problems; there may be more.
    """

    path: Path | Url
    problems: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


class _TooManyProblemsError(Exception):
    """Ends a check early."""


class Check:
    """One run of `verify`: the checks shared by directories and URLs.

    Args:
        directory: The record set's files.
        progress: Shows the work.
        max_problems: Stop after this many problems; None: find all.

    Attributes:
        report: The results so far.
    """

    def __init__(self, directory: AnyDirectory, progress: Progress, max_problems: int | None) -> None:
        self.directory, self.progress = directory, progress
        self._max_problems, self._damaged_files = max_problems, set[str]()
        self.report = Report(directory.path, checked={"files": 0, "bytes": 0, "records": 0})
        self.manifest: Manifest
        self.names: Names | None = None
        self.indices: dict[str, NDArray[np.void]] = {}

    def run(self, full: bool) -> None:
        """Check the whole record set."""
        try:
            data = self._read_manifest()
            self.manifest = parse_manifest(data, str(self.directory.path / MANIFEST_NAME))
        except FormatVersionError:
            raise
        except RecordError as err:
            self.report.problems.append(str(err))
            self.damage(MANIFEST_NAME)
            return
        try:
            self._check_files(data, full)
        except _TooManyProblemsError:
            self.report = dataclasses.replace(self.report, stopped=True)
        self.progress.end()

    def _check_files(self, data: bytes, full: bool) -> None:
        """Check all files that the manifest names; `data` is the manifest's bytes."""
        self.count(1, len(data))
        shards = self.manifest.shards
        total = sum(spec.size_bytes for spec in self.manifest.arrays.values())
        total += sum(spec.size_bytes for spec in shards) if full else 0
        self.progress.begin(f"verifying {self.directory.path.name}", total)
        self._note_others()
        arrays = {name: self._array(name, spec) for name, spec in self.manifest.arrays.items()}
        self._check_names(arrays)
        self._check_splits(arrays)
        for name in self.manifest.blobs:
            index = arrays[f"{name}.index"]
            if index is not None:
                self.indices[name] = index
                self._check_index(name, index)
        whole = [number for number, spec in enumerate(shards) if self._head(spec)]
        if full:
            self.check_shards(whole, data)

    def listed(self) -> set[str]:
        """Return the names of the existing files, as far as they can be listed."""
        raise NotImplementedError

    def read_head(self, spec: ShardSpec) -> bytes:
        """Return the first two pages of a shard, whose size must be right.

        Raises:
            OSError: It cannot be read, or has another size.
        """
        raise NotImplementedError

    def check_shards(self, numbers: Sequence[int], manifest: bytes) -> None:
        """Read shards and report their problems.

        Args:
            numbers: The readable shards.
            manifest: The manifest's bytes.
        """
        raise NotImplementedError

    def count(self, files: int, num_bytes: int, records: int = 0) -> None:
        """Add to the numbers of checked files, bytes and records."""
        self.report.checked["files"] += files
        self.report.checked["bytes"] += num_bytes
        self.report.checked["records"] += records

    def damage(self, name: str) -> None:
        """Report a file as damaged."""
        if name not in self._damaged_files:
            self._damaged_files.add(name)
            self.report.damaged.append(name)

    def problem(self, where: str, what: str) -> None:
        """Report a problem of a file."""
        self._report(where, f"{where}: {what}.")

    def _report(self, where: str, text: str) -> None:
        self.damage(where)
        self.report.problems.append(text)
        if len(self.report.problems) == self._max_problems:
            raise _TooManyProblemsError

    def error(self, where: str, err: OSError | MemoryError) -> None:
        """Report that a file cannot be read."""
        if isinstance(err, RecordError):
            self._report(where, str(err))  # the error names the file
        else:
            self.problem(where, f"it cannot be read ({getattr(err, 'strerror', None) or type(err).__name__})")

    def _note_others(self) -> None:
        """Note files that the manifest does not name, and damaged marks."""
        there, marks = self.listed(), {marks_name(name): name for name in self.manifest.blobs}
        own = {MANIFEST_NAME, *map(file_name, self.manifest.arrays), *(shard.name for shard in self.manifest.shards)}
        others = sorted(there - own - marks.keys())
        self.report.notes.extend(f"{name} is not named in the manifest; nothing reads it as data." for name in others)
        for file, name in marks.items():
            if file in there and read_marks(self.directory, name, self.manifest.arrays[f"{name}.index"]) is None:
                self.report.notes.append(f"{file} is damaged, or of another record set; it is not used.")
                self.damage(file)

    def _read_manifest(self) -> bytes:
        fd = self.directory.open(MANIFEST_NAME)
        try:
            return pread(fd, MAX_MANIFEST_BYTES + 1, 0)
        except OSError as err:
            raise CorruptRecordError(f"{self.directory.path / MANIFEST_NAME} cannot be read: {err.strerror}.") from err
        finally:
            os.close(fd)

    def _array(self, name: str, spec: ArraySpec) -> AnyArray | None:
        """Compare an array's hash; return a good array if further checks need it."""
        try:
            fd = self.directory.open(file_name(name), spec.size_bytes)
            try:
                found = self.hash(fd, spec.size_bytes)
                data_start(fd, name, spec, self.directory.path / file_name(name))
            finally:
                os.close(fd)
            if found != (spec.hash, spec.crc32):
                self.problem(file_name(name), "its hash is not the one in the manifest; it was damaged")
                return None
            self.count(1, spec.size_bytes)
            # Not an array of the format: no further checks.
            wanted = "." in name or "-" in name or name in ("names", "names_offsets")
            return load_array(self.directory, name, spec) if wanted else None
        except (OSError, MemoryError) as err:  # includes RecordError
            self.error(file_name(name), err)
            return None

    def hash(self, fd: int, num_bytes: int) -> tuple[str, int]:
        """Return the SHA-256 and CRC-32 of a file."""
        state, crc = hashlib.sha256(), 0
        for offset in range(0, num_bytes, _CHUNK_BYTES):
            data = pread(fd, min(_CHUNK_BYTES, num_bytes - offset), offset)
            state.update(data)
            crc = crc32(data, crc)
            self.progress.advance(len(data))
        return hash_text(state), crc

    def _check_names(self, arrays: dict[str, AnyArray | None]) -> None:
        data, offsets = arrays["names"], arrays["names_offsets"]
        if data is None or offsets is None:
            return
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(data) or bool((offsets[1:] < offsets[:-1]).any()):
            self.problem(file_name("names_offsets"), "the names' offsets do not ascend from 0 to the end of the names")
            return
        self.names = Names(data, offsets)
        starts = offsets[:-1][offsets[:-1] < len(data)]
        # First all at once: a million names are decoded in a second.
        if b".." in data.tobytes() or bool(np.isin(data[starts], list(b"/")).any()) or os.sep != "/":
            found = itertools.islice(filter(leads_out, self.names), _MAX_NAMES_NOTED)
            self.report.notes.extend(
                f"The name {name!r} leads out of the records' folder; it is no path." for name in found
            )

    def _check_splits(self, arrays: dict[str, AnyArray | None]) -> None:
        for name in self.manifest.splits:
            positions = arrays[f"split-{name}"]
            if positions is not None and len(positions):
                low, high = int(positions.min()), int(positions.max())
                if low < 0 or high >= self.manifest.num_records:
                    self.problem(
                        file_name(f"split-{name}"), f"it points outside the {self.manifest.num_records} records"
                    )

    def _check_index(self, name: str, index: NDArray[np.void]) -> None:
        """Report index rows that point outside their shard."""
        shards = self.manifest.shards
        present = np.flatnonzero(index["shard"] != NO_SHARD)
        rows = index[present]
        known = rows["shard"] < len(shards)
        number = np.where(known, rows["shard"], 0)
        sizes = np.array([shard.size_bytes for shard in shards] or [0], np.uint64)[number]
        counts = np.array([shard.num_values for shard in shards] or [0], np.uint64)[number]
        inside = (rows["length"] <= sizes) & (rows["offset"] <= sizes - np.minimum(sizes, rows["length"]))
        good = known & inside & (rows["slot"] < counts)
        self.name_records(name, present[~good].tolist(), file_name(f"{name}.index"), "its row points outside its shard")

    def name_records(self, name: str, positions: list[int], where: str, what: str) -> None:
        """Report damaged records by name."""
        for position in positions[:_MAX_RECORDS_NAMED]:
            shown = "" if self.names is None else f" ({self.names[position]})"
            self.problem(where, f"{name} {position}{shown} is damaged: {what}")
        if len(positions) > _MAX_RECORDS_NAMED:
            self.problem(where, f"{len(positions) - _MAX_RECORDS_NAMED:,} more of {name} are damaged: {what}")

    def _head(self, spec: ShardSpec) -> bool:
        """Compare a shard's size and LMDB header with the manifest; return whether the file is readable."""
        try:
            head = self.read_head(spec)
        except OSError as err:
            self.error(spec.name, err)
            return False
        self.count(1, 0)
        try:
            meta = read_meta(head, spec.name)
        except CorruptRecordError as err:
            self.error(spec.name, err)
            return True
        for what, found, expected in (
            ("page size", meta.page_size, spec.page_size),
            ("last page", meta.last_page, spec.last_page),
            ("number of values", meta.entries, spec.num_values),
        ):
            if found != expected:
                self.problem(spec.name, f"LMDB's head says {what} {found:,}, the manifest {expected:,}")
        return True
