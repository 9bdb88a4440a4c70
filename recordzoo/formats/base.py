"""`Foreign`: a dataset stored by another tool as independently readable pieces; its samples; its pieces as raw data."""

import hashlib
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from recordzoo.base.meant import did_you_mean
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.naming import field_name, usual_fields
from recordzoo.raw.file_table import FileTable
from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource
from recordzoo.records.kinds import FieldSpec

Sample = Mapping[str, Any]
"""A sample: the name of each field and its value, as `RecordWriter` takes them; "name" is the record's name."""

CLASSES_NAME = "classes.json"
"""File with the class names in label order, in the folder of a format that cannot store them."""

_MAX_CLASSES_BYTES = 16 << 20
_LOOKED_AT, _PIECES_LOOKED_AT = 64, 8

PIECE_SAMPLES = 256
"""Maximum number of samples in a piece: the number that share a file of numbers during the conversion."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a foreign dataset, of any size, that can be read independently. Pickles.

    Attributes:
        name: Its unique name in messages and record names: `train-00000-of-01024`.
        size_bytes: Approximate total size of its samples.
        files: The files to read.
        start, stop: The range within these files, if not all, in a unit of the format.
        split: The split of its samples; "" if there are none.
    """

    name: str
    size_bytes: int
    files: tuple[Path, ...]
    start: int = 0
    stop: int = -1
    split: str = ""


class Foreign(ABC):
    """A dataset stored by another tool. It pickles: a worker process gets a copy.

    Args:
        location: A path, or an address.
        fields: The field names of the tool's keys, where the user gives them.

    Attributes:
        format: The name of the format for `--format`.
        origin: The record set's name for its source, if not the format.
        allows_paths: Whether paths in the data may lead to files anywhere.
        pieces: The pieces, in order.
        classes: Class names by label, if stored.
        kinds: The storage of fields (as in `convert`), where the format defines it. Others are inferred from values.
        specs: The types of fields, where the format defines them: class names, text.

    Raises:
        NotPreparedError: There is no dataset.
        SourceError: The dataset is incomplete or damaged.
    """

    format: str
    origin = ""
    allows_paths = False

    def __init__(self, location: str, fields: Mapping[str, str]) -> None:
        self.location, self.fields = location, dict(fields)
        self.pieces: Sequence[Piece] = ()
        self.classes: Sequence[str] | None = None
        self.kinds: Mapping[str, str] = {}
        self.specs: Mapping[str, FieldSpec] = {}

    def open(self) -> None:  # noqa: B027 - most have nothing to do
        """Download remote data. Called once, before `pieces` is used, after `identity` is compared.

        Raises:
            RemoteError, SourceError: The data cannot be downloaded, or is damaged.
        """

    @abstractmethod
    def read(self, piece: Piece) -> Iterator[Sample]:
        """Yield the samples of a piece, in order; all have the same fields, with None for missing values.

        Raises:
            SourceError: The piece is damaged or has unsupported content; the message gives the location.
        """

    def sizes(self) -> Sequence[int]:
        """Return the sizes in bytes of the parts that shards may consist of: the pieces, or smaller ones."""
        return [piece.size_bytes for piece in self.pieces]

    def cut(self, start: int, stop: int) -> Sequence[Piece]:
        """Return consecutive parts, as `sizes` counts them, as pieces."""
        return self.pieces[start:stop]

    def first(self) -> list[tuple[Piece, Sample]]:
        """Return some samples, each with its piece, to determine the fields."""
        return first_of(self.pieces, self.read)

    def identity(self) -> str:
        """Return a digest that identifies the dataset: names and sizes; no times, so that copies are equal."""
        digest = hashlib.sha256(self.format.encode())
        for piece in self.pieces:
            digest.update(f"{piece.name}\0{piece.size_bytes}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @staticmethod
    def files(pieces: Sequence[Piece]) -> FileTable:
        """List all files of some pieces, with sizes and times.

        Raises:
            SourceError: A file cannot be accessed.
        """
        table = FileTable("")
        for path in dict.fromkeys(path for piece in pieces for path in piece.files):
            try:
                table.add(str(path), path.stat())
            except OSError as err:
                raise fault(path, f" cannot be read ({err.strerror}).") from err
        return table

    def field(self, key: str, usual: Mapping[str, str]) -> str:
        """Return the field of a key: named by the user, by convention, or by the key itself.

        Args:
            key: The tool's name.
            usual: The field of each key that has a known meaning.
        """
        return self.fields.get(key) or usual.get(key) or field_name(key)

    def name_fields(self, keys: Sequence[str], usual: Mapping[str, str]) -> dict[str, str]:
        """Return the field of each key.

        Raises:
            ArgumentError: Two keys would become one field.
        """
        found: dict[str, str] = {}
        for key in keys:
            name = self.field(key, usual)
            if other := next((each for each, field in found.items() if field == name), None):
                free = f"{field_name(key)}_2"
                raise ArgumentError(
                    f"{self.location}: {other!r} and {key!r} would both become the field {name!r}. Give one of them "
                    f"another name: --field {key}={free}, or fields={{{key!r}: {free!r}}}."
                )
            found[key] = name
        return found

    # Any: values of all kinds.
    def name_columns(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, str]:
        """Return the field of each key, given its first values: image is what holds images, target has a usual name.

        Raises:
            ArgumentError: A named key does not exist, several keys hold images, or two would become one field.
        """
        self.check_fields(list(columns))
        return self.name_fields(list(columns), usual_fields(self.location, self.fields, columns))

    def check_fields(self, keys: Sequence[str]) -> None:
        """Refuse names for missing keys.

        Raises:
            ArgumentError: A named key does not exist.
        """
        for key in self.fields:
            if key not in keys:
                raise ArgumentError(
                    f"{self.location} has no {key!r}, which argument fields names. It has {', '.join(map(repr, keys))}."
                    f"{did_you_mean(key, keys)}"
                )


def fault(path: Path | str, text: str) -> SourceError:
    """Return the error of a file or a location; `text` follows the path in the message."""
    return SourceError(f"{path}{text}", path=str(path))


def first_of(pieces: Sequence[Piece], read: Callable[[Piece], Iterator[_T]]) -> list[tuple[Piece, _T]]:
    """Read samples to determine the fields: the first 64 of the first piece, and the first one of some others."""
    found: list[tuple[Piece, _T]] = []
    for piece in pieces[:: max(1, len(pieces) // _PIECES_LOOKED_AT)]:
        found += ((piece, each) for each in itertools.islice(read(piece), 1 if found else _LOOKED_AT))
    return found


def classes_beside(location: str) -> list[str] | None:
    """Return the class names from the folder's `CLASSES_NAME`, as written by an export; None without the file.

    Raises:
        SourceError: The file is not a list of names.
    """
    path = Path(location) / CLASSES_NAME
    if not path.is_file():
        return None
    with path.open("rb") as file:
        data = file.read(_MAX_CLASSES_BYTES)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise fault(path, f" is no JSON ({err}).") from err
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise fault(path, " is no list of the names of classes.")
    return found


@dataclass(frozen=True)
class ForeignSource(SizedSource):
    """The pieces of a foreign dataset."""

    foreign: Foreign

    @property
    @override
    def description(self) -> str:
        return self.foreign.location

    @override
    def member_sizes(self) -> Sequence[int]:
        return self.foreign.sizes()

    def fingerprint(self) -> str:
        """See `Source`."""
        return self.foreign.files(self.foreign.pieces).fingerprint(self.foreign.identity().encode())

    def files(self) -> None:
        """See `Source`: pieces stand for their samples."""

    @override
    def unit(self, start: int, stop: int) -> Unit:
        pieces = tuple(self.foreign.cut(start, stop))
        table = self.foreign.files(pieces)
        return _Pieces(start, pieces, table.stamp(0, len(table)))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Some consecutive pieces; see `Unit`."""

    start: int
    pieces: tuple[Piece, ...]
    stamp: str

    @property
    def size_bytes(self) -> int:
        """See `Unit`."""
        return sum(piece.size_bytes for piece in self.pieces)

    def members(self) -> Iterator[Member]:
        """See `Unit`."""
        for number, piece in enumerate(self.pieces, self.start):
            yield PieceMember(f"{number:012d}", piece.size_bytes, bytes, piece)


@dataclass(frozen=True, slots=True)
class PieceMember(Member):
    """A piece as a member; its name is its number."""

    piece: Piece
