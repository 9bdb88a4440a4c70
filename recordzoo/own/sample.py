"""The recipes that store samples in their order: those of datasets and programs, and those of another tool's data."""

import dataclasses
import functools
import hashlib
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import cloudpickle
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.progress import default_progress
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, counted, shown
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, SampleError, SourceError
from recordzoo.formats import NAMES, find_foreign
from recordzoo.formats.base import Foreign, ForeignSource, PieceMember, classes_beside, first_of, without_braces
from recordzoo.own.columns import LIST_ENDINGS
from recordzoo.own.fields import Encoded, Fields, Kind, UnevenError, infer
from recordzoo.own.values import as_array, at_position, check_class_names, describe
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import ensure
from recordzoo.preparing.publish import generation
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.recipe import Blob, Recipe, Sidecar, Stored, Table
from recordzoo.records.arrays import arrays_of
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec, Manifest, SetKind
from recordzoo.records.reader import RecordReader, is_record_set

if TYPE_CHECKING:
    from recordzoo.own.targets import Reading

BLOCK = 256
"""The number of samples that share a side file."""

_ROWS = "rows"
"""The array of a side file that names the samples; the names of its columns begin with "."."""


class Row(NamedTuple):
    """A sample's place in its record set.

    Attributes:
        key: What its values are called, in the order of the samples. Contains no ".".
        name: Its name.
        splits: The splits that it belongs to.
        piece: What its name is unique in, if that is not the record set.
        remark: What was done to it.
    """

    key: str
    name: str = ""
    splits: Sequence[str] = ()
    piece: str = ""
    remark: str = ""

    def named(self, encoded: Encoded) -> "Row":
        """Return the row; without a name it is named by its key, with the ending of its first image's file."""
        endings = (ending for field, _, ending in encoded.blobs if field.kind in ("image", "picture"))
        return self if self.name else self._replace(name=self.key + next(endings, ""))

    def blobs(self, encoded: Encoded) -> Iterator[Blob]:
        """Give the sample's blobs; an image's key has the ending of its file."""
        for field, data, ending in encoded.blobs:
            yield Blob(field.name, f"{self.key}{ending}", data, checked=field.kind == "image", name=self.name)


class Rows:
    """Collects rows and numbers of samples, and writes a side file for each `BLOCK` of samples."""

    def __init__(self) -> None:
        self._found: list[tuple[Row, Mapping[str, NDArray[Any]]]] = []  # Any: of any dtype

    def add(self, row: Row, encoded: Encoded) -> Iterator[Sidecar]:
        """Add the next sample."""
        self._found.append((row, encoded.row))
        if len(self._found) >= BLOCK:
            yield from self.rest()

    def rest(self) -> Iterator[Sidecar]:
        """Return the side file of the remaining samples."""
        if self._found:
            rows, numbers = zip(*self._found, strict=True)
            yield packed(rows, {name: np.stack([each[name] for each in numbers]) for name in numbers[0]})
        self._found = []


# Any: of any dtype.
def packed(rows: Sequence[Row], columns: Mapping[str, NDArray[Any]]) -> Sidecar:
    """Return samples and the numbers of each field as one side file."""
    buffer = io.BytesIO()
    named = {f".{name}": column for name, column in columns.items()}
    data = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    np.savez(buffer, **{_ROWS: data}, **named)  # type: ignore[arg-type]  # its own allow_pickle
    return Sidecar(rows[0].key, buffer.getvalue())


def unpacked(sidecars: Mapping[str, bytes]) -> tuple[list[Row], dict[str, NDArray[Any]]]:
    """Put side files together, in the order of their samples."""
    blocks = [arrays_of(sidecars[name]) for name in sorted(sidecars)]
    rows = [Row(*each) for block in blocks for each in json.loads(block.pop(_ROWS).tobytes())]
    names = blocks[0] if blocks else ()
    return rows, {name[1:]: np.concatenate([block[name] for block in blocks]) for name in names}


class SampleRecipe(Recipe):
    """The recipe for samples of the same fields, in their order. A pickled copy has no data: its process has it.

    Args:
        output: The record set's directory.
        classes: Class names, if there are.
        metadata: JSON to store in the manifest.
        data: What yields the samples.

    Attributes:
        schema: Their fields; see `use`.
        payload: The pickled data, if it is not pickled as it is.
        replacing: The option that replaces an existing record set.
    """

    schema: Fields
    payload: bytes | None = None
    replacing = "refresh=True"
    kind = SetKind.OWN
    dataset: str = SetKind.OWN
    fields: Mapping[str, BlobSpec] = {}
    specs: Mapping[str, FieldSpec] = {}

    def __init__(
        self,
        output: Path,
        classes: Sequence[str] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        data: Any = None,  # Any: of each subclass
    ) -> None:
        self.output, self.metadata, self._data = output, metadata or {}, data
        self.classes = None if classes is None else tuple(classes)

    def use(self, schema: Fields) -> Self:
        """Store samples of these fields."""
        self.schema = schema
        self.fields = {name: field.spec for name, field in schema.fields.items() if field.spec is not None}
        return self

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data": None, "payload": b""}

    @property
    def token(self) -> str:
        """What the data is called in a worker process."""
        return json.dumps(self.metadata)

    @property
    def data(self) -> Any:
        """What yields the samples: this recipe's, or what the worker process was brought."""
        return _in_worker[self.token] if self._data is None else self._data

    @property
    def set_name(self) -> str:
        """See `Recipe`: the user's name for it."""
        return self.output.name

    @override
    def target(self, root: Path) -> Path:
        return self.output

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: there is nothing to find."""
        return None

    @override
    def looked_for(self, root: Path) -> list[str]:
        return []

    @override
    def worker_setup(self) -> Callable[[], None] | None:
        payload = cloudpickle.dumps(self._data) if self.payload is None else self.payload
        return functools.partial(_bring, self.token, payload)

    def read(self, member: Member) -> Iterator[tuple[Row, Encoded]]:
        """Yield the samples for which a member stands, with their rows."""
        yield from ()

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        rows = Rows()
        for row, encoded in self.read(member):
            yield from row.blobs(encoded)
            yield from rows.add(row.named(encoded), encoded)
        yield from rows.rest()

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        found, columns = unpacked(sidecars)
        skipped = {_key_of(key) for keys in stored.skipped.values() for key in keys}
        kept = [number for number, row in enumerate(found) if row.key not in skipped]
        rows, columns = [found[number] for number in kept], {name: each[kept] for name, each in columns.items()}
        is_unique = len({row.name for row in found}) == len(found)
        remarks: dict[str, JSON] = dict(Counter(row.remark for row in rows if row.remark))
        blobs = {name: {_key_of(key): key for key in stored.keys.get(name, ())} for name in self.fields}
        splits: dict[str, list[int]] = {split: [] for row in found for split in row.splits}
        for position, row in enumerate(rows):
            for split in row.splits:
                splits[split].append(position)
        return Table(
            names=[f"{row.piece}/{row.name}" if row.piece and not is_unique else row.name for row in rows],
            keys={name: [keys.get(row.key) for row in rows] for name, keys in blobs.items()},
            arrays={name: column for name, column in columns.items() if not name.endswith(".shape")},
            splits={split: np.array(positions, np.int64) for split, positions in splits.items()},
            classes=self.classes,
            fields={name: spec for name, spec in self.specs.items() if _fits(spec, columns.get(name))},
            metadata={**self.metadata, "sample": self.schema.to_json(), **({"remarks": remarks} if remarks else {})},
            shapes={name.removesuffix(".shape"): c for name, c in columns.items() if name.endswith(".shape")},
        )


def _key_of(name: str) -> str:
    """Return a blob's key without the ending of an image's file."""
    return name.partition(".")[0]


# Any: of any dtype.
def _fits(spec: FieldSpec, column: NDArray[Any] | None) -> bool:
    """Whether a field's stored type fits its kind: class numbers are integers."""
    return spec.kind is not FieldKind.CLASS or (column is not None and column.ndim == 1 and column.dtype.kind in "iu")


_in_worker: dict[str, Any] = {}  # Any: the data of recipes, by token


def _bring(token: str, payload: bytes) -> None:
    """In a worker process: unpack the data, once."""
    _in_worker[token] = cloudpickle.loads(payload)


def store(recipe: SampleRecipe, options: Options) -> Path:
    """Make a record set of samples; begin again with another kind if a field's values turn out to differ.

    Args:
        recipe: Its recipe.
        options: How it is made.

    Raises:
        SampleError: A sample cannot be stored.
        OtherSourceError: The set is there, and holds something else.
        RecordZooError: As `ensure`.
    """
    place, progress = recipe.output, options.progress or default_progress()
    before = generation(place)
    if options.refresh == "if-changed":
        refresh = is_record_set(place) and recipe.difference(RecordReader(place).manifest, place.parent) is not None
        options = dataclasses.replace(options, refresh=refresh)
    while True:
        try:
            ensure(recipe, place.parent, options, prepare=True, records_dir=place)
            break
        except UnevenError as err:
            recipe.use(err.details["fields"])
            progress.note(f"{err} It is stored as {', '.join(err.details['kinds'].values())}; beginning again.")
    # Also if it was just made: another process may have published another set meanwhile.
    manifest = RecordReader(place).manifest
    if problem := recipe.difference(manifest, place.parent):
        raise OtherSourceError(
            f"{place} is there and {problem}. Pass {recipe.replacing} to replace it, or another output.",
            path=str(place),
        )
    for remark, count in manifest.metadata.get("remarks", {}).items() if generation(place) != before else ():
        progress.note(f"{place.name}: {counted(count, 'sample')}: {remark}")
    return place


def check_classes(classes: Sequence[str] | None) -> None:
    """Raise if the class names are one string instead of a sequence.

    Raises:
        ArgumentError: They are.
    """
    if isinstance(classes, str):
        raise ArgumentError(f"Argument classes is {classes!r}; it must be a list of names.")


# Any: a label may be anything.
def label_problem(label: Any, num_classes: int | None) -> str | None:
    """Say why a target is no label of some classes; None if it is one, no whole number, or there are no classes."""
    number = as_array(label)
    if num_classes is None or number is None or number.ndim or number.dtype.kind not in "iu":
        return None
    if 0 <= int(number) < num_classes:
        return None
    classes = counted(num_classes, "class", "classes")
    return f"'target' {label} is not a label: with {classes}, labels are 0 to {num_classes - 1}"


class ForeignRecipe(SampleRecipe):
    """Another tool's data as records, in the same order.

    Nothing that is read is executed, imported or unpickled, and nothing is written beside it.

    Args:
        location: An absolute path, or an address.
        output: The record set's directory.
        reading: What the user says of it.

    Raises:
        NotPreparedError: There is nothing of a known format.
        SourceError, PrepareError: As ``find`` of the formats.
        ArgumentError: `location` holds several databases.
    """

    kind = SetKind.IMPORTED
    replacing = "refresh=True (--refresh)"

    def __init__(self, location: str, output: Path, reading: "Reading") -> None:
        format = "zip" if reading.from_ == "classes" else reading.from_
        foreign = find_foreign(location, format, reading.fields)
        if foreign is None:
            raise _unknown_format(location)
        foreign.allows_paths = reading.allow_paths
        if reading.list_ is not None:
            foreign.order_by(Path(reading.list_).expanduser())
        super().__init__(output, data=foreign)
        self._format, self._list, self._kinds = format, reading.list_, reading.kinds

    @override
    def find(self, root: Path) -> Source | None:
        """Return the pieces; the first call opens the data and determines its fields.

        Raises:
            RemoteError, SourceError: The data cannot be downloaded, is empty or damaged.
            SampleError: A value cannot be stored; the message names its file.
        """
        foreign: Foreign = self.data
        if not self.metadata:
            foreign.open()
            foreign.classes = classes_beside(foreign.location) if foreign.classes is None else foreign.classes
            names = (name for spec in foreign.specs.values() for name in spec.names or ())
            check_class_names([*(foreign.classes or ()), *names], foreign.location)
            self.use(_schema_of(foreign, self._kinds))
            self.classes = None if foreign.classes is None else tuple(foreign.classes)
            self.dataset, self.origin, self.specs = foreign.format, foreign.origin or foreign.format, foreign.specs
            self.metadata = {**foreign.metadata, "identity": self._identity(), "named": foreign.fields}
        return ForeignSource(foreign)

    def _identity(self) -> str:
        """Return the digest of the dataset, with that of the class names beside it."""
        identity, names = self.data.identity(), classes_beside(self.data.location)
        return identity if names is None else hashlib.sha256(json.dumps([identity, names]).encode()).hexdigest()

    @override
    def difference(self, manifest: Manifest, root: Path) -> str | None:
        held = manifest.metadata
        if held.get("identity") != self._identity() or self._format not in (None, manifest.dataset):
            return f"holds other records or class names than {self.data.location}"
        if held.get("named") != self.data.fields:
            return f"holds the same samples with other fields: {held.get('named') or 'the default ones'}"
        return None

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"schema": self.schema.identity(), "format": self.origin}

    @override
    def title(self, root: Path) -> str:
        return Path(self.data.location).name or str(self.data.location)

    @override
    def command(self, root: Path) -> str:
        named = [word for key, field in self.data.fields.items() for word in ("--field", f"{key}={field}")]
        allowed = ["--allow-paths"] if self.data.allows_paths else []
        listed = ["--list", self._list] if self._list is not None else []
        return command("prepare", self.data.location, *named, *allowed, *listed, "--output", self.output)

    @override
    def read(self, member: Member) -> Iterator[tuple[Row, Encoded]]:
        """See `SampleRecipe`: a member stands for a piece.

        Raises:
            SourceError: The piece is damaged.
            SampleError: A sample cannot be stored.
        """
        assert isinstance(member, PieceMember)
        foreign, piece = self.data, member.piece
        splits = [piece.split] if piece.split else []
        for number, sample in enumerate(foreign.read(piece)):
            with at_position(number, f"of {piece.name} in {foreign.location}"):
                if not isinstance(sample.name, str) or not sample.name:
                    raise SampleError(f"its name is a {describe(sample.name)}, not a text")
                encoded = self.schema.encode(sample.values)
            yield Row(f"{member.name}-{number:09d}", sample.name, splits, piece.name, sample.remark), encoded

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`.

        Raises:
            SourceError: Two samples have one name, or a label is beyond the names of classes.
        """
        table = super().build_table(stored, sidecars)
        if len(set(table.names)) != len(table.names):
            twice = next(name for name, count in Counter(table.names).items() if count > 1)
            raise SourceError(f"{self.output}: two records are called {twice!r}.", path=str(self.output))
        labels = table.arrays.get("target", np.zeros(0))
        if self.classes is not None and labels.size and labels.max() >= len(self.classes):
            raise SourceError(
                f"{self.output}: label {labels.max()} has no name; {len(self.classes)} classes have one. If their "
                "names are in classes.json, correct that file and run the same again.",
                path=str(self.output),
            )
        return table


def _unknown_format(location: str) -> NotPreparedError:
    if "://" not in location and not Path(location).exists():
        return NotPreparedError(f"There is nothing at {location}.", path=location)
    return NotPreparedError(
        f"{shown(location)} is of no known format. Known are: a directory with one folder for each class, or with "
        f"images and their annotations (COCO, YOLO, VOC, masks: give the directory, not a file in it); a list of files "
        f"({', '.join(LIST_ENDINGS)}); {', '.join(NAMES)}. Unpack other archives; save other tables as .csv. Anything "
        "else: recordzoo.convert(dataset).",
        path=shown(location),
    )


def _schema_of(foreign: Foreign, kinds: Mapping[str, Kind]) -> Fields:
    """Find the fields from some samples."""
    first = list(first_of(foreign.pieces, foreign.read))
    if not first:
        raise SourceError(f"{foreign.location} is empty: there is no sample in it.", path=foreign.location)
    stored = {name: cast(Kind, kind) for name, kind in foreign.kinds.items() if name != "name"}
    samples = {number: each.values for number, (_, each) in enumerate(first)}
    try:
        # Kinds of the format may turn out to be too narrow; those of the user stay.
        schema = dataclasses.replace(infer(samples, None, {**stored, **kinds}, has_gaps=True), kinds=kinds)
    except SampleError as err:
        position = err.details.pop("position", 0)
        piece, sample = first[position]
        where = f"{', '.join(map(str, piece.files)) or foreign.location}, sample {sample.name!r}"
        raise type(err)(f"{where}: {str(err).removeprefix(f'position {position}: ')}", **err.details) from err
    if "image" in schema.fields and schema.fields["image"].kind == "json" and "image" not in kinds:
        value = next(each["image"] for each in samples.values() if each["image"] is not None)
        raise ArgumentError(
            f"{foreign.location}: the field 'image' would hold a {describe(value)}, no image. Name another field for "
            "it: --field KEY=FIELD (fields={KEY: FIELD}); or store single images with recordzoo.convert."
        )
    return schema


def default_place(location: str) -> Path:
    """Return LOCATION with the ending .records: ``train.records`` for ``train-{00..12}.tar.gz``.

    For an address, it is the last part in the current directory; for a table in a file, the last part beside the file.
    """
    if "://" in location:
        name = shown(location).rstrip("/").rpartition("/")[2]
        return Path(name).absolute().with_suffix(".records")
    whole = Path(location).absolute()
    name = re.sub(r"\.(tar|tar\.\w+|tgz)$", ".records", whole.name, flags=re.IGNORECASE)
    if "{" in location and not whole.exists():
        folder = Path(*itertools.takewhile(lambda part: "{" not in part, whole.parts))
        name = without_braces(name)
        return folder.with_suffix(".records") if name in ("", ".records") else (folder / name).with_suffix(".records")
    place = whole.with_name(name).with_suffix(".records")
    file = next((each for each in place.parents if each.is_file()), None)
    return place if file is None else file.with_name(place.name)
