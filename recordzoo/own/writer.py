"""`convert` and `RecordWriter`: the samples of a dataset, or the records of a program → a record set."""

import contextlib
import dataclasses
import functools
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Unpack

import cloudpickle
import numpy as np
from typing_extensions import override

from recordzoo.base.files import behind_links
from recordzoo.base.progress import default_progress
from recordzoo.base.text import JSON, counted
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError, SampleError
from recordzoo.formats.base import Piece, PieceMember, unit_of
from recordzoo.own.fields import Encoded, Fields, Kind, UnevenError, infer
from recordzoo.own.sample import BLOCK, Row, Rows, SampleRecipe, check_classes, label_problem, packed, store, unpacked
from recordzoo.own.values import at_position, describe, is_storable, update
from recordzoo.preparing.assemble import Stream
from recordzoo.preparing.options import Options, OwnOptions
from recordzoo.preparing.publish import ANOTHER_PATH, Output, check_place, disk_error, publishing
from recordzoo.raw.member import Member, SizedSource, Source, Unit
from recordzoo.records.manifest import SPLIT_PATTERN, Manifest
from recordzoo.records.reader import is_record_set
from recordzoo.records.shard import MAX_VALUE_BYTES

_LOOKED_AT = 64  # samples that decide how fields are stored, and whether a set is of this dataset
_READ_TWICE = 8


class MapStyle(Protocol):
    """The methods of a dataset that `convert` calls: those of `torch.utils.data.Dataset`, and a length."""

    def __len__(self) -> int: ...

    # Any: samples are whatever the dataset gives.
    def __getitem__(self, index: int, /) -> Any: ...


def convert(
    dataset: MapStyle,
    output: str | os.PathLike[str],
    *,
    fields: Sequence[str] | Mapping[str, str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    classes: Sequence[str] | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Store every sample of a map-style dataset, in its order, as a record set; `ImageFolderRecord` opens it.

    A sample is a tuple (its items become the fields "image", "target", "field_2", ...), a dict (its keys are the
    fields' names) or one value ("image"). How a field is stored follows from 64 samples, looked at first:

    * ``bytes``: untouched; an encoded image costs nothing but the copy.
    * PIL images, and uint8 arrays ``[H, W]`` or ``[H, W, C]`` and tensors ``[C, H, W]`` with 1, 3 or 4 channels:
      losslessly, as PNG (TIFF for the modes that PNG has not), or as raw pixels if those take no more room, as small
      images of one size do.
    * Other arrays and tensors: raw, with dtype and shape; up to 1 KiB and of one shape, as rows of an array. All arrays
      of a field have one dtype and one number of dimensions.
    * Numbers: an array. A tuple of numbers and arrays: a field each (``target_0``, ``target_1``).
    * A dict with arrays, such as ``{"boxes": [N, 4], "labels": [N]}``: a field for each key (``boxes``, ``labels``).
    * Strings, lists and other dicts: JSON (arrays in it become lists).
    * None: no value, in any sample; only "image" must have one.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time. What is
    there already is left alone if it is of this dataset.

    Args:
        dataset: Has ``__len__`` and ``__getitem__``; must give the same sample each time it is asked for it, so leave
            random transforms out.
        output: The record set's directory: ``my.records``.
        fields: Names for the items of a tuple, or other names for the keys of a dict, instead of the ones above.
        kinds: How fields are stored, where it shall not be as above: "image", "bytes", "picture" (PNG), "pixels" (raw
            pixels), "raw", "array" or "json", by field.
        classes: Class names by label; by default those of ``dataset.classes``.
        **options: See `OwnOptions`.

    Returns:
        The record set's directory.

    Raises:
        SampleError: A sample cannot be stored, its label has none of the names in `classes`, or the dataset raised an
            `OSError`; ``position`` is its place. Anything else that the dataset raises goes through, with a note.
        ArgumentError: It is no dataset that has a length, or gives another sample each time.
        OtherSourceError: `output` holds something else.
        PrepareError: The disk is full, or a process was killed; what is finished is kept.

    Examples:
        >>> recordzoo.convert(dataset, "my.records")
        PosixPath('my.records')
        >>> dataset = recordzoo.ImageFolderRecord("my.records")
    """
    place = Path(output).expanduser().absolute()
    wanted = Options.of(options, "convert()", OwnOptions)
    check_classes(classes)
    check_place(place, ANOTHER_PATH)
    _check_dataset(dataset)
    recipe = DatasetRecipe(dataset, place, fields, kinds or {}, classes)
    if wanted.refresh or not is_record_set(place):
        wanted = recipe.suited(wanted)
    return store(recipe, wanted)


# Any: the user may pass anything.
def _check_dataset(dataset: Any) -> None:
    """Raise unless it is a map-style dataset with at least one sample."""
    is_other = isinstance(dataset, os.PathLike | str | bytes | type | Mapping)
    if is_other or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ArgumentError(
            f"A {describe(dataset)} is no map-style dataset, an object with __len__ and __getitem__. Pass an object of "
            "a class, or one dataset of a dict; files at a path become records by prepare(path)."
        )
    if len(dataset) == 0:
        raise ArgumentError(f"{type(dataset).__name__} is empty; there is nothing to convert.")


# Any: a sample.
def _sample_of(dataset: MapStyle, position: int) -> Any:
    """Read a sample of a dataset; an error of the dataset gets the position as a note.

    Raises:
        SampleError: It raised an `OSError`, which would be taken for one of the disk that the records go to.
    """
    try:
        return dataset[position]
    except OSError as err:
        raise SampleError(
            f"position {position}: {type(dataset).__name__} raised {type(err).__name__}: {err}", position=position
        ) from err
    except Exception as err:
        err.add_note(f"while reading sample {position} of {type(dataset).__name__}")
        raise


# Any: samples.
def _digest(samples: Mapping[int, Any], start: str = "") -> str:
    digest = hashlib.sha256(start.encode())
    for position, sample in samples.items():
        with at_position(position):
            update(digest, sample)
    return digest.hexdigest()


class Probe(SizedSource):
    """Samples spread over a dataset, which is the raw data: it is cut into ranges of positions.

    Attributes:
        name: The dataset's class.
        count: How many samples it has.
        samples: Some of them, by position.
        sample_bytes: Estimated size of a stored sample.
    """

    word = "samples"
    samples: Mapping[int, Any]  # Any: samples

    def __init__(self, dataset: MapStyle, sample_bytes: int = 1) -> None:
        self.name, self.count, self.sample_bytes = type(dataset).__qualname__, len(dataset), sample_bytes
        positions = np.linspace(0, self.count - 1, min(self.count, _LOOKED_AT)).round().astype(int)
        self.samples = {position: _sample_of(dataset, position) for position in np.unique(positions).tolist()}

    @functools.cached_property
    def digest(self) -> str:
        """Changes when one of the samples does, or the number of all.

        Raises:
            SampleError: A sample cannot be stored.
        """
        return _digest(self.samples, str(self.count))

    def check_repeats(self, dataset: MapStyle) -> None:
        """Read some samples again and compare them.

        Raises:
            ArgumentError: They have changed.
        """
        for position in list(self.samples)[:: max(1, len(self.samples) // _READ_TWICE)]:
            before, now = self.samples[position], _sample_of(dataset, position)
            if _digest({position: before}) != _digest({position: now}):
                raise ArgumentError(
                    f"{type(dataset).__name__}[{position}] gives another sample each time it is asked for. Convert it "
                    "without its random transforms, and apply them when the records are read."
                )

    @property
    @override
    def description(self) -> str:
        return f"{self.name} ({counted(self.count, 'sample')})"

    @override
    def fingerprint(self) -> str:
        return self.digest

    @override
    def member_sizes(self) -> Sequence[int]:
        return [self.sample_bytes] * self.count

    @override
    def unit(self, start: int, stop: int) -> Unit:
        blocks = [range(first, min(first + BLOCK, stop)) for first in range(start, stop, BLOCK)]
        pieces = (Piece("", len(block) * self.sample_bytes, (), block.start, block.stop) for block in blocks)
        return unit_of(start, tuple(pieces))


class DatasetRecipe(SampleRecipe):
    """The samples of a dataset. Record sets keep the class and some samples of it."""

    origin = "samples"

    def __init__(
        self,
        dataset: MapStyle,
        output: Path,
        fields: Sequence[str] | Mapping[str, str] | None,
        kinds: Mapping[str, Kind],
        classes: Sequence[str] | None,
    ) -> None:
        probe = Probe(dataset)
        schema = infer(probe.samples, fields, kinds)
        probe.check_repeats(dataset)
        metadata = {"samples": probe.digest, "kinds": dict(kinds), "origin": probe.name}
        super().__init__(output, _classes(dataset) if classes is None else classes, metadata, dataset)
        self._num_labels = None if classes is None else len(classes)  # the dataset's own may be something else
        self._width, self._sample_bytes = max(6, len(str(probe.count - 1))), 1
        self._probe: Probe | None = probe
        self.use(schema)

    def suited(self, options: Options) -> Options:
        """Choose the size of shards, and one process for a dataset that cannot be sent to others."""
        probe = self._probe
        assert probe is not None  # before `find`
        sizes = [self._encode(position, sample).size_bytes for position, sample in probe.samples.items()]
        self._sample_bytes = probe.sample_bytes = max(1, sum(sizes) // len(sizes))
        if not options.layout:
            # Smaller than for files: making a sample may be slow, and each process fills shards of its own.
            options = dataclasses.replace(options, shard_bytes=max(4 << 20, min(1 << 30, probe.size_bytes // 8)))
        self.payload = b""
        try:
            self.payload = cloudpickle.dumps(self.data)  # with its lambdas
        except Exception as err:
            what = f"{type(self.data).__name__} cannot be sent to"
            why = f"({type(err).__name__}: {err})"
            if options.executor is None:
                (options.progress or default_progress()).note(f"{what} other processes {why}: one does it all.")
                return dataclasses.replace(options, workers=1)
            if not isinstance(options.executor, ThreadPoolExecutor):
                raise ArgumentError(
                    f"{what} the executor's processes {why}. Convert without executor, or with a ThreadPoolExecutor."
                ) from err
        return options

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"schema": self.schema.identity(), "classes": self.classes}

    @override
    def command(self, root: Path) -> str:
        return f"recordzoo.convert(dataset, {str(self.output)!r})"

    @override
    def difference(self, manifest: Manifest, root: Path) -> str | None:
        held, sample = manifest.metadata, manifest.metadata.get("sample")
        names = sample.get("fields") if isinstance(sample, dict) else None
        classes = manifest.classes or manifest.object_classes
        mine = (self.metadata["samples"], self.metadata["kinds"], list(self.schema.items.values()), self.classes)
        if (held.get("samples"), held.get("kinds"), names, classes) == mine:
            return None
        return f"holds other records than this {self.metadata['origin']}, or other fields, kinds or classes"

    @override
    def find(self, root: Path) -> Source | None:
        # A second call sees what has changed.
        probe, self._probe = self._probe or Probe(self.data, self._sample_bytes), None
        return probe

    # Any: a sample.
    def _encode(self, position: int, sample: Any) -> Encoded:
        with at_position(position):
            encoded = self.schema.encode(sample)
            if problem := label_problem(encoded.row.get("target"), self._num_labels):
                raise SampleError(problem)
        return encoded

    @override
    def read(self, member: Member) -> Iterator[tuple[Row, Encoded]]:
        assert isinstance(member, PieceMember)
        dataset = self.data
        for position in range(member.piece.start, member.piece.stop):
            yield Row(f"{position:0{self._width}d}"), self._encode(position, _sample_of(dataset, position))


def _classes(dataset: Any) -> list[str] | None:  # Any: a dataset of whatever class
    for holder in (dataset, getattr(dataset, "dataset", None)):  # a Subset's
        classes = getattr(holder, "classes", None)
        if isinstance(classes, list | tuple) and classes and all(isinstance(name, str) for name in classes):
            return list(classes)
    return None


class RecordWriter:
    """Writes a record set; a context manager.

    The set appears at `path` when the block ends, whole, and not at all if the block raises or the process dies. One
    thread writes.

    A record is a dict: the name of each field and its value, and, if they are wanted, "name" (the record's, else its
    number) and "split" (which it belongs to; or a list of several). All records have the same fields, of the kinds
    that the first values show. Values are stored as `convert` says; None is no value.

    Args:
        path: The record set's directory: ``my.records``.
        classes: Class names by label. "target" must then be a label of one.
        kinds: How fields are stored, where the first record does not show it: "json" for values of several types;
            also "image", "bytes", "picture" (PNG), "pixels", "raw", "array".
        shard_bytes: Target shard size in bytes.
        refresh: Replace a record set that is there.

    Raises:
        PrepareError: There is something at `path`; or, when the block ends, no records were written.
        SampleError: A record cannot be stored; ``position`` says which.

    Examples:
        >>> with recordzoo.RecordWriter("my.records", classes=["cat", "dog"]) as writer:
        ...     for image, label in pairs:
        ...         writer.write({"image": image, "target": label})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        classes: Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        shard_bytes: int = 1 << 30,
        refresh: bool = False,
    ) -> None:
        check_classes(classes)
        self.path = behind_links(path)
        self._classes, self._kinds, self._shard_bytes, self._refresh = classes, kinds or {}, shard_bytes, refresh
        self._output = Output(self.path, elsewhere=ANOTHER_PATH, is_resumable=False)
        self._stream: Stream | None = None  # in a block
        self._count = 0

    def __len__(self) -> int:
        """The number of records written in the last block."""
        return self._count

    def __enter__(self) -> "RecordWriter":
        self._schema: Fields | None = None
        self._rows, self._count = Rows(), 0
        self._failure: BaseException | None = None
        self._publishing = self._publish()
        self._publishing.__enter__()
        return self

    @contextlib.contextmanager
    def _publish(self) -> Iterator[None]:
        """Publish the records of a block, if it ends without an error."""
        with publishing(self._output, self._refuse, default_progress(), replaces=self._refresh) as build:
            assert build is not None  # `_refuse` raises if the set exists
            # A token: no other process can go on with an unfinished stream of records.
            build.claim({"writer": "RecordWriter", "token": secrets.token_hex(8)}, 0)
            with Stream(build, self._shard_bytes) as stream:
                self._stream = stream
                yield
                self._check()
                if self._schema is None:
                    raise PrepareError(
                        f"No records were written to {self.path}; nothing is published.", path=str(self.path)
                    )
                stream.add("", (), self._rows.rest())
            stream.assemble(SampleRecipe(self.path, self._classes).use(self._schema))

    def _refuse(self) -> bool:
        """Raise if something is there that may not be replaced."""
        if is_record_set(self.path) and not self._refresh:
            raise PrepareError(f"{self.path} is there already. Pass refresh=True to replace it.", path=str(self.path))
        check_place(self.path, ANOTHER_PATH)
        return False

    # Any: values of all kinds.
    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record.

        Raises:
            SampleError: A field is missing, has a value that cannot be stored, or of another kind than in the first
                record.
            ArgumentError: "name", "split" or the label is none.
            DiskSpaceError: The disk is full.
        """
        stream = self._stream
        if stream is None:
            raise PrepareError(
                "A RecordWriter writes only inside its with block: with RecordWriter(path) as writer.",
                path=str(self.path),
            )
        self._check()
        with at_position(len(self)):
            if not isinstance(record, Mapping):
                raise SampleError(f"a {describe(record)}, not a dict such as {{'image': image, 'target': label}}")
            values = {name: value for name, value in record.items() if name not in ("name", "split")}
            schema, encoded = self._encode(values)
        row = self._row(record, encoded)
        try:
            if self._schema not in (None, schema):
                self._store_again(stream, schema)
            stream.add(row.name, row.blobs(encoded), self._rows.add(row, encoded))
        except BaseException as err:
            self._failure = err
            if isinstance(err, OSError) and not isinstance(err, RecordZooError):
                raise disk_error(err, self._output) from err
            raise
        self._schema = schema  # not before: a refused record fixes no fields
        self._count += 1

    def _check(self) -> None:
        """Raise on any later write after a record was stored in part."""
        if self._failure is not None:
            raise PrepareError(
                f"Record {self._count} could not be stored ({self._failure}); nothing is published."
            ) from self._failure

    def _encode(self, values: Mapping[str, Any]) -> tuple[Fields, Encoded]:
        """Encode a record: as the records before it, or so that arrays of other shapes, and None, can be stored."""
        schema = self._schema or infer({len(self): values}, None, self._kinds)
        while True:
            try:
                encoded = schema.encode(values)
                break
            except UnevenError as err:
                if not _can_store_again(schema, err.details["fields"], values):
                    asked = err.details["kinds"]
                    raise SampleError(f"{err} (pass kinds={asked} to store it all the same)") from None
                schema = err.details["fields"]
        for field, data, _ in encoded.blobs:
            if len(data) > MAX_VALUE_BYTES:
                raise SampleError(f"{field.name!r} has {len(data):,} bytes, more than a shard takes")
        return schema, encoded

    def _row(self, record: Mapping[str, Any], encoded: Encoded) -> Row:
        """Return the name and the splits of a record.

        Raises:
            ArgumentError: They are none, or its label has no class.
        """
        given = record.get("split")
        splits = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given] if given else []
        row = Row(f"{len(self):09d}").named(encoded)
        name = record.get("name", row.name)
        problem = label_problem(record.get("target"), None if self._classes is None else len(self._classes))
        if not isinstance(name, str) or not name or not is_storable(name):
            problem = f"the name {name!r} is not valid; it must be a text, not empty, in UTF-8"
        for split in splits:
            if not isinstance(split, str) or not SPLIT_PATTERN.fullmatch(split):
                problem = f"{split!r} cannot be a split's name: small letters, digits and - only"
        if problem is not None:
            raise ArgumentError(f"record {len(self)}: {problem}.")
        return row._replace(name=name, splits=list(dict.fromkeys(splits)))

    def _store_again(self, stream: Stream, schema: Fields) -> None:
        """Move fields that need another kind from rows to values, because all rows have one shape."""
        before = {} if self._schema is None else self._schema.fields
        rows, columns = unpacked(stream.end.sidecars | {side.name: side.data for side in self._rows.rest()})
        for name, field in schema.fields.items():
            if before.get(name) == field:
                continue
            numbers = columns.pop(name, None)
            if field.kind in ("raw", "pixels"):
                shape = np.zeros(len(field.shape)) if numbers is None else numbers.shape[1:]
                columns[f"{name}.shape"] = np.tile(np.array(shape, np.uint32), (self._count, 1))
            for row, value in zip(rows, () if numbers is None else numbers, strict=False):
                encoded = Encoded()
                field.put(value, encoded)
                stream.add("", row.blobs(encoded), ())
        side = packed(rows, columns)
        stream.end.sidecars = {side.name: side.data}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream = None
        if kind is None:
            self._publishing.__exit__(None, None, None)
            return
        with contextlib.suppress(_AbandonedError):  # the user's own error is raised as it is
            self._publishing.__exit__(_AbandonedError, _AbandonedError(), None)


class _AbandonedError(Exception):
    """The user's block raised."""


# Any: values of all kinds.
def _can_store_again(before: Fields, after: Fields, values: Mapping[str, Any]) -> bool:
    """Whether the records written so far fit another schema: they have no value, or rows of arrays."""
    for name, field in before.fields.items():
        now = after.fields.get(name)
        is_wider = field.kind == "array" and now and (now.kind == "raw" or values.get(name, 0) is None)
        if field.kind != "none" and now != field and not is_wider:
            return False
    return True
