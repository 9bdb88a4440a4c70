"""`RecordReader`: read bytes or values by position. Datasets use no other access to a record set."""

import contextlib
import functools
import json
import math
import operator
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, counted, did_you_mean, no_split
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError
from recordzoo.net.url import Url, is_url
from recordzoo.records.arrays import AnyArray, Names, decode_value, file_name, map_array, read_marks
from recordzoo.records.files import AnyDirectory, Directory, read_start, replaced
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    NO_SHARD,
    Manifest,
    manifest_digest,
    parse_manifest,
)
from recordzoo.records.shard import Shards, crc32

if TYPE_CHECKING:
    from recordzoo.records.remote import RemoteShards

_ROW = struct.Struct("<IIIIQ")  # INDEX_DTYPE; four times as fast as NumPy for one row
_IN_ORDER = 64  # at a URL, an iteration announces so many records at once
_NAMES_NAME = file_name("names_offsets")  # every record set has this array, even without records


def is_record_set(path: Path) -> bool:
    """Whether a directory is a (published) record set: it has a manifest and names.

    The manifest alone proves little: other programs also write a ``manifest.json``.

    Raises:
        RecordError: This user may not look into the directory.
    """
    try:
        return all(stat.S_ISREG((path / name).stat().st_mode) for name in (MANIFEST_NAME, _NAMES_NAME))
    except PermissionError as err:
        raise RecordError(
            f"{path} may not be read ({err.strerror}): it belongs to another user. Ask its owner for access.",
            path=str(path),
        ) from err
    except (OSError, ValueError):
        return False


class RecordReader:
    """Reads a record set. Threads and forked processes may share a reader; it pickles to its path and digest.

    Opening reads only the manifest; arrays are mapped on first use. A reader is a sequence of records:
    ``reader[position]`` is a dict with "name" and all fields of a position.

    Examples:
        >>> reader = recordzoo.RecordReader("my.records")
        >>> for record in reader:
        ...     print(record["name"], record["target"], len(record["image"]))

    Args:
        path: The record set's directory, or its URL; files at a URL are read through this machine's cache.
        digest: Refuse a record set with another `RecordReader.digest`.
        cache_bytes: For a URL, maximum size of the cache in bytes. Default: ``RECORDZOO_CACHE_BYTES``.

    Raises:
        ManifestError: It is not a record set, or a damaged one.
        FormatVersionError: It has a later format.
        RemoteError: The URL cannot be read.
        RecordError: It has another digest than `digest`.
    """

    kept_bytes = 256 << 20
    """The most bytes of a field that `stacked` keeps in memory."""

    path: Path | Url
    _shards: Shards

    def __init__(
        self, path: str | os.PathLike[str] | Url, *, digest: str | None = None, cache_bytes: int | None = None
    ) -> None:
        self._cache_bytes = cache_bytes
        self._directory: AnyDirectory
        self.remote: RemoteShards | None = None  # shards at a URL
        if is_url(path):
            from recordzoo.records import remote as remote_shards  # its imports are slow
            from recordzoo.records.remote import RemoteDirectory

            self.path = Url.parse(path)
            self._directory = there = RemoteDirectory(self.path, cache_bytes)
            data = there.read_manifest(digest)
        else:
            self.path = Path(path).expanduser().absolute()
            try:
                self._directory = Directory(self.path)
            except OSError as err:
                raise RecordError(f"{self.path} cannot be opened: {err.strerror}.", path=str(self.path)) from err
            data = read_start(self._directory.open, MANIFEST_NAME, MAX_MANIFEST_BYTES + 1)
        self.digest = manifest_digest(data)
        if digest is not None and digest != self.digest:
            raise replaced(self.path)
        self.manifest: Manifest = parse_manifest(data, str(self.path / MANIFEST_NAME))
        if is_url(path):
            there.describe(self.digest, self.manifest)
            self._shards = self.remote = remote_shards.RemoteShards(there, self.manifest.shards)
        else:
            self._shards = Shards(self._directory, self.manifest.shards)
        self._arrays: dict[str, AnyArray] = {}
        self._rows: dict[str, memoryview] = {}  # index rows by field
        self._marks: dict[str, bytearray] = {}
        self._kept: dict[str, tuple[NDArray[np.uint8], NDArray[np.bool_]]] = {}  # what `stacked` has read
        self._names: Names | None = None

    @property
    def folder(self) -> Path:
        """The record set's directory.

        Raises:
            RecordError: It is at a URL.
        """
        if isinstance(self.path, Path):
            return self.path
        raise RecordError(
            f"{self.path} is at a URL, and this needs a record set on the disk. Run: {command('pull', self.path)}",
            path=str(self.path),
        )

    def extra(self, name: str, max_bytes: int = MAX_MANIFEST_BYTES) -> bytes | None:
        """Return a file beside the manifest that it does not name; None if it is missing or unreadable.

        The file is untrusted: links, FIFOs and files larger than `max_bytes` are refused.
        """
        try:
            data = read_start(self._directory.open, name, max_bytes + 1)
        except OSError:  # includes RecordError
            return None
        return data if len(data) <= max_bytes else None

    def open_file(self, name: str, size_bytes: int | None = None) -> int:
        """Open a regular file of the set's directory; the caller closes the descriptor.

        Raises:
            RecordError: The file is missing, unreadable, or has another size.
        """
        return self._directory.open(name, size_bytes)

    def __len__(self) -> int:
        return self.manifest.num_records

    def __getitem__(self, position: SupportsIndex) -> dict[str, Any]:
        """Return a record: its name and the `value` of each field.

        Raises:
            IndexError: There is no such position.
            CorruptRecordError: The stored bytes are not the ones that were written.
        """
        number = operator.index(position)
        if not -len(self) <= number < len(self):
            raise IndexError(f"position {number} is out of range: {self.path} has {counted(len(self), 'record')}.")
        number %= len(self)
        fields = (*self.manifest.blobs, *self.columns)
        return {"name": self.names[number], **{field: self.value(field, number) for field in fields}}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for position in range(len(self)):
            if self.remote is not None and not position % _IN_ORDER:
                for field in self.manifest.blobs:
                    self.hint(field, range(position, min(position + _IN_ORDER, len(self))))
            yield self[position]

    @property
    def columns(self) -> list[str]:
        """The names of the array fields, without the format's own arrays."""
        return self.manifest.columns

    def __repr__(self) -> str:
        return f"RecordReader({str(self.path)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        reopen = functools.partial(RecordReader, digest=self.digest, cache_bytes=self._cache_bytes)
        return reopen, (str(self.path),)

    def read(self, field: str, position: int) -> bytes:
        """Return the stored bytes of a blob field at a position; the CRC-32 is checked.

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
        try:
            data = self._shards.read(shard, length, offset)
        except RecordError:
            raise
        except MemoryError as err:
            text = f"{self.path}: there is no memory for {length:,} bytes of {field} {position}."
            raise RecordError(text, path=str(self.path)) from err
        except OSError as err:
            raise self._corrupt(field, position, f"{spec.name} cannot be read ({err.strerror})") from err
        if crc32(data) == crc and len(data) == length:
            return data
        again = self._shards.read_again(shard, length, offset, crc)
        if again is not None:
            return again
        raise self._corrupt(field, position, f"its bytes in {spec.name}, slot {slot}, have another CRC-32")

    def read_all(self, field: str, positions: NDArray[np.int64]) -> list[bytes]:
        """Return the stored bytes of a blob field at several positions: as `read`, in half the time of small values."""
        rows = self._index(field)[positions]
        found = [b""] * len(rows)
        for number in np.unique(rows["shard"]).tolist():
            if number >= len(self.manifest.shards):
                continue
            size = self.manifest.shards[number].size_bytes
            is_inside = (rows["offset"] <= size) & (rows["length"] <= size - np.minimum(rows["offset"], size))
            here = np.flatnonzero((rows["shard"] == number) & is_inside)
            with contextlib.suppress(RecordError, OSError):  # `read` raises it
                values = self._shards.read_all(number, rows["length"][here].tolist(), rows["offset"][here].tolist())
                for place, value in zip(here.tolist(), values, strict=True):
                    found[place] = value
        checks = zip(found, rows["length"].tolist(), rows["crc32"].tolist(), positions.tolist(), strict=True)
        return [
            value if value and len(value) == length and crc32(value) == crc else self.read(field, position)
            for value, length, crc, position in checks
        ]

    def stacked(self, field: str, positions: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of raw values of one shape, uint8 [M, size], and each position's row in them, int64 [n].

        A field of at most `kept_bytes` stays in memory as far as it was read, as torchvision's small datasets do.

        Raises:
            KeyError, IndexError, LookupError, CorruptRecordError: As `decoded`.
        """
        spec = self.manifest.blobs[field]
        size = math.prod(spec.shape or ()) * np.dtype(spec.dtype).itemsize
        if field not in self._kept:
            if size * len(self) > self.kept_bytes:
                return self._stack(field, positions, size), np.arange(len(positions))
            self._kept.setdefault(field, (np.empty((len(self), size), np.uint8), np.zeros(len(self), np.bool_)))
        values, is_read = self._kept[field]
        missing = positions[~is_read[positions]]
        if len(missing):
            values[missing] = self._stack(field, missing, size)
            is_read[missing] = True
        return values, positions

    def _stack(self, field: str, positions: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        values = self.read_all(field, positions)
        for position, value in zip(positions.tolist(), values, strict=True):
            if len(value) != size:
                self.decoded(field, position)  # it raises
        return np.frombuffer(b"".join(values), np.uint8).reshape(-1, size)

    def _row(self, field: str, position: int) -> tuple[int, int, int, int, int]:
        rows = self._rows.get(field)
        if rows is None:
            rows = self._rows[field] = self._index(field).data
        if not 0 <= position < len(rows):
            raise IndexError(f"position {position} is out of range: {self.path} has {counted(len(rows), 'record')}.")
        # index(): 24 * np.uint8(200) would overflow.
        row: tuple[int, int, int, int, int] = _ROW.unpack_from(rows, _ROW.size * operator.index(position))
        return row

    def _corrupt(self, field: str, position: int, problem: str) -> CorruptRecordError:
        try:
            name = self.names[position]
        except (RecordError, IndexError):
            name = "?"
        return CorruptRecordError(
            f"{self.path}: {field} {position} ({name}) is damaged: {problem}. "
            f"Run: {command('verify', self.path, '--full')}",
            path=str(self.path),
            field=field,
            position=position,
            name=name,
        )

    def value(self, field: str, position: int) -> Any:
        """Return the value of a field at a position.

        Blob fields: the bytes of an encoded image (the unchanged file), a read-only array for raw numbers, the object
        for JSON; None if the position has no value. Array fields: the row; a single number is a Python number.

        Raises:
            KeyError, IndexError, CorruptRecordError: As `read`.
        """
        if field not in self.manifest.blobs:
            row = self.array(field)[position]
            return row if row.ndim else row.item()
        return self.decoded(field, position) if self.has(field, position) else None

    # Any: as above.
    def decoded(self, field: str, position: int) -> Any:
        """Return the value of a blob field at a position, as `value` does.

        Raises:
            KeyError, IndexError, LookupError, CorruptRecordError: As `read`.
        """
        data = self.read(field, position)
        try:
            found = decode_value(self.manifest.blobs[field], data, self._shape(field, position))
            return found.item() if isinstance(found, np.ndarray) and not found.ndim else found
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
        """Return the length in bytes of each position's value, uint32 [N]; 0 for no value."""
        lengths: NDArray[np.uint32] = self._index(field)["length"]
        return lengths

    def marks(self, field: str) -> bytearray:
        """Return the marks of a blob field: one byte for each position, 0 for unknown.

        The array starts with the stored marks. Callers write newly determined marks into it; the reader keeps it.
        """
        found = self._marks.get(field)
        if found is None:
            num_values = len(self._index(field))
            stored = read_marks(self._directory.open, field, self.manifest.arrays[f"{field}.index"])
            found = self._marks.setdefault(field, stored or bytearray(num_values))
        return found

    def hint(self, field: str, positions: Sequence[int]) -> None:
        """Prefetch values that this process will read soon, all at once.

        The kernel reads them from disk; values at a URL, or their shards, are fetched in the background. Positions
        without a value or out of range are skipped; `read` reports a shard that cannot be opened.
        """
        wanted = np.asarray(positions, np.int64)
        if field in self._kept:
            is_read = self._kept[field][1]
            wanted = wanted[(wanted >= 0) & (wanted < len(is_read))]
            wanted = wanted[~is_read[wanted]]
        self._shards.hint(self._stored_rows(field, wanted))

    def will_need(self, field: str, positions: Sequence[int]) -> None:
        """Prefetch values that processes of this machine will read soon, in this order.

        Like `hint`, but at a URL only whole shards are fetched, and only if the cache can hold all of them.
        """
        self._shards.will_need(self._stored_rows(field, positions))

    def forget(self, field: str, positions: Sequence[int]) -> None:
        """Drop values that will not be read again soon from the kernel's page cache.

        Adjacent values are dropped together, with the pages that they share. Otherwise the first and the last page,
        which may contain parts of neighbours, are kept. Positions are skipped as in `hint`.
        """
        self._shards.forget(self._stored_rows(field, positions))

    def _stored_rows(self, field: str, positions: Sequence[int] | NDArray[np.int64]) -> AnyArray:
        """Return the index rows of the positions that exist and have a value."""
        index = self._index(field)
        wanted = np.asarray(positions, np.int64)
        rows = index[wanted[(wanted >= 0) & (wanted < len(index))]]
        return rows[(rows["shard"] < len(self.manifest.shards)) & (rows["length"] > 0)]  # 0 would mean: to the end

    def _index(self, field: str) -> AnyArray:
        if field not in self.manifest.blobs:
            blobs = self.manifest.blobs
            hint = did_you_mean(field, blobs)
            raise KeyError(f"{self.path} has no blob field {field!r}; it has {', '.join(blobs)}.{hint}")
        return self.array(f"{field}.index")

    def array(self, name: str) -> AnyArray:
        """Return an array, mapped read-only; in array fields the first dimension is the position.

        Raises:
            KeyError: There is no such array.
            CorruptRecordError: Its file is not the one that was written.
        """
        if name not in self.manifest.arrays:
            fields = [*self.manifest.blobs, *self.columns]
            there = f"its fields are {', '.join(fields)}.{did_you_mean(name, fields)}"
            raise KeyError(f"{self.path} has no array {name!r}; {there}")
        found = self._arrays.get(name)
        if found is None:
            # No lock: after a fork during another thread's hold, the child would wait without end. Two threads may map
            # the same file, which is cheap.
            found = self._arrays.setdefault(name, self._mapped(name))
        return found

    def _mapped(self, name: str) -> AnyArray:
        try:
            return map_array(self._directory, name, self.manifest.arrays[name])
        except CorruptRecordError:
            if not self._directory.drop(file_name(name)):
                raise
        return map_array(self._directory, name, self.manifest.arrays[name])

    @property
    def names(self) -> Names:
        """The records' names in canonical order, relative to the dataset's folder."""
        if self._names is None:
            self._names = Names(self.array("names"), self.array("names_offsets"), str(self.path))
        return self._names

    def split(self, name: str = "") -> NDArray[np.int64]:
        """Return the positions of a split, int64 [n]; for "", all positions in order.

        Raises:
            KeyError: There is no such split.
            CorruptRecordError: Its file is damaged or points outside the record set.
        """
        if not name:
            return np.arange(len(self), dtype=np.int64)
        if name not in self.manifest.splits:
            raise KeyError(str(no_split(self.path, name, self.manifest.splits)))
        known = f"split-{name}" in self._arrays
        positions = self.array(f"split-{name}")
        if not known and len(positions) and not (positions.min() >= 0 and positions.max() < len(self)):
            raise CorruptRecordError(
                f"{self.path}: split {name!r} points outside the {len(self):,} records. Prepare the dataset again.",
                path=str(self.path),
            )
        return positions


def extra_object(reader: RecordReader, name: str) -> dict[str, JSON]:
    """Return the JSON object in a file beside the manifest, as `RecordReader.extra`; empty if there is none."""
    try:
        found = json.loads(reader.extra(name) or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_NO_LABEL = -1


@dataclass(frozen=True)
class Labels:
    """The classes of a record set.

    Attributes:
        column: The array field that holds them.
        numbers: int64 [N], the class number of each position.
        names: Class names in label order; may be empty.
        synonyms: Further names in label order; may be empty.
    """

    column: str
    numbers: NDArray[np.int64]
    names: Sequence[str] = ()
    synonyms: Sequence[str] = ()

    def name(self, number: int) -> str:
        """Return a class's name: ``n01440764 tench``; its number if it has no name."""
        if not 0 <= number < len(self.names):
            return str(number)
        synonym = self.synonyms[number] if self.synonyms else ""
        return f"{self.names[number]} {synonym}" if synonym else self.names[number]

    def short(self, name: str, number: int) -> str:
        """Return an image's name without the folder that is its class."""
        folder, _, rest = name.partition("/")
        return rest if 0 <= number < len(self.names) and self.names[number] == folder else name

    def find(self, given: str | int) -> list[int]:
        """Return the numbers of the classes with a name or number. An int is tried as a number first.

        Raises:
            ArgumentError: There is no such class.
        """
        text = str(given)
        is_number = text.removeprefix("-").isdecimal() and (
            0 <= int(text) < len(self.names) or (not self.names and int(text) in self.numbers)
        )
        if isinstance(given, int) and is_number:
            return [given]
        for known in (self.names, self.synonyms):
            found = [number for number, name in enumerate(known) if name == text]
            if found:
                return found
        if is_number:
            return [int(text)]
        every = [clean(name) for name in (*self.names, *self.synonyms)]
        close = [name for name in every if text.lower() in name.lower()][:3]
        hint = f" Did you mean {' or '.join(close)}?" if close else did_you_mean(text, every)
        valid = f"a class name or a number from 0 to {len(self.names) - 1:,}" if self.names else "one of the targets"
        raise ArgumentError(f"There is no class {text!r}; valid is {valid}.{hint}")

    def numbers_of(self, classes: Sequence[str | int]) -> tuple[int, ...]:
        """Return the number of each class, as `find`; there must be one."""
        every = []
        for given in classes:
            found = self.find(given)
            if len(found) > 1:
                raise ArgumentError(f"Several classes are called {given!r}: {found}. Give their numbers.")
            every += found
        return tuple(every)


def load_labels(reader: RecordReader) -> Labels | None:
    """Find a record set's classes: integers, one for each position, in the default target.

    There are none if no image has a label: all numbers are -1, and classes have no names.

    Raises:
        CorruptRecordError: Their array is damaged.
    """
    column = reader.manifest.label_field
    if column is None:
        return None
    classes = reader.manifest.classes or ()
    numbers = reader.array(column).astype(np.int64)
    if not classes and bool((numbers == _NO_LABEL).all()):
        return None
    return Labels(column, numbers, classes, _synonyms(reader, len(classes)))


def _synonyms(reader: RecordReader, num_classes: int) -> list[str]:
    """Read the first word for each class from the metadata, if all classes have words."""
    found: Any = reader.manifest.metadata.get("synonyms")
    if not isinstance(found, list) or len(found) != num_classes:
        return []
    if not all(isinstance(words, list) and words and isinstance(words[0], str) for words in found):
        return []
    return [words[0] for words in found]


def class_numbers(reader: RecordReader, classes: Sequence[str | int]) -> tuple[int, ...]:
    """Return the numbers of classes, as `Labels.find`; each must be one."""
    labels = load_labels(reader)
    if labels is None:
        raise ArgumentError(f"{reader.path} has no classes: no field target or label holds a whole number each.")
    return labels.numbers_of(classes)
