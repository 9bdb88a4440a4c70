"""`verify`: check a record set in a directory or at a URL, and report all that is wrong with it."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import hash_text
from recordzoo.base.progress import LogProgress, Progress
from recordzoo.errors import CorruptRecordError, FormatVersionError, ManifestError, RecordError, RemoteError
from recordzoo.net.url import Url, is_url
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
from recordzoo.records.files import Directory, pread, read_start
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NO_SHARD,
    ArraySpec,
    Manifest,
    ShardSpec,
    parse_manifest,
)
from recordzoo.records.shard import crc32, read_meta, walk

if TYPE_CHECKING:
    from recordzoo.records.remote import Streamed  # its imports are slow

MAX_PROBLEMS = 1000
"""Default number of problems after which a check stops."""

_MAX_RECORDS_NAMED = 100  # per shard and field; further ones are only counted
_MAX_NAMES_NOTED = 10
_MOST_TIMES = 5  # checks of one record set that is replaced each time
_CHUNK_BYTES = 4 << 20
_DAMAGE = (404, 416)  # statuses of a missing or too short file; all others say nothing about the record set


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


def verify(
    path: str | os.PathLike[str],
    *,
    full: bool = False,
    progress: Progress | None = None,
    max_problems: int | None = MAX_PROBLEMS,
) -> Report:
    """Check a record set.

    Always checked: the manifest; that each of its files is a regular file of the right size; the hash of each array;
    that indices, splits and names fit; the head of each shard. `full` reads everything: the hash of each shard, the
    CRC-32 of each record, and each shard's tree, in which LMDB looks for the records.

    Damage, also of the manifest, is reported, not raised. A set that is replaced meanwhile is checked again.

    Args:
        path: The record set's directory, or its URL: then the cache is not used, and shards are only compared with
            their hashes in the manifest.
        full: Whether to read the shards.
        progress: Shows the work. Default: log lines.
        max_problems: Stop after this many problems (`Report.stopped`); None: find all.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        FormatVersionError: It has a later format.
        RemoteError: The server of a URL cannot be reached, or refuses access.
        RecordError: The record set may not be opened, or is replaced again and again.
    """
    progress = progress or LogProgress()
    if is_url(path):
        from recordzoo.records.remote import Streamed

        return _Check(Streamed(Url.parse(path)), progress, max_problems).run(full)
    place = Path(path).expanduser().absolute()
    for _ in range(_MOST_TIMES):
        try:
            directory = Directory(place)
        except PermissionError as err:
            raise RecordError(f"{place} cannot be opened: {err.strerror}.", path=str(place)) from err
        except OSError as err:
            raise ManifestError(f"{place} is not a record set: {err.strerror}.", path=str(place)) from err
        if not os.path.lexists(place / MANIFEST_NAME):
            raise ManifestError(f"{place} is not a record set: it has no {MANIFEST_NAME}.", path=str(place))
        report = _Check(directory, progress, max_problems).run(full)
        if report.ok or not directory.is_replaced:
            return report
    raise RecordError(
        f"{place} was replaced {_MOST_TIMES} times while it was verified. Verify it again.", path=str(place)
    )


class _TooManyProblemsError(Exception):
    """Ends a check early."""


class _Check:
    """One run of `verify`."""

    def __init__(self, directory: "Directory | Streamed", progress: Progress, max_problems: int | None) -> None:
        self._directory, self._progress, self._max_problems = directory, progress, max_problems
        self._report = Report(directory.path, checked={"files": 0, "bytes": 0, "records": 0})
        self._manifest: Manifest
        self._names: Names | None = None
        self._indices: dict[str, NDArray[np.void]] = {}  # of blob fields; only undamaged ones

    def run(self, full: bool) -> Report:
        """Check the whole record set."""
        path = self._directory.path / MANIFEST_NAME
        try:
            data = read_start(self._directory.open, MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
            self._manifest = parse_manifest(data, str(path))
        except FormatVersionError:
            raise
        except OSError as err:
            is_told = isinstance(err, RecordError)
            self._report.problems.append(str(err) if is_told else f"{path} cannot be read: {err.strerror}.")
            self._damage(MANIFEST_NAME)
            return self._report
        self._count(1, len(data))
        try:
            self._check_files(full)
        except _TooManyProblemsError:
            self._report = dataclasses.replace(self._report, stopped=True)
        self._progress.end()
        return self._report

    def _check_files(self, full: bool) -> None:
        """Check all files that the manifest names."""
        shards = self._manifest.shards
        total = sum(spec.size_bytes for spec in self._manifest.arrays.values())
        total += sum(spec.size_bytes for spec in shards) if full else 0
        self._progress.begin(f"verifying {self._directory.path.name}", total)
        self._note_others()
        arrays = {name: self._array(name, spec) for name, spec in self._manifest.arrays.items()}
        self._check_names(arrays)
        self._check_splits(arrays)
        for name in self._manifest.blobs:
            index = arrays[f"{name}.index"]
            if index is not None:
                self._indices[name] = index
                self._check_index(name, index)
        readable = [number for number, spec in enumerate(shards) if self._check_head(spec)]
        if full:
            with ThreadPoolExecutor(1) as pool:
                for number in readable:
                    self._check_shard(number, shards[number], pool)

    # What was found.

    def _count(self, files: int, num_bytes: int, records: int = 0) -> None:
        """Add to the numbers of checked files, bytes and records."""
        self._report.checked["files"] += files
        self._report.checked["bytes"] += num_bytes
        self._report.checked["records"] += records

    def _damage(self, name: str) -> None:
        """Report a file as damaged."""
        if name not in self._report.damaged:
            self._report.damaged.append(name)

    def _problem(self, where: str, what: str) -> None:
        """Report a problem of a file."""
        self._say(where, f"{where}: {what}.")

    def _say(self, where: str, text: str) -> None:
        self._damage(where)
        self._report.problems.append(text)
        if len(self._report.problems) == self._max_problems:
            raise _TooManyProblemsError

    def _error(self, where: str, err: OSError | MemoryError) -> None:
        """Report a file that cannot be read; raise an error of the server that says nothing about the file."""
        if isinstance(err, RemoteError) and err.status not in _DAMAGE:
            raise err
        if isinstance(err, RecordError):
            self._say(where, str(err))  # the error names the file
        else:
            self._problem(where, f"it cannot be read ({getattr(err, 'strerror', None) or type(err).__name__})")

    def _name_records(self, name: str, positions: Sequence[int], where: str, what: str) -> None:
        """Report damaged records by name."""
        for position in positions[:_MAX_RECORDS_NAMED]:
            shown = "" if self._names is None else f" ({self._names[position]})"
            self._problem(where, f"{name} {position}{shown} is damaged: {what}")
        if len(positions) > _MAX_RECORDS_NAMED:
            self._problem(where, f"{len(positions) - _MAX_RECORDS_NAMED:,} more of {name} are damaged: {what}")

    # The checks.

    def _note_others(self) -> None:
        """Note files that the manifest does not name, and damaged marks."""
        there, marks = self._directory.listed(), {marks_name(name): name for name in self._manifest.blobs}
        shards = {shard.name for shard in self._manifest.shards}
        others = sorted(there - {MANIFEST_NAME} - shards - set(map(file_name, self._manifest.arrays)) - marks.keys())
        self._report.notes.extend(f"{name} is not named in the manifest; nothing reads it as data." for name in others)
        for file, name in marks.items():
            if file in there and read_marks(self._directory.open, name, self._manifest.arrays[f"{name}.index"]) is None:
                self._report.notes.append(f"{file} is damaged, or of another record set; it is not used.")
                self._damage(file)

    def _array(self, name: str, spec: ArraySpec) -> AnyArray | None:
        """Compare an array's hash; return a good array if further checks need it."""
        file, where = file_name(name), self._directory.path / file_name(name)
        try:
            fd = self._directory.open(file, spec.size_bytes)
            try:
                found = self._hash(fd, spec.size_bytes)
                data_start(fd, name, spec, where)
                if found != (spec.hash, spec.crc32):
                    self._problem(file, "its hash is not the one in the manifest; it was damaged")
                    return None
                self._count(1, spec.size_bytes)
                # Other arrays are none of the format: no further checks.
                is_wanted = "." in name or "-" in name or name in ("names", "names_offsets")
                return load_array(fd, name, spec, where) if is_wanted else None
            finally:
                os.close(fd)
        except (OSError, MemoryError) as err:  # includes RecordError
            self._error(file, err)
            return None

    def _hash(self, fd: int, num_bytes: int) -> tuple[str, int]:
        """Return the SHA-256 and CRC-32 of a file."""
        state, crc = hashlib.sha256(), 0
        for offset in range(0, num_bytes, _CHUNK_BYTES):
            data = pread(fd, min(_CHUNK_BYTES, num_bytes - offset), offset)
            state.update(data)
            crc = crc32(data, crc)
            self._progress.advance(len(data))
        return hash_text(state), crc

    def _check_names(self, arrays: dict[str, AnyArray | None]) -> None:
        data, offsets = arrays["names"], arrays["names_offsets"]
        if data is None or offsets is None:
            return
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(data) or bool((offsets[1:] < offsets[:-1]).any()):
            self._problem(file_name("names_offsets"), "the names' offsets do not ascend from 0 to the end of the names")
            return
        self._names = Names(data, offsets)
        starts = offsets[:-1][offsets[:-1] < len(data)]
        # First all at once: a million names are decoded in a second.
        if b".." in data.tobytes() or bool(np.isin(data[starts], list(b"/")).any()) or os.sep != "/":
            found = itertools.islice(filter(leads_out, self._names), _MAX_NAMES_NOTED)
            self._report.notes.extend(
                f"The name {name!r} leads out of the records' folder; it is no path." for name in found
            )

    def _check_splits(self, arrays: dict[str, AnyArray | None]) -> None:
        num_records = self._manifest.num_records
        for name in self._manifest.splits:
            positions = arrays[f"split-{name}"]
            if positions is not None and len(positions) and not 0 <= positions.min() <= positions.max() < num_records:
                self._problem(file_name(f"split-{name}"), f"it points outside the {num_records} records")

    def _check_index(self, name: str, index: NDArray[np.void]) -> None:
        """Report index rows that point outside their shard."""
        shards = self._manifest.shards
        present = np.flatnonzero(index["shard"] != NO_SHARD)
        rows = index[present]
        known = rows["shard"] < len(shards)
        number = np.where(known, rows["shard"], 0)
        sizes = np.array([shard.size_bytes for shard in shards] or [0], np.uint64)[number]
        counts = np.array([shard.num_values for shard in shards] or [0], np.uint64)[number]
        inside = (rows["length"] <= sizes) & (rows["offset"] <= sizes - np.minimum(sizes, rows["length"]))
        good = known & inside & (rows["slot"] < counts)
        what = "its row points outside its shard"
        self._name_records(name, present[~good].tolist(), file_name(f"{name}.index"), what)

    def _check_head(self, spec: ShardSpec) -> bool:
        """Compare a shard's size and LMDB header with the manifest; return whether the file is readable."""
        try:
            head = self._directory.head(spec.name, min(2 * spec.page_size, spec.size_bytes), spec.size_bytes)
        except OSError as err:
            self._error(spec.name, err)
            return False
        self._count(1, 0)
        try:
            meta = read_meta(head, spec.name)
        except CorruptRecordError as err:
            self._error(spec.name, err)
            return True
        for what, found, expected in (
            ("page size", meta.page_size, spec.page_size),
            ("last page", meta.last_page, spec.last_page),
            ("number of values", meta.entries, spec.num_values),
        ):
            if found != expected:
                self._problem(spec.name, f"LMDB's head says {what} {found:,}, the manifest {expected:,}")
        return True

    def _check_shard(self, number: int, spec: ShardSpec, pool: ThreadPoolExecutor) -> None:
        """Compare a shard's hash; on this machine also its records, in a thread, and its tree."""
        if not isinstance(self._directory, Directory):
            self._check_stream(number, spec, self._directory)
            return
        try:
            fd = self._directory.open(spec.name, spec.size_bytes)
        except OSError as err:
            self._error(spec.name, err)
            return
        try:
            records = pool.submit(lambda: [self._damaged(fd, number, name) for name in self._indices])
            try:
                if self._hash(fd, spec.size_bytes)[0] != spec.hash:
                    self._problem(spec.name, "its hash is not the one in the manifest; it was damaged")
                self._count(0, spec.size_bytes)
            except OSError as err:
                self._error(spec.name, err)
            finally:
                found = records.result()
            for name, (checked, positions) in zip(self._indices, found, strict=True):
                self._count(0, 0, checked)
                self._name_records(name, positions, spec.name, "its bytes have another CRC-32")
                self._progress.advance(0, checked)
            self._check_tree(fd, number, spec)
        finally:
            os.close(fd)

    def _damaged(self, fd: int, shard: int, name: str) -> tuple[int, list[int]]:
        """Return the number of a blob field's records in a shard, and the positions of the damaged ones."""
        index, size_bytes = self._indices[name], self._manifest.shards[shard].size_bytes
        positions = np.flatnonzero(index["shard"] == shard)
        positions = positions[np.argsort(index["offset"][positions], kind="stable")]
        bad = []
        for position, (_, _, length, crc, offset) in zip(positions.tolist(), index[positions].tolist(), strict=True):
            if offset + length > size_bytes:
                continue  # reported with the index
            try:
                data = pread(fd, length, offset)
            except (OSError, MemoryError):
                data = b""
            if len(data) != length or crc32(data) != crc:
                bad.append(position)
        return len(positions), sorted(bad)

    def _check_tree(self, fd: int, number: int, spec: ShardSpec) -> None:
        """Compare the place of each value in LMDB's tree with the index: other tools read the set through the tree."""
        try:
            values = walk(lambda begin, end: pread(fd, end - begin, begin), spec.size_bytes, spec.name)[1]
        except OSError as err:  # includes RecordError
            self._error(spec.name, err)
            return
        count = len(values.slots)
        if count != spec.num_values or not np.array_equal(values.slots, np.arange(count, dtype=np.uint32)):
            self._problem(spec.name, f"LMDB's tree has other keys than 0 to {spec.num_values - 1:,}")
            return
        for name, index in self._indices.items():
            rows = index[(index["shard"] == number) & (index["slot"] < spec.num_values)]  # others: see `_check_index`
            lengths, offsets = values.lengths[rows["slot"]], values.offsets[rows["slot"]]
            wrong = (lengths != rows["length"]) | ((offsets != rows["offset"]) & (lengths > 0))
            if wrong.any():
                count = int(np.count_nonzero(wrong))
                self._problem(spec.name, f"LMDB's tree has {count:,} of {name} in other places than the index")

    def _check_stream(self, number: int, spec: ShardSpec, there: "Streamed") -> None:
        """Compare a shard's hash at a URL."""
        state = hashlib.sha256()
        try:
            for data in there.store.pieces(spec.name, spec.size_bytes):
                state.update(data)
                self._progress.advance(len(data))
        except RecordError as err:
            self._error(spec.name, err)
            return
        self._count(0, spec.size_bytes)
        if hash_text(state) != spec.hash:
            self._problem(spec.name, "its hash is not the one in the manifest; it was damaged or replaced")
            return
        values = sum(int(np.count_nonzero(index["shard"] == number)) for index in self._indices.values())
        self._count(0, 0, values)  # the shard's hash proves their bytes
