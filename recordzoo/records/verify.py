"""Is this record set whole? `verify` reports what is wrong with it; nothing in it can harm the process that asks."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import CorruptRecordError, FormatVersionError, ManifestError, RecordError
from recordzoo.progress import LogProgress, Progress
from recordzoo.records.arrays import Names, data_start, file_name, leads_out, load_array
from recordzoo.records.crc import crc32
from recordzoo.records.files import Directory, pread
from recordzoo.records.layout import read_meta
from recordzoo.records.lmdb_walk import LmdbWalk
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NO_SHARD,
    ArraySpec,
    Manifest,
    ShardSpec,
    manifest_digest,
    parse_manifest,
)
from recordzoo.records.marks import marks_name, read_marks

_CHUNK_BYTES = 4 << 20
_MAX_RECORDS_NAMED = 100  # of one shard and field; the rest are counted

_MAX_NAMES_NOTED = 10


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    Attributes:
        path: The record set.
        problems: What is wrong, one sentence each, with shard, position and name where there are such.
        checked: How many "files", "bytes" and "records" were looked at; records only by a full check.
        notes: What is worth knowing but not wrong: files that the manifest does not name, names that lead elsewhere.
        damaged: The files that are damaged or missing; with a file of marks that notes speak of, which can be lost.
    """

    path: Path
    problems: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(path: str | os.PathLike[str], *, full: bool = False, progress: Progress | None = None) -> Report:
    """Check a record set.

    Always: the manifest; that each file it names is there, a regular file of the right size; the hash of each array;
    that indices, splits and names fit; the head of each shard. `full` reads everything: the hash of each shard, the
    CRC-32 of each record, and each shard's tree through LMDB, in a child process.

    A damaged set is reported, not raised, a damaged manifest too.

    Args:
        path: The record set's directory.
        full: Whether to read the shards.
        progress: Told how far it is; logs by default.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        FormatVersionError: It was written in a later format.
    """
    place = Path(path).absolute()
    try:
        directory = Directory(place)
    except OSError as err:
        raise ManifestError(f"{place} is not a record set: {err.strerror}.", path=str(place)) from err
    if not os.path.lexists(place / MANIFEST_NAME):
        raise ManifestError(f"{place} is not a record set: it has no {MANIFEST_NAME}.", path=str(place))
    check = _Check(directory, progress or LogProgress())
    check.run(full)
    return check.report


class _Check:
    """One run of `verify`."""

    def __init__(self, directory: Directory, progress: Progress) -> None:
        self.directory, self.progress = directory, progress
        self.report = Report(directory.path, checked={"files": 0, "bytes": 0, "records": 0})
        self.manifest: Manifest
        self.names: Names | None = None
        self.indices: dict[str, NDArray[np.void]] = {}

    def run(self, full: bool) -> None:
        """Check all that can be checked."""
        try:
            data = self._read_manifest()
            self.manifest = parse_manifest(data, os.fspath(self.directory.path / MANIFEST_NAME))
        except FormatVersionError:
            raise
        except RecordError as err:
            self.report.problems.append(str(err))
            self._damage(MANIFEST_NAME)
            return
        self._count(1, len(data))
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
        whole = [self._head(spec) for spec in shards]
        if full:
            with LmdbWalk(self.directory.path, manifest_digest(data)) as walk, ThreadPoolExecutor(1) as pool:
                for number, spec in enumerate(shards):
                    if whole[number]:
                        self._shard(number, spec, walk, pool)
        self.progress.end()

    def _count(self, files: int, num_bytes: int, records: int = 0) -> None:
        self.report.checked["files"] += files
        self.report.checked["bytes"] += num_bytes
        self.report.checked["records"] += records

    def _damage(self, name: str) -> None:
        if name not in self.report.damaged:
            self.report.damaged.append(name)

    def _problem(self, where: str, what: str) -> None:
        self.report.problems.append(f"{where}: {what}.")
        self._damage(where)

    def _error(self, where: str, err: OSError | MemoryError) -> None:
        self._damage(where)
        if isinstance(err, RecordError):
            self.report.problems.append(str(err))  # it names the file
        else:
            self._problem(where, f"it cannot be read ({getattr(err, 'strerror', None) or type(err).__name__})")

    def _read_manifest(self) -> bytes:
        fd = self.directory.open(MANIFEST_NAME)
        try:
            return pread(fd, MAX_MANIFEST_BYTES + 1, 0)
        except OSError as err:
            raise CorruptRecordError(f"{self.directory.path / MANIFEST_NAME} cannot be read: {err.strerror}.") from err
        finally:
            os.close(fd)

    def _note_others(self) -> None:
        own = {MANIFEST_NAME, *map(file_name, self.manifest.arrays), *(shard.name for shard in self.manifest.shards)}
        own |= set(map(marks_name, self.manifest.blobs))
        others = sorted(set(os.listdir(self.directory.path)) - own)
        self.report.notes.extend(f"{name} is not named in the manifest; nothing reads it as data." for name in others)
        for name in self.manifest.blobs:
            index = self.manifest.arrays[f"{name}.index"]
            is_there = os.path.lexists(self.directory.path / marks_name(name))
            if is_there and read_marks(self.directory, name, index) is None:
                self.report.notes.append(f"{marks_name(name)} is damaged, or of another record set; it is not used.")
                self._damage(marks_name(name))

    # Any: arrays of any dtype of the format.
    def _array(self, name: str, spec: ArraySpec) -> NDArray[Any] | None:
        """Compare an array's hash; return it if it is needed for more and good."""
        try:
            fd = self.directory.open(file_name(name), spec.size_bytes)
            try:
                found = self._hash(fd, spec.size_bytes)
                data_start(fd, name, spec, self.directory.path / file_name(name))
            finally:
                os.close(fd)
            if found != (spec.blake2b, spec.crc32):
                self._problem(file_name(name), "its hash is not the one in the manifest; it was damaged")
                return None
            self._count(1, spec.size_bytes)
            # Not the format's own arrays: nothing more is known of them.
            wanted = "." in name or "-" in name or name in ("names", "names_offsets")
            return load_array(self.directory, name, spec) if wanted else None
        except (OSError, MemoryError) as err:  # RecordErrors among them
            self._error(file_name(name), err)
            return None

    def _hash(self, fd: int, num_bytes: int) -> tuple[str, int]:
        """Return BLAKE2b-256 and CRC-32 of a file."""
        state, crc = hashlib.blake2b(digest_size=32), 0
        for offset in range(0, num_bytes, _CHUNK_BYTES):
            data = pread(fd, min(_CHUNK_BYTES, num_bytes - offset), offset)
            state.update(data)
            crc = crc32(data, crc)
            self.progress.advance(len(data))
        return state.hexdigest(), crc

    # Any: as above.
    def _check_names(self, arrays: dict[str, NDArray[Any] | None]) -> None:
        data, offsets = arrays["names"], arrays["names_offsets"]
        if data is None or offsets is None:
            return
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(data) or bool((offsets[1:] < offsets[:-1]).any()):
            self._problem(file_name("names_offsets"), "the names' offsets do not ascend from 0 to the end of the names")
            return
        self.names = Names(data, offsets)
        starts = offsets[:-1][offsets[:-1] < len(data)]
        # Looked at all at once first: a million names are decoded in a second.
        if b".." in data.tobytes() or bool(np.isin(data[starts], list(b"/")).any()) or os.sep != "/":
            found = itertools.islice(filter(leads_out, self.names), _MAX_NAMES_NOTED)
            self.report.notes.extend(
                f"The name {name!r} leads out of the records' folder; it is no path." for name in found
            )

    # Any: as above.
    def _check_splits(self, arrays: dict[str, NDArray[Any] | None]) -> None:
        for name in self.manifest.splits:
            positions = arrays[f"split-{name}"]
            if positions is not None and len(positions):
                low, high = int(positions.min()), int(positions.max())
                if low < 0 or high >= self.manifest.num_records:
                    self._problem(
                        file_name(f"split-{name}"), f"it points outside the {self.manifest.num_records} records"
                    )

    def _check_index(self, name: str, index: NDArray[np.void]) -> None:
        """Report rows that point outside their shard."""
        shards = self.manifest.shards
        present = np.flatnonzero(index["shard"] != NO_SHARD)
        rows = index[present]
        known = rows["shard"] < len(shards)
        number = np.where(known, rows["shard"], 0)
        sizes = np.array([shard.size_bytes for shard in shards] or [0], np.uint64)[number]
        counts = np.array([shard.num_values for shard in shards] or [0], np.uint64)[number]
        inside = (rows["length"] <= sizes) & (rows["offset"] <= sizes - np.minimum(sizes, rows["length"]))
        good = known & inside & (rows["slot"] < counts)
        self._name_records(
            name, present[~good].tolist(), file_name(f"{name}.index"), "its row points outside its shard"
        )

    def _head(self, spec: ShardSpec) -> bool:
        """Compare a shard's size and LMDB's head with the manifest; return whether the file can be read at all."""
        try:
            fd = self.directory.open(spec.name, spec.size_bytes)
            try:
                head = pread(fd, 2 * spec.page_size, 0)
            finally:
                os.close(fd)
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

    def _shard(self, number: int, spec: ShardSpec, walk: LmdbWalk, pool: ThreadPoolExecutor) -> None:
        """Read a shard in three ways at once: LMDB in the child, the records in a thread, the whole file here."""
        try:
            fd = self.directory.open(spec.name, spec.size_bytes)
        except OSError as err:
            self._error(spec.name, err)
            return
        try:
            records = pool.submit(lambda: list(self._damaged(fd, number)))
            try:
                if self._hash(fd, spec.size_bytes)[0] != spec.blake2b:
                    self._problem(spec.name, "its hash is not the one in the manifest; it was damaged")
                self._count(0, spec.size_bytes)
            except OSError as err:
                self._error(spec.name, err)
            finally:
                found = records.result()
        finally:
            os.close(fd)
        for name, checked, positions in found:
            self._count(0, 0, checked)
            self._name_records(name, positions, spec.name, "its bytes have another CRC-32")
            self.progress.advance(0, checked)
        for problem in walk.ask(number, spec.size_bytes):
            self._problem(spec.name, problem)

    def _damaged(self, fd: int, shard: int) -> Iterator[tuple[str, int, list[int]]]:
        """Yield for each blob field its name, how many records of it the shard has, and the damaged ones' positions."""
        size_bytes = self.manifest.shards[shard].size_bytes
        for name, index in self.indices.items():
            positions = np.flatnonzero(index["shard"] == shard)
            positions = positions[np.argsort(index["offset"][positions], kind="stable")]
            bad = []
            for position, (_, _, length, crc, offset) in zip(
                positions.tolist(), index[positions].tolist(), strict=True
            ):
                if offset + length > size_bytes:
                    continue  # reported with the index
                try:
                    data = pread(fd, length, offset)
                except (OSError, MemoryError):
                    data = b""
                if len(data) != length or crc32(data) != crc:
                    bad.append(position)
            yield name, len(positions), sorted(bad)

    def _name_records(self, name: str, positions: list[int], where: str, what: str) -> None:
        for position in positions[:_MAX_RECORDS_NAMED]:
            shown = "" if self.names is None else f" ({self.names[position]})"
            self._problem(where, f"{name} {position}{shown} is damaged: {what}")
        if len(positions) > _MAX_RECORDS_NAMED:
            self._problem(where, f"{len(positions) - _MAX_RECORDS_NAMED:,} more of {name} are damaged: {what}")
