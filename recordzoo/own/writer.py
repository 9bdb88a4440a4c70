"""`RecordWriter`: write a record set record by record."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from recordzoo.base.files import behind_links
from recordzoo.base.progress import default_progress
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError, SampleError
from recordzoo.formats.base import Sample
from recordzoo.own.fields import Encoded, Fields, Kind, UnevenError, infer
from recordzoo.own.sample import Collected, Row, Rows, SampleRecipe, check_classes, label_problem
from recordzoo.own.values import at_position, describe
from recordzoo.preparing.assemble import Stream
from recordzoo.preparing.publish import ANOTHER_PATH, Output, check_place, disk_error, publishing
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.records.reader import is_record_set
from recordzoo.records.shard import MAX_VALUE_BYTES

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
        return 0 if self._block is None else self._block.count

    def __enter__(self) -> "RecordWriter":
        self._publishing = self._publish()
        self._block = self._publishing.__enter__()
        return self

    @contextlib.contextmanager
    def _publish(self) -> Iterator["_Block"]:
        """Publish the records of a block, if it ends without an error."""
        progress = default_progress()
        may_replace = is_record_set if self._refresh else None
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
        key = f"{position:0{_WIDTH}d}"
        values = {field: value for field, value in record.items() if field not in ("name", "split")}
        sample = Sample(record.get("name", ""), values, record.get("split"))
        with at_position(position):
            recipe, encoded = self._encode(block, sample.values)
            blobs = list(recipe.blobs(Row(key), encoded))
            if too_large := [blob for blob in blobs if len(blob.data) > MAX_VALUE_BYTES]:
                size = len(too_large[0].data)
                raise SampleError(f"{too_large[0].field!r} has {size:,} bytes, more than a shard takes")
        if problem := label_problem(sample.values.get("target"), None if self._classes is None else len(self._classes)):
            raise ArgumentError(f"record {position}: {problem}.")
        splits = _splits(position, sample.splits)
        name = sample.name if "name" in record else next((blob.key for blob in blobs if blob.checked), key)
        if not isinstance(name, str) or not name or not _is_storable(name):
            raise ArgumentError(
                f"record {position}: the name {name!r} is not valid; it must be a text, not empty, in UTF-8."
            )
        try:
            if block.recipe not in (None, recipe):
                block.store_again(recipe)
            block.stream.add(name, blobs, block.rows.add(Row(key, name, splits), encoded))
        except BaseException as err:
            block.failure = err
            if isinstance(err, OSError) and not isinstance(err, RecordZooError):
                raise disk_error(err, self._output, 0) from err
            raise
        block.recipe = recipe  # not before: a refused record fixes no fields
        block.count += 1

    def _encode(self, block: "_Block", values: Mapping[str, Any]) -> tuple[SampleRecipe, Encoded]:
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
        return SampleRecipe(self.path, self._kinds, self._classes).use(schema), encoded

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
        self.recipe: SampleRecipe | None = None
        self.rows = Rows()
        self.count = 0
        self.failure: BaseException | None = None

    def check(self) -> None:
        """Raise on any later write after a record was stored in part."""
        if self.failure is not None:
            raise PrepareError(
                f"Record {self.count} could not be stored ({self.failure}); nothing is published."
            ) from self.failure

    def store_again(self, recipe: SampleRecipe) -> None:
        """Move fields that need another plan from rows to values, because all rows have one shape."""
        assert self.recipe is not None
        before = self.recipe.schema.fields
        done = Collected.of(self.stream.take_sidecars() | {side.name: side.data for side in self.rows.rest()})
        for plan in recipe.schema.fields.values():
            if before.get(plan.name) == plan:
                continue
            numbers = done.columns.pop(plan.name, None)
            if plan.kind in ("raw", "pixels"):
                shape = np.zeros(len(plan.shape)) if numbers is None else numbers.shape[1:]
                done.columns[f"{plan.name}.shape"] = np.tile(np.array(shape, np.uint32), (self.count, 1))
            for row, value in zip(done.rows, () if numbers is None else numbers, strict=False):
                encoded = Encoded()
                encoded.add(plan, value)
                self.stream.add("", recipe.blobs(row, encoded), ())
        self.stream.add("", (), [done.packed()])


# Any: what the user gives.
def _splits(position: int, given: Any) -> list[str]:
    splits = [given] if isinstance(given, str) and given else list(dict.fromkeys(given or []))
    for split in splits:
        if not isinstance(split, str) or not SPLIT_PATTERN.fullmatch(split):
            raise ArgumentError(
                f"record {position}: {split!r} cannot be a split's name: small letters, digits and - only."
            )
    return splits


# Any: values of all kinds.
def _can_store_again(before: Fields, after: Fields, values: Mapping[str, Any]) -> bool:
    """Whether the records written so far fit another schema: they have no value, or rows of arrays."""
    if any(plan.kind != "none" and name not in after.fields for name, plan in before.fields.items()):
        return False
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
