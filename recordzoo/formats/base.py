"""`Foreign`: a dataset stored by another tool as independently readable pieces; its samples; its pieces as raw data.

At the end, the files behind a path: numbered shards, braces, splits, and a check that none is missing.
"""

import base64
import datetime
import functools
import hashlib
import itertools
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonpath
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from recordzoo.base.files import read_text
from recordzoo.base.text import JSON, did_you_mean
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.raw.member import FileTable, Member, SizedSource, Unit
from recordzoo.recipes.declared import SPLIT_NAMES
from recordzoo.recipes.recipe import sniffed_ending
from recordzoo.records.manifest import FieldSpec, is_field_name

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

CLASSES_NAME = "classes.json"
"""File with the class names in label order, in the folder of a format that cannot store them."""

MAX_FIELDS = 1024
"""Maximum number of keys of a dataset."""

_NO_NAME = re.compile(r"[^a-z0-9_]+")
_LONGEST = 64
_MAX_CLASSES_BYTES = 16 << 20
_LOOKED_AT, _PIECES_LOOKED_AT = 64, 8
_PIECE_BYTES, _FEWEST_PIECES = 16 << 20, 16


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
        remark: What was done to it, to be counted: "2 samples: ...".
    """

    # Any: whatever the user gives; the recipe that stores samples checks names.
    name: Any
    values: Mapping[str, Any]
    remark: str = ""

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
        format: The name of the format for `--from`.
        origin: The record set's name for its source, if not the format.
        allows_paths: Whether paths in the data may lead to files anywhere.
        pieces: The pieces, in order.
        classes: Class names by label, if stored.
        kinds: The storage of fields (as in `convert`), where the format defines it. Others are inferred from values.
        specs: The types of fields, where the format defines them: class names, text.
        metadata: What the fields do not hold; JSON for the record set's metadata.

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
        self.metadata: Mapping[str, JSON] = {}

    def open(self) -> None:  # noqa: B027 - most have nothing to do
        """Download remote data. Called once, before `pieces` is used, after `identity` is compared.

        Raises:
            RemoteError, SourceError: The data cannot be downloaded, or is damaged.
        """

    def order_by(self, path: Path) -> None:
        """Take order and labels from a list of the user's.

        Raises:
            ArgumentError: This format has no such lists.
        """
        raise ArgumentError(f"list_ (--list) is for MongoDB; {self.location} is {self.format}.")

    @abstractmethod
    def read(self, piece: Piece) -> Iterator[Sample]:
        """Yield the samples of a piece, in order; all have the same fields, with None for missing values.

        Raises:
            SourceError: The piece is damaged or has unsupported content; the message gives the location.
        """

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
        usual: dict[str, str] = {}
        free = {key: holds_images(values) for key, values in columns.items() if key not in self.fields}
        images = {key.lower(): key for key, is_image in free.items() if is_image}
        if images and "image" not in self.fields.values():
            key = next(iter(images)) if len(images) == 1 else self.usual_key("image", images, IMAGES)
            if key is None:
                keys = list(images.values())
                raise ArgumentError(
                    f"{self.location}: {', '.join(map(repr, keys))} hold images. Say which one is the field image: "
                    f"--field {keys[0]}=image, or fields={{{keys[0]!r}: 'image'}}."
                )
            usual[images[key]] = "image"
        others = {key.lower(): key for key, is_image in free.items() if not is_image}
        if label := self.usual_key("target", others, LABELS):
            usual[others[label]] = "target"
        return self.name_fields(list(columns), usual)

    def usual_key(self, field: str, keys: Container[str], table: Sequence[str]) -> str | None:
        """Return the key that becomes a field by its usual name; None if the user named a key for the field.

        Args:
            field: The field.
            keys: The possible keys.
            table: The usual names, the most usual first.
        """
        if field in self.fields.values():
            return None
        return next((key for key in table if key in keys and key not in self.fields), None)

    def check_fields(self, keys: Sequence[str]) -> None:
        """Refuse names for missing keys, and too many keys.

        Raises:
            ArgumentError: A named key does not exist.
            SourceError: There are more than `MAX_FIELDS`.
        """
        if len(keys) > MAX_FIELDS:
            raise fault(self.location, f" has {len(keys):,} fields; {MAX_FIELDS:,} are the most.")
        for key in self.fields:
            if key not in keys:
                raise ArgumentError(
                    f"{self.location} has no {key!r}, which argument fields names. It has {', '.join(map(repr, keys))}."
                    f"{did_you_mean(key, keys)}"
                )


def fault(path: Path | str, text: str) -> SourceError:
    """Return the error of a file or a location; `text` follows the path in the message."""
    return SourceError(f"{path}{text}", path=str(path))


def first_bytes(path: Path, count: int) -> bytes:
    """Read the first bytes of a file, by which a format is recognised."""
    with path.open("rb") as file:
        return file.read(count)


def first_of(
    pieces: Sequence[Piece], read: Callable[[Piece], Iterator[_T]], *, most: int = _LOOKED_AT, elsewhere: int = 1
) -> Iterator[tuple[Piece, _T]]:
    """Read samples to determine the fields: at most `most` of the first piece, and `elsewhere` of some others."""
    for number, piece in enumerate(pieces[:: max(1, len(pieces) // _PIECES_LOOKED_AT)]):
        yield from ((piece, each) for each in itertools.islice(read(piece), elsewhere if number else most))


def even_ranges(start: int, stop: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut a range of samples of so many bytes into ranges for pieces of about 16 MiB, or smaller: at least 16."""
    count = min(stop - start, max(_FEWEST_PIECES, size_bytes // _PIECE_BYTES))
    return itertools.pairwise(start + (stop - start) * number // max(1, count) for number in range(count + 1))


def classes_beside(location: str) -> list[str] | None:
    """Return the class names from `CLASSES_NAME` in the folder, or beside the file, as written by an export, if there.

    Raises:
        SourceError: The file is not a list of names.
    """
    folder = next((each for each in (Path(location), *Path(location).parents) if each.is_dir()), Path())
    path = folder / CLASSES_NAME
    if "://" in location or not path.is_file():
        return None
    text = read_text(path, most=_MAX_CLASSES_BYTES)
    try:
        found = json.loads(text)
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
        return [piece.size_bytes for piece in self.foreign.pieces]

    @override
    def fingerprint(self) -> str:
        return self.foreign.files(self.foreign.pieces).fingerprint(self.foreign.identity().encode())

    @override
    def unit(self, start: int, stop: int) -> Unit:
        pieces = self.foreign.pieces[start:stop]
        table = self.foreign.files(pieces)
        return unit_of(start, pieces, table.stamp(0, len(table)))


def field_name(key: str) -> str:
    """Return a valid name of a field for a key: ``image/class/text`` becomes ``image_class_text``."""
    name = _NO_NAME.sub("_", key.lower()).strip("_")[:_LONGEST]
    if not is_field_name(name):
        name = f"field_{name}".rstrip("_")[:_LONGEST]
    return name


def split_name(text: str) -> str:
    """Return a valid name of a split: small letters, digits and "-" only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


# Any, here and below: values of all kinds.
def holds_images(values: Sequence[Any]) -> bool:
    """Whether the first value that is not None is an encoded image."""
    first = next((value for value in values if value is not None), None)
    return isinstance(first, bytes) and sniffed_ending(first) != ""


def plain(value: Any) -> Any:
    """Return a value for JSON: times in ISO 8601, bytes in base64, decimals and identifiers as text."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return int(value)  # of a class of its own, as BSON has them
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.item() if hasattr(value, "item") else str(value)  # pyarrow has numbers of NumPy, of 16 bits


def image_ending(sample: Mapping[str, Any]) -> str:
    """Return the suffix for the record's name: that of its image's file."""
    image = sample.get("image")
    return sniffed_ending(image) if isinstance(image, bytes) else ""


def unit_of(start: int, pieces: Sequence[Piece], stamp: str = "") -> Unit:
    """Return the unit of consecutive pieces."""
    members = [
        PieceMember(f"{place:012d}", piece.size_bytes, bytes, piece) for place, piece in enumerate(pieces, start)
    ]
    return Unit(functools.partial(iter, members), sum(piece.size_bytes for piece in pieces), stamp)


@dataclass(frozen=True, slots=True)
class PieceMember(Member):
    """A piece as a member; its name is its number."""

    piece: Piece


MAX_NAMES = 1_000_000

NUMBERED = re.compile(
    r"(?P<prefix>.*?)[-_.]?(?P<number>\d+)-of-(?P<total>\d{1,6})(-[0-9a-f]+)?(?P<ending>\D*|\..*)", re.DOTALL
)
_NUMBER = re.compile(r"(?P<prefix>.*?)[-_.]?(?P<number>\d+)(?:-of-(?P<total>\d{1,9}))?", re.DOTALL)
_NUM_NAMED = 10
_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})(?:\.\.(\d{1,18}))?")


def expand(text: str) -> list[str]:
    """Expand braces to names; the last group changes fastest, as in a shell.

    A group is a range of numbers, with a step if there is a third number (``{00..10..2}``), or a list. Numbers have the
    digits of the longer end if one begins with 0. Anything else in braces stands for itself.
    """
    parts: list[Sequence[str]] = []
    for number, part in enumerate(_GROUP.split(text)):
        parts.append(_choices(part) if number % 2 else [part])
        if math.prod(map(len, parts)) > MAX_NAMES:
            raise ArgumentError(f"{text} stands for more than {MAX_NAMES:,} names.")
    return ["".join(choice) for choice in itertools.product(*parts)]


def without_braces(text: str) -> str:
    """Leave out groups in braces, with what joins them to the text before: ``train.tar`` of ``train-{00..12}.tar``."""
    return re.sub(r"[-_.]?\{[^{}]*\}", "", text)


def _choices(group: str) -> Sequence[str]:
    match = _RANGE.fullmatch(group)
    if match is None:
        return group.split(",") if "," in group else [f"{{{group}}}"]
    ends = match[1], match[2]
    width = max(map(len, ends)) if any(end.startswith("0") and end != "0" for end in ends) else 0
    first, last = map(int, ends)
    step = max(1, int(match[3] or 1))
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > MAX_NAMES:
        raise ArgumentError(f"{{{group}}} stands for more than {MAX_NAMES:,} names.")
    return [f"{number:0{width}d}" for number in numbers]


def shard_pieces(files: Sequence[Path], endings: Sequence[str]) -> list[Piece]:
    """Return a piece for each file, called as the file without its ending."""
    folder = Path(commonpath([path.parent for path in files]))
    names = [path.relative_to(folder).as_posix() for path in files]
    stems = [_stem(name, endings) for name in names]
    stems = stems if len(set(stems)) == len(stems) else names  # the same name with another ending
    return [
        Piece(stem, path.stat().st_size, (path,), split=split)
        for stem, path, split in zip(stems, files, split_names(stems), strict=True)
    ]


def _stem(name: str, endings: Sequence[str]) -> str:
    ending = max((each for each in endings if name.lower().endswith(each)), key=len, default="")
    return name[: len(name) - len(ending)]


def find_shards(location: str, endings: Sequence[str]) -> list[Path]:
    """Find the shards of a path, in the order of their names; with braces, in the order of the expression.

    In a directory without any, folders called ``train``, ``val``, ... or ``data`` are looked at, and such in these.
    """
    path = Path(location)
    if path.is_dir():
        files = _inside(path, endings, depth=2)
        refuse_missing([path.name for path in files], location)
        return files
    if not location.lower().endswith(tuple(endings)):
        return []
    if path.is_file() or "{" not in location:
        return [path] if path.is_file() else []
    files = [Path(name) for name in expand(location)]
    _refuse_any([each.name for each in files if not each.is_file()], len(files), location)
    twice = next((path for path, count in Counter(files).items() if count > 1), None)
    if twice is not None:
        raise fault(location, f": it names {twice.name} twice.")
    return files


def _inside(folder: Path, endings: Sequence[str], depth: int) -> list[Path]:
    there = sorted(folder.iterdir())
    named = [path for path in there if path.name.lower().endswith(tuple(endings)) and not path.name.startswith(".")]
    files = [path for path in named if path.is_file()]
    if files or not depth:
        return files
    folders = [path for path in there if path.name.lower() in (*SPLIT_NAMES, "data") and path.is_dir()]
    return [file for each in folders for file in _inside(each, endings, depth - 1)]


def refuse_missing(names: Iterable[str], where: str) -> None:
    """Raise if numbered files are incomplete: ``train-00000-of-00008.tar``."""
    sets: dict[tuple[str, int, str, str], set[int]] = {}
    for match in filter(None, map(NUMBERED.fullmatch, names)):
        start = match.string[: match.start("number")]
        key = start, len(match["number"]), match["total"], match["ending"]
        sets.setdefault(key, set()).add(int(match["number"]))
    for (start, width, total, end), there in sorted(sets.items()):
        missing = [number for number in range(int(total)) if number not in there]
        _refuse_any([f"{start}{number:0{width}d}-of-{total}{end}" for number in missing], int(total), where)


def _refuse_any(missing: Sequence[str], count: int, where: str) -> None:
    if missing:
        raise fault(
            where,
            f": {len(missing)} of {count} files are missing: {', '.join(missing[:_NUM_NAMED])}"
            f"{' and more' if len(missing) > _NUM_NAMED else ''}.",
        )


def split_names(stems: Sequence[str], *, is_any: bool = False) -> list[str]:
    """Return the split of each file: the text before its number, or its folder; "" if all are equal.

    Args:
        stems: The files' names without endings.
        is_any: Whether any word is a split, the last one before the number. Otherwise a word that is no usual one is a
            split only if all files are numbered.
    """
    prefixes = [_prefix(stem) for stem in stems]
    short = {prefix: _short(prefix, is_any=is_any) for prefix in prefixes}
    if len(set(short.values())) < len(short):
        short = {prefix: split_name(prefix) for prefix in prefixes}
    has_splits = len(short) > 1 and (is_any or all(map(_split_words, prefixes)) or all(map(_NUMBER.fullmatch, stems)))
    return [short[prefix] if has_splits else "" for prefix in prefixes]


def _prefix(stem: str) -> str:
    """Return the part of a name that shards of a split share: ``train`` of ``train-000012`` and ``train/000012``."""
    match = _NUMBER.fullmatch(stem)
    return (match["prefix"] if match else stem).rstrip("/-_.")


def _short(prefix: str, *, is_any: bool) -> str:
    """Return its last word that is a usual split; otherwise all of it, or its last word."""
    words = _split_words(prefix)
    return split_name(words[-1] if words else (prefix.rpartition("-")[2] or prefix) if is_any else prefix)


def _split_words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-zA-Z0-9]+", text) if word.lower() in SPLIT_NAMES]
