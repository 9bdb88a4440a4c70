"""Position → bytes, or values: `RecordReader`, the only way in which datasets see a record set."""

import itertools
import operator
import os
import struct
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import CorruptRecordError, RecordError
from recordzoo.meant import did_you_mean
from recordzoo.program import command
from recordzoo.records.arrays import Names, file_name, map_array
from recordzoo.records.crc import crc32
from recordzoo.records.files import Directory, pread, shard_files
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NO_SHARD,
    Manifest,
    manifest_digest,
    parse_manifest,
)
from recordzoo.records.marks import read_marks
from recordzoo.records.values import decode_value
from recordzoo.system.files import DONT_NEED, WILL_NEED, advise

_ROW = struct.Struct("<IIIIQ")  # INDEX_DTYPE; reads a row in a quarter of the time that NumPy takes
_NAMES_NAME = file_name("names_offsets")  # of the array that every record set has, also one without records
_tokens = itertools.count()


def is_record_set(path: Path) -> bool:
    """Whether a directory is a (published) record set: it has a manifest and names.

    The manifest alone says little: users and other programs have a ``manifest.json`` too.
    """
    return (path / MANIFEST_NAME).is_file() and (path / _NAMES_NAME).is_file()


class RecordReader:
    """Reads a record set. Threads and forked processes may share one; it pickles to its path and digest.

    Opening reads the manifest and nothing else; arrays are mapped when they are first used. It is a sequence of
    records: ``reader[position]`` is a dict with "name" and all fields of a position.

    Examples:
        >>> reader = recordzoo.RecordReader("my.records")
        >>> for record in reader:
        ...     print(record["name"], record["target"], len(record["image"]))

    Args:
        path: The record set's directory.
        digest: Refuse any other record set than this one (`RecordReader.digest`).

    Raises:
        ManifestError: It is not a record set, or a damaged one.
        FormatVersionError: It was written in a later format.
        RecordError: It is another record set than the one that `digest` names.
    """

    def __init__(self, path: str | os.PathLike[str], *, digest: str | None = None) -> None:
        self.path = Path(path).absolute()
        try:
            self._directory = Directory(self.path)
        except OSError as err:
            raise RecordError(f"{self.path} cannot be opened: {err.strerror}.", path=str(self.path)) from err
        data = self._manifest_bytes()
        self.digest = manifest_digest(data)
        if digest is not None and digest != self.digest:
            raise RecordError(
                f"{self.path} was replaced by another record set since it was opened. Open the dataset again.",
                path=str(self.path),
            )
        self.manifest: Manifest = parse_manifest(data, os.fspath(self.path / MANIFEST_NAME))
        self._arrays: dict[str, NDArray[Any]] = {}  # Any: arrays of any dtype of the format
        self._rows: dict[str, memoryview] = {}  # the indices' rows by field
        self._marks: dict[str, bytearray] = {}
        self._names: Names | None = None
        self._token = next(_tokens)
        weakref.finalize(self, shard_files.drop, self._token)

    def _manifest_bytes(self) -> bytes:
        fd = self._directory.open(MANIFEST_NAME)
        try:
            return pread(fd, MAX_MANIFEST_BYTES + 1, 0)
        finally:
            os.close(fd)

    def extra(self, name: str, max_bytes: int = MAX_MANIFEST_BYTES) -> bytes | None:
        """Return a file beside the set that the manifest does not name; None if there is none that can be read.

        It may be anything, so it may neither be a link nor a FIFO that waits for ever, nor be larger than `max_bytes`.
        """
        try:
            fd = self._directory.open(name)
            try:
                data = pread(fd, max_bytes + 1, 0)
            finally:
                os.close(fd)
        except OSError:  # RecordErrors among them
            return None
        return data if len(data) <= max_bytes else None

    def open_extra(self, name: str) -> int:
        """Open a regular file beside the set that the manifest does not name; the caller closes the descriptor.

        Raises:
            RecordError: There is none that can be read.
        """
        return self._directory.open(name)

    def __len__(self) -> int:
        return self.manifest.num_records

    # Any: values of all kinds.
    def __getitem__(self, position: SupportsIndex) -> dict[str, Any]:
        """Return a record: its name and the value of each field that it has, as `value` gives them.

        Raises:
            IndexError: There is no such position.
            CorruptRecordError: What is stored is not what was written.
        """
        number = operator.index(position)
        if not -len(self) <= number < len(self):
            raise IndexError(f"position {number} is out of range: {self.path} has {len(self):,} records.")
        number %= len(self)
        blobs = [field for field in self.manifest.blobs if self.has(field, number)]
        return {"name": self.names[number], **{field: self.value(field, number) for field in (*blobs, *self.columns)}}

    # Any: as above.
    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[position] for position in range(len(self)))

    @property
    def columns(self) -> list[str]:
        """The names of the array fields: not of those arrays that the format itself needs."""
        own = {"names", "names_offsets", *(f"split-{split}" for split in self.manifest.splits)}
        return [name for name in self.manifest.arrays if name not in own and "." not in name]

    def __repr__(self) -> str:
        return f"RecordReader({os.fspath(self.path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (os.fspath(self.path), self.digest)

    def read(self, field: str, position: int) -> bytes:
        """Return the value of a blob field at a position, its CRC-32 compared.

        Raises:
            KeyError: There is no such field.
            IndexError: There is no such position.
            LookupError: The position has no value in this field.
            CorruptRecordError: The stored bytes are not the ones that were written.
        """
        shard, slot, length, crc, offset = self._row(field, position)
        if shard == NO_SHARD:
            raise LookupError(f"{self.path}: record {position} ({self.names[position]!r}) has no value in {field!r}.")
        if shard >= len(self.manifest.shards):
            raise self._corrupt(field, position, f"the index points to shard {shard}, which does not exist")
        spec = self.manifest.shards[shard]
        if offset + length > spec.size_bytes:
            raise self._corrupt(field, position, f"the index points outside {spec.name}")
        lease = shard_files.acquire((self._token, shard), self._open_shard)
        try:
            data = pread(lease.fd, length, offset)
        except OSError as err:
            raise self._corrupt(field, position, f"{spec.name} cannot be read ({err.strerror})") from err
        finally:
            shard_files.release(lease)
        if crc32(data) != crc or len(data) != length:
            raise self._corrupt(field, position, f"its bytes in {spec.name}, slot {slot}, have another CRC-32")
        return data

    def _open_shard(self, shard: int) -> int:
        spec = self.manifest.shards[shard]
        return self._directory.open(spec.name, spec.size_bytes)

    def _row(self, field: str, position: int) -> tuple[int, int, int, int, int]:
        rows = self._rows.get(field)
        if rows is None:
            rows = self._rows[field] = self._index(field).data
        if not 0 <= position < len(rows):
            raise IndexError(f"position {position} is out of range: {self.path} has {len(rows):,} records.")
        # index(): 24 times a NumPy uint8 of 200 is not 4800.
        row: tuple[int, int, int, int, int] = _ROW.unpack_from(rows, _ROW.size * operator.index(position))
        return row

    def _corrupt(self, field: str, position: int, problem: str) -> CorruptRecordError:
        try:
            name = self.names[position]
        except (RecordError, IndexError):
            name = "?"
        return CorruptRecordError(
            f"{self.path}: {field} {position} ({name}) is damaged: {problem}. Run: {command('verify', self.path)}",
            path=str(self.path),
            field=field,
            position=position,
            name=name,
        )

    # Any: as above.
    def value(self, field: str, position: int) -> Any:
        """Return what a field holds at a position.

        Of a blob field: the bytes of an encoded image (the file as it was), a read-only array for raw numbers, the
        object for JSON. Of an array field: its row, a Python number if that is one.

        Raises:
            KeyError, IndexError, LookupError, CorruptRecordError: As `read`.
        """
        if field not in self.manifest.blobs:
            row = self.array(field)[position]
            return row if row.ndim else row.item()
        data = self.read(field, position)
        try:
            return decode_value(self.manifest.blobs[field], data, self._shape(field, position))
        except ValueError as err:
            raise self._corrupt(field, position, str(err)) from err

    def _shape(self, field: str, position: int) -> tuple[int, ...]:
        spec = self.manifest.blobs[field]
        if spec.encoding != "raw" or spec.shape is not None:
            return spec.shape or ()
        return tuple(self.array(f"{field}.shape")[position].tolist())

    def has(self, field: str, position: int) -> bool:
        """Whether a position has a value in a blob field."""
        return self._row(field, position)[0] != NO_SHARD

    def lengths(self, field: str) -> NDArray[np.uint32]:
        """Return the length in bytes of each position's value, uint32 [N]; 0 where there is none."""
        lengths: NDArray[np.uint32] = self._index(field)["length"]
        return lengths

    def marks(self, field: str) -> bytearray:
        """Return the marks of a blob field: one byte for each position, 0 for unknown.

        The array starts with the stored marks. A caller that determines a mark writes it into the array, which the
        reader keeps.
        """
        found = self._marks.get(field)
        if found is None:
            num_values = len(self._index(field))
            stored = read_marks(self._directory, field, self.manifest.arrays[f"{field}.index"])
            found = self._marks.setdefault(field, stored or bytearray(num_values))
        return found

    def hint(self, field: str, positions: Sequence[int]) -> None:
        """Tell the kernel which values will be read soon, so that the disk can work on all of them at once.

        Positions without a value, or that do not exist, are left out; a shard that cannot be opened is left to `read`.
        """
        if advise is None:
            return
        rows = self._stored_rows(field, positions)
        for shard in np.unique(rows["shard"]).tolist():
            here = rows[rows["shard"] == shard]
            self._advise(shard, here["offset"], here["offset"] + here["length"], WILL_NEED)

    def forget(self, field: str, positions: Sequence[int]) -> None:
        """Tell the kernel which values will not be read again soon, so that its cache has room for others.

        Values that lie side by side are forgotten as one, with the pages that they share. Of others the first and the
        last page, which may hold parts of their neighbours, are kept. What is left out is as in `hint`.
        """
        if advise is None:
            return
        rows = self._stored_rows(field, positions)
        for shard in np.unique(rows["shard"]).tolist():
            here = np.sort(rows[rows["shard"] == shard], order="offset")
            begins, ends = here["offset"], here["offset"] + here["length"]
            apart = begins[1:] >= ends[:-1] + self.manifest.shards[shard].page_size
            first, last = np.append(True, apart), np.append(apart, True)
            self._advise(shard, begins[first], ends[last], DONT_NEED)

    def _stored_rows(self, field: str, positions: Sequence[int]) -> NDArray[Any]:
        """Return the index rows of the positions that exist and have a value."""
        index = self._index(field)
        wanted = np.asarray(positions, np.int64)
        rows = index[wanted[(wanted >= 0) & (wanted < len(index))]]
        return rows[(rows["shard"] < len(self.manifest.shards)) & (rows["length"] > 0)]  # 0 would mean: to the end

    def _advise(self, shard: int, begins: NDArray[np.uint64], ends: NDArray[np.uint64], advice: int) -> None:
        """Say one thing of ranges of a shard; one that cannot be opened is left to `read`."""
        try:
            lease = shard_files.acquire((self._token, shard), self._open_shard)
        except RecordError:
            return
        size = self.manifest.shards[shard].size_bytes
        assert advise is not None
        try:
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                if begin <= end <= size:  # a forged offset may have wrapped the end around
                    advise(lease.fd, begin, end - begin, advice)
        finally:
            shard_files.release(lease)

    def _index(self, field: str) -> NDArray[Any]:
        if field not in self.manifest.blobs:
            blobs = self.manifest.blobs
            hint = did_you_mean(field, blobs)
            raise KeyError(f"{self.path} has no blob field {field!r}; it has {', '.join(blobs)}.{hint}")
        return self.array(f"{field}.index")

    def array(self, name: str) -> NDArray[Any]:
        """Return an array field, mapped read-only; its first dimension is the position.

        Raises:
            KeyError: There is no such array.
            CorruptRecordError: Its file is not the one that was written.
        """
        if name not in self.manifest.arrays:
            there = f"it has {', '.join(self.manifest.arrays)}.{did_you_mean(name, self.manifest.arrays)}"
            raise KeyError(f"{self.path} has no array {name!r}; {there}")
        found = self._arrays.get(name)
        if found is None:
            # No lock: a thread that held it while another forks would leave the child waiting for ever. Two threads
            # may map the same file, which costs a moment.
            found = self._arrays.setdefault(name, map_array(self._directory, name, self.manifest.arrays[name]))
        return found

    @property
    def names(self) -> Names:
        """The records' names in canonical order, relative to the dataset's folder."""
        if self._names is None:
            self._names = Names(self.array("names"), self.array("names_offsets"), str(self.path))
        return self._names

    def split(self, name: str = "") -> NDArray[np.int64]:
        """Return the positions of a split, int64; all of them, in order, for "".

        Raises:
            KeyError: There is no such split.
            CorruptRecordError: Its file is damaged or points outside the record set.
        """
        if not name:
            return np.arange(len(self), dtype=np.int64)
        known = f"split-{name}" in self._arrays
        positions = self.array(f"split-{name}")
        if not known and len(positions) and not (positions.min() >= 0 and positions.max() < len(self)):
            raise CorruptRecordError(
                f"{self.path}: split {name!r} points outside the {len(self):,} records. Prepare the dataset again.",
                path=str(self.path),
            )
        return positions


def _reopen(path: str, digest: str) -> RecordReader:
    return RecordReader(path, digest=digest)
