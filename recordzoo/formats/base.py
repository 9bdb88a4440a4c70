"""`Foreign`: a dataset stored by another tool as independently readable pieces; its samples; its pieces as raw data."""

import functools
import hashlib
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from recordzoo.base.text import as_file_name, did_you_mean
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.raw.member import FileTable, Member, SizedSource, Unit
from recordzoo.recipes.recipe import sniffed_ending
from recordzoo.records.kinds import FieldSpec
from recordzoo.records.manifest import is_field_name

IMAGES = (
    "image/encoded",
    *("images", "image", "imgs", "img", "jpg", "jpeg", "png", "webp", "image_raw"),
    *("img_data", "image_data", "bson_img", "image_bytes", "img_bytes", "picture", "photo"),
    *("pixels", "x", "set_x", "data", "content", "inputs", "input"),
)
"""Usual keys of images, the most usual first."""

LABELS = (
    "image/class/label",
    *("target", "targets", "label", "labels", "y", "set_y", "ans", "img_label", "image_label"),
    *("class_id", "label_id", "class_index", "category_id", "class", "classes"),
)
"""Usual keys of labels, the most usual first."""

SPLITS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval", "extra", "unsupervised")
"""Usual words for splits, in the order in which they are listed."""

CLASSES_NAME = "classes.json"
"""File with the class names in label order, in the folder of a format that cannot store them."""

PIECE_SAMPLES = 256
"""Maximum number of samples in a piece: the number that share a file of numbers during the conversion."""

_NO_NAME = re.compile(r"[^a-z0-9_]+")
_LONGEST = 64
_ENDING = re.compile(r"\.(jpe?g|png|ppm|bmp|pgm|tiff?|webp|gif)", re.IGNORECASE)
_MAX_FILE_NAME = 200  # bytes
_MAX_CLASSES_BYTES = 16 << 20
_LOOKED_AT, _PIECES_LOOKED_AT = 64, 8


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


class Sample(NamedTuple):
    """A sample of the user's, before it is stored.

    Attributes:
        name: Its name in the record set.
        values: Its fields, by name.
        splits: The splits that it belongs to: one, several, or None.
    """

    # Any: whatever the user gives; the recipe that stores samples checks names and splits.
    name: Any
    values: Mapping[str, Any]
    splits: Any = None

    @classmethod
    def of(cls, record: Mapping[str, Any], name: str = "") -> "Sample":
        """Return the sample of a dict of its fields; one that is called "name" counts more than the given name."""
        return cls(record.get("name", name), {key: value for key, value in record.items() if key != "name"})


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


def field_name(key: str) -> str:
    """Return a valid name of a field for a key: ``image/class/text`` becomes ``image_class_text``."""
    name = _NO_NAME.sub("_", key.lower()).strip("_")[:_LONGEST]
    if not is_field_name(name):
        name = f"field_{name}".rstrip("_")[:_LONGEST]
    return name


def split_name(text: str) -> str:
    """Return a valid name of a split: small letters, digits and "-" only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def usual_key(named: Mapping[str, str], field: str, keys: Container[str], table: Sequence[str]) -> str | None:
    """Return the key that becomes a field by its usual name; None if the user named a key for the field.

    Args:
        named: The fields of keys, as named by the user.
        field: The field.
        keys: The possible keys.
        table: The usual names, the most usual first.
    """
    if field in named.values():
        return None
    return next((key for key in table if key in keys and key not in named), None)


# Any, here and below: values of all kinds.
def usual_fields(location: str, named: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the key that becomes "image", because it holds images, and the one that becomes "target", by its name.

    Args:
        location: For messages.
        named: The fields of keys that the user named. They win.
        columns: The first values of each key.
    """
    usual: dict[str, str] = {}
    images = {key.lower(): key for key, values in columns.items() if key not in named and holds_images(values)}
    if images and "image" not in named.values():
        key = next(iter(images)) if len(images) == 1 else usual_key(named, "image", images, IMAGES)
        if key is None:
            keys = list(images.values())
            raise ArgumentError(
                f"{location}: {', '.join(map(repr, keys))} hold images. Say which one is the field image: "
                f"--field {keys[0]}=image, or fields={{{keys[0]!r}: 'image'}}."
            )
        usual[images[key]] = "image"
    others = {key.lower(): key for key in columns if key not in named and not holds_images(columns[key])}
    label = usual_key(named, "target", others, LABELS)
    return usual | ({others[label]: "target"} if label else {})


def holds_images(values: Sequence[Any]) -> bool:
    """Whether the first value that is not None is an encoded image."""
    first = next((value for value in values if value is not None), None)
    return isinstance(first, bytes) and sniffed_ending(first) != ""


def image_ending(sample: Mapping[str, Any]) -> str:
    """Return the suffix for the record's name: that of its image's file."""
    image = sample.get("image")
    return sniffed_ending(image) if isinstance(image, bytes) else ""


def printable(text: str) -> str:
    """Return a text that UTF-8 can encode: other bytes of a file's name become ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_ending(name: str) -> tuple[str, str]:
    """Split a name into stem and image suffix; "" if it has no such suffix."""
    stem, dot, rest = name.rpartition(".")
    return (stem, f".{rest}") if stem and _ENDING.fullmatch(f"{dot}{rest}") else (name, "")


def file_name(text: str) -> str:
    """Return a text as the name of a file or directory: no separators, not hidden, at most 200 bytes."""
    name = as_file_name(printable(text).replace("/", "_").replace("\0", "_"))
    if not name or name.startswith("."):
        name = f"_{name}"
    data = name.encode()
    if len(data) <= _MAX_FILE_NAME:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{digest}-{data[-_MAX_FILE_NAME + 20 :].decode('utf-8', 'ignore')}"


def choose(taken: set[str], *names: str, start: str = "", end: str = "") -> str:
    """Take the first of some names that is free, or else the last one with a number.

    Case is ignored, as by the file systems of macOS and Windows.

    Args:
        taken: The names that are taken; the chosen one is added.
        names: The names, the best one first.
        start: Stands before each name.
        end: Stands behind each name.
    """
    numbered = (f"{names[-1]}-{number}" for number in itertools.count(2))
    all_names = (f"{start}{name}{end}" for name in itertools.chain(names, numbered))
    chosen = next(name for name in all_names if name.casefold() not in taken)
    taken.add(chosen.casefold())
    return chosen


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


# The fields of each message: number, name, type; * is a list. tensorflow/core/example/{example,feature}.proto
# (an `Example` is a `SequenceExample` without sequences), BVLC/caffe src/caffe/proto/caffe.proto, torchrecord/tr.proto.
_MESSAGES = {
    "BytesList": "1 value bytes*",
    "FloatList": "1 value float*",
    "Int64List": "1 value int64*",
    "Feature": "1 texts BytesList, 2 floats FloatList, 3 integers Int64List",
    "FeatureEntry": "1 key bytes, 2 value Feature",
    "Features": "1 feature FeatureEntry*",
    "FeatureList": "1 feature Feature*",
    "ListEntry": "1 key bytes, 2 value FeatureList",
    "FeatureLists": "1 feature_list ListEntry*",
    "Example": "1 features Features, 2 sequences FeatureLists",
    "Datum": "1 channels int64, 2 height int64, 3 width int64, 4 data bytes, 5 label int64, 6 floats float*, "
    "7 encoded bool",
    "Tensor": "1 dims int64*, 4 int32s int64*, 5 data bytes*, 6 texts bytes*, 10 int64s int64*",
    "TensorProtos": "1 protos Tensor*",
}


# Any, here and below: a message's class, which is made while the program runs.
@functools.cache
def _classes() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="recordzoo.proto", package="recordzoo", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            number, field, kind = text.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            made = message.field.add(name=field, number=int(number), label=label)
            if kind in _MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".recordzoo.{kind}"
            else:
                made.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"recordzoo.{name}")) for name in _MESSAGES
    }


def parsed(name: str, data: bytes) -> Any:
    """Read a message.

    Args:
        name: "Example", "Datum" or "TensorProtos".
        data: The whole message.

    Raises:
        ValueError: It is not such a message.
    """
    from google.protobuf.message import DecodeError

    try:
        return _classes()[name].FromString(data)
    except DecodeError as err:
        raise ValueError(str(err)) from err
