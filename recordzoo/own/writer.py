"""`RecordWriter`: write a record set record by record."""

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

import cloudpickle
import numpy as np
from typing_extensions import override

from recordzoo.base.progress import default_progress
from recordzoo.errors import ArgumentError, OtherSourceError, PrepareError, RecordZooError, SampleError
from recordzoo.own.plans import (
    Encoded,
    Kind,
    UnevenError,
    as_array,
    at_position,
    check_classes,
    describe,
    options_to_make,
)
from recordzoo.own.samples import MapStyle, Probe, SampleRecipe
from recordzoo.own.schema import Rows, Schema, SchemaRecipe, columns_of, infer, packed
from recordzoo.preparing.assemble import Stream
from recordzoo.preparing.job import ensure
from recordzoo.preparing.options import Options, OwnOptions
from recordzoo.preparing.publish import check_place, never, publishing
from recordzoo.preparing.space import ANOTHER_PATH, Output, behind_links, disk_error
from recordzoo.recipes.recipe import Stored
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.shard import MAX_VALUE_BYTES


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
    probe = Probe(dataset)
    kinds = kinds or {}
    schema = infer(probe.samples, fields, kinds)
    probe.check_repeats(dataset)
    recipe = SampleRecipe(dataset, b"", schema, probe, kinds, classes, place)
    to_make = options_to_make(place, wanted, lambda: _check_same(place, recipe))
    if to_make is None:
        return place
    if not wanted.layout:
        # Smaller than for files: making a sample may be slow, and each process fills shards of its own.
        shard_bytes = max(4 << 20, min(1 << 30, recipe.source(probe).size_bytes // 8))
        to_make = dataclasses.replace(to_make, shard_bytes=shard_bytes)
    progress = wanted.progress or default_progress()
    payload = _payload(dataset)
    if isinstance(payload, str):
        if wanted.executor is None:
            progress.note(f"{type(dataset).__name__} cannot be sent to other processes ({payload}): one does it all.")
            to_make = dataclasses.replace(to_make, workers=1)
        elif not isinstance(wanted.executor, ThreadPoolExecutor):
            raise ArgumentError(
                f"{type(dataset).__name__} cannot be sent to the executor's processes ({payload}). Convert without "
                "executor, or with a ThreadPoolExecutor."
            )
        payload = b""
    recipe.payload = payload
    while True:
        try:
            ensure(recipe, place.parent, to_make)
        except UnevenError as err:
            if err.details["field"] in kinds:
                raise
            schema = schema.widened(err)
            recipe = SampleRecipe(dataset, payload, schema, probe, kinds, classes, place)
            progress.note(f"{err} It is stored as {err.details['plans'][0].kind}; beginning again.")
        else:
            _check_same(place, recipe)  # another process may have published another dataset's set meanwhile
            return place


# Any: the user may pass anything.
def _check_dataset(dataset: Any) -> None:
    """Raise unless it is a map-style dataset with at least one sample."""
    name = type(dataset).__name__
    if isinstance(dataset, os.PathLike | str | bytes):
        raise ArgumentError(
            f"{dataset!r}: a {name} is no dataset. Files in a folder for each class become records by "
            "ImageFolderRecord(path), files of a list by prepare(path)."
        )
    if isinstance(dataset, type):
        raise ArgumentError(f"{dataset.__name__} is a class; pass an object of it, {dataset.__name__}(...).")
    if isinstance(dataset, Mapping):
        keys = [repr(key) for key in dataset]
        raise ArgumentError(
            f"A {name} of {', '.join(keys[:10]) or 'nothing'} is no dataset"
            + (f"; pass one of its values, such as dataset[{keys[0]}]." if keys else ".")
        )
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise ArgumentError(f"{name} is not map-style: it needs __len__ and __getitem__.")
    if len(dataset) == 0:
        raise ArgumentError(f"{name} is empty; there is nothing to convert.")


def _payload(dataset: MapStyle) -> bytes | str:
    """Pickle a dataset, including its lambdas, for worker processes; or return the reason why it cannot be pickled."""
    try:
        return bytes(cloudpickle.dumps(dataset))
    except Exception as err:  # noqa: BLE001 - a dataset may hold anything, and pickling it raise anything
        return f"{type(err).__name__}: {err}"


def _check_same(place: Path, recipe: SampleRecipe) -> None:
    """Raise if a record set holds other samples, or has other names, kinds or classes."""
    manifest = RecordReader(place).manifest
    held = manifest.metadata
    sample = held.get("sample")
    names = sample.get("fields") if isinstance(sample, dict) else None
    if held.get("samples") != recipe.metadata["samples"]:
        problem = f"other records than this {recipe.metadata['origin']}"
    elif (names, held.get("kinds")) != (list(recipe.schema.names), recipe.metadata["kinds"]):
        problem = f"these samples with other fields or kinds: {names}"
    elif (manifest.classes or manifest.object_classes) != recipe.classes:
        problem = "these samples with other classes"
    else:
        return
    raise OtherSourceError(
        f"{place} is there and holds {problem}. Pass refresh=True to replace it, or another output.", path=str(place)
    )


_WIDTH = 9


class RecordWriter:
    """Writes a record set; a context manager.

    The set appears at `path` when the block ends, whole, and not at all if the block raises or the process dies. One
    thread writes.

    A record is a dict: the name of each field and its value, and, if they are wanted, "name" (the record's, else its
    number) and "split" (which it belongs to; or a list of several). All records have the same fields, of the kinds
    that the first values show; None is no value:

    * ``bytes`` are stored untouched, PIL images and uint8 pixels as PNG or raw, whichever is smaller.
    * Numbers, and arrays of one shape of up to 1 KiB, become rows of an array; other arrays are stored raw, each with
      its shape. All arrays of a field have one dtype and one number of dimensions.
    * A dict with arrays becomes a field for each key. Anything else is stored as JSON.

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
        self._block: _Block | None = None
        self._publishing = self._publish()

    def __len__(self) -> int:
        """The number of records written in the last block."""
        return 0 if self._block is None else len(self._block.names)

    def __enter__(self) -> "RecordWriter":
        self._publishing = self._publish()
        self._block = self._publishing.__enter__()
        return self

    @contextlib.contextmanager
    def _publish(self) -> Iterator["_Block"]:
        """Publish the records of a block, if it ends without an error."""
        progress = default_progress()
        may_replace = is_record_set if self._refresh else never
        with publishing(self._output, self._refuse, progress, may_replace=may_replace, is_waiting=False) as build:
            assert build is not None  # `_refuse` raises if the set exists
            # A token: no other process can go on with an unfinished stream of records.
            build.claim({"writer": "RecordWriter", "token": secrets.token_hex(8)}, 0)
            with Stream(build, self._shard_bytes, progress) as stream:
                block = _Block(stream)
                yield block
                block.check()
                if block.recipe is None:
                    raise PrepareError(
                        f"No records were written to {self.path}; nothing is published.", path=str(self.path)
                    )
                stream.finish(block.rows.rest())
            block.recipe.finish(block.names, block.splits)
            stream.assemble(block.recipe)

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
        block = self._block
        if block is None or not block.is_open:
            raise PrepareError(
                "A RecordWriter writes only inside its with block: with RecordWriter(path) as writer.",
                path=str(self.path),
            )
        block.check()
        position = len(self)
        if not isinstance(record, Mapping):
            raise SampleError(
                f"position {position}: a {describe(record)}, not a dict such as {{'image': image, 'target': label}}.",
                position=position,
            )
        values = {key: value for key, value in record.items() if key not in ("name", "split")}
        with at_position(position):
            recipe, encoded = self._encode(block, values)
            blobs = list(recipe.blobs(position, encoded))
            if too_large := [blob for blob in blobs if len(blob.data) > MAX_VALUE_BYTES]:
                size = len(too_large[0].data)
                raise SampleError(f"{too_large[0].field!r} has {size:,} bytes, more than a shard takes")
        self._check_label(position, values.get("target"))
        splits = self._splits_of(record)
        name = record.get("name", next((blob.key for blob in blobs if blob.checked), f"{position:0{_WIDTH}d}"))
        if not isinstance(name, str) or not name or not _is_storable(name):
            raise ArgumentError(
                f"record {position}: the name {name!r} is not valid; it must be a text, not empty, in UTF-8."
            )
        try:
            if block.recipe not in (None, recipe):
                block.store_again(recipe)
            block.stream.add(name, blobs, block.rows.add(position, encoded))
        except BaseException as err:
            block.failure = err
            if isinstance(err, OSError) and not isinstance(err, RecordZooError):
                raise disk_error(err, self._output, 0) from err
            raise
        block.recipe = recipe  # not before: a refused record fixes no fields
        block.names.append(name)
        for split in splits:
            block.splits.setdefault(split, []).append(position)

    def _encode(self, block: "_Block", values: Mapping[str, Any]) -> "tuple[_WriterRecipe, Encoded]":
        """Encode a record: as the records before it, or so that arrays of other shapes, and None, can be stored."""
        schema = infer({len(self): values}, None, self._kinds) if block.recipe is None else block.recipe.schema
        while True:
            try:
                encoded = schema.encode(values)
                break
            except UnevenError as err:
                wider = schema.widened(err)
                if err.details["field"] in self._kinds or not _can_store_again(schema, wider, values):
                    asked = {err.details["field"]: err.details["plans"][0].kind}
                    raise SampleError(f"{err} (pass kinds={asked} to store it all the same)") from None
                schema = wider
        if block.recipe is not None and schema is block.recipe.schema:
            return block.recipe, encoded
        return _WriterRecipe(schema, 0, self._classes, {}, self.path, _WIDTH), encoded

    def _check_label(self, position: int, label: Any) -> None:
        number = as_array(label)
        if self._classes is None or number is None or number.ndim or number.dtype.kind not in "iu":
            return
        if not 0 <= int(number) < len(self._classes):
            raise ArgumentError(
                f"record {position}: 'target' {label} is not a label: with {len(self._classes)} classes, labels are 0 "
                f"to {len(self._classes) - 1}."
            )

    def _splits_of(self, record: Mapping[str, Any]) -> list[str]:
        given = record.get("split") or []
        splits = [given] if isinstance(given, str) else list(dict.fromkeys(given))
        for split in splits:
            if not isinstance(split, str) or not SPLIT_PATTERN.fullmatch(split):
                raise ArgumentError(
                    f"record {len(self)}: {split!r} cannot be a split's name: small letters, digits and - only."
                )
        return splits

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._block is not None:
            self._block.is_open = False
        if kind is None:
            self._publishing.__exit__(None, None, None)
            return
        with contextlib.suppress(_AbandonedError):  # the user's own error is raised as it is
            self._publishing.__exit__(_AbandonedError, _AbandonedError(), None)


class _AbandonedError(Exception):
    """The user's block raised."""


class _Block:
    """What was written in a `with` block."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_open = True
        self.recipe: _WriterRecipe | None = None
        self.rows = Rows()
        self.names: list[str] = []
        self.splits: dict[str, list[int]] = {}
        self.failure: BaseException | None = None

    def check(self) -> None:
        """Raise on any later write after a record was stored in part."""
        if self.failure is not None:
            raise PrepareError(
                f"Record {len(self.names)} could not be stored ({self.failure}); nothing is published."
            ) from self.failure

    def store_again(self, recipe: "_WriterRecipe") -> None:
        """Move fields that need another plan from rows to values, because all rows have one shape."""
        assert self.recipe is not None
        before, count = self.recipe.schema.fields, len(self.names)
        sides = self.stream.take_sidecars() | {side.name: side.data for side in self.rows.rest()}
        columns = columns_of(sides)
        for plan in recipe.schema.fields.values():
            if before.get(plan.name) == plan:
                continue
            rows = columns.pop(plan.name, None)
            if plan.kind in ("raw", "pixels"):
                shape = np.zeros(len(plan.shape), np.uint32) if rows is None else np.array(rows.shape[1:], np.uint32)
                columns[f"{plan.name}.shape"] = np.tile(shape, (count, 1))
            for position, row in enumerate(() if rows is None else rows):
                encoded = Encoded()
                encoded.add(plan, row)
                self.stream.add("", recipe.blobs(position, encoded), ())
        self.stream.add("", (), [packed(0, columns)] if columns else ())


# Any: values of all kinds.
def _can_store_again(before: Schema, after: Schema, values: Mapping[str, Any]) -> bool:
    """Whether the records written so far fit another schema: they have no value, or rows of arrays."""
    for name, plan in after.fields.items():
        old = before.fields.get(name)
        if old is None or old == plan or old.kind == "none":
            continue
        if old.kind != "array" or (plan.kind != "raw" and values.get(name, 0) is not None):
            return False
    return True


def _is_storable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


class _WriterRecipe(SchemaRecipe):
    """Records with names and splits that come with them."""

    def finish(self, names: Sequence[str], splits: Mapping[str, Sequence[int]]) -> None:
        """Set what is known only after the last record."""
        self.count = len(names)
        self._all_names = names
        self.splits = {split: np.array(positions, np.int64) for split, positions in splits.items()}

    @override
    def names(self, stored: Stored, kept: Sequence[int]) -> Sequence[str]:
        return self._all_names
