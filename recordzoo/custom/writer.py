"""`RecordWriter`: records that a program makes, one after another → a record set."""

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.bars import default_progress
from recordzoo.custom.infer import infer
from recordzoo.custom.options import check_classes, check_place
from recordzoo.custom.recipe import Rows, SchemaRecipe
from recordzoo.custom.schema import Kind, UnevenError, at_position
from recordzoo.custom.values import as_array, describe
from recordzoo.errors import ArgumentError, PrepareError, RecordZooError, SampleError
from recordzoo.preparing import is_record_set
from recordzoo.preparing.assemble import assemble, warn_of_bad
from recordzoo.preparing.build import Build
from recordzoo.preparing.rows import UnitDone, save_sidecars
from recordzoo.preparing.shards import Shards
from recordzoo.preparing.space import disk_error
from recordzoo.preparing.stale_builds import remove_dead
from recordzoo.recipes.base import Stored
from recordzoo.recipes.jpeg import look
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.system.files import is_link

_WIDTH = 9


class RecordWriter:
    """Writes a record set; a context manager.

    The set appears at `path` when the block ends, whole, and not at all if the block raises or the process dies. One
    thread writes.

    A record is a dict: the name of each field and its value, and, if they are wanted, "name" (the record's, else its
    number) and "split" (which it belongs to; or a list of several). All records have the same fields, of the kinds
    that the first one shows:

    * ``bytes`` are stored untouched, PIL images and uint8 pixels as PNG or raw, whichever is smaller.
    * Numbers, and arrays of up to 1 KiB, become rows of an array; larger arrays are stored raw, each with its shape.
    * Anything else is stored as JSON.

    Args:
        path: The record set's directory: ``my.records``.
        classes: Class names by label. "target" must then be a label of one.
        kinds: How fields are stored, where the first record does not show it: "json" for arrays of various shapes;
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
        self.path = Path(path).expanduser().absolute()
        if is_link(self.path):  # its directory is what is exchanged, not the link to it
            self.path = self.path.resolve()
        self._classes, self._kinds, self._shard_bytes, self._refresh = classes, kinds or {}, shard_bytes, refresh
        self._build: Build | None = None
        self._shards: Shards
        self._recipe: _WriterRecipe | None = None
        self._rows = Rows()
        self._sidecars: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        self._names: list[str] = []
        self._splits: dict[str, list[int]] = {}

    def __len__(self) -> int:
        """How many records have been written."""
        return len(self._names)

    def __enter__(self) -> "RecordWriter":
        self._check_path()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A token: what a stream of records left unfinished, no other can go on with.
            plan = {"writer": "RecordWriter", "token": secrets.token_hex(8)}
            self._build, _ = Build.claim(self.path, plan, default_progress())
        except OSError as err:
            raise disk_error(err, self.path.parent, 0) from err
        self._shards = Shards(self._build.path, 0, self._shard_bytes, on_shard=self._build.journal_shard)
        return self

    def _check_path(self) -> None:
        there = is_record_set(self.path)
        if there and not self._refresh:
            raise PrepareError(f"{self.path} is there already. Pass refresh=True to replace it.", path=str(self.path))
        check_place(self.path)

    # Any: values of all kinds.
    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record.

        Raises:
            SampleError: A field is missing, has a value that cannot be stored, or of another kind than in the first
                record.
            ArgumentError: "name", "split" or the label is none.
            DiskSpaceError: The disk is full.
        """
        if self._build is None:
            raise PrepareError(
                "A RecordWriter writes only inside its with block: with RecordWriter(path) as writer.",
                path=str(self.path),
            )
        position = len(self)
        if not isinstance(record, Mapping):
            raise SampleError(
                f"position {position}: a {describe(record)}, not a dict such as {{'image': image, 'target': label}}.",
                position=position,
            )
        values = {key: value for key, value in record.items() if key not in ("name", "split")}
        if self._recipe is None:
            schema = infer({0: values}, None, self._kinds)
            self._recipe = _WriterRecipe(schema, 0, self._classes, {}, self.path, _WIDTH)
        with at_position(position):
            try:
                encoded = self._recipe.schema.encode(values)
            except UnevenError as err:
                field = err.details["field"]
                text = f"{err} (pass kinds={{{field!r}: {err.details['kind']!r}}} to store it all the same)"
                raise SampleError(text) from None
        self._check_label(position, values.get("target"))
        splits = self._splits_of(record)
        blobs = list(self._recipe.blobs(position, encoded))
        name = record.get("name", next((blob.key for blob in blobs if blob.checked), f"{position:0{_WIDTH}d}"))
        if not isinstance(name, str) or not name or not _is_storable(name):
            raise ArgumentError(
                f"record {position}: the name {name!r} is not valid; it must be a text, not empty, in UTF-8."
            )
        try:
            for blob in blobs:
                problem, mark = look(blob.data) if blob.checked else (None, None)
                self._shards.put(blob, mark)
                if problem is not None:
                    self._bad[name] = problem
        except OSError as err:
            raise disk_error(err, self.path.parent, 0) from err
        self._sidecars |= {side.name: side.data for side in self._rows.add(position, encoded)}
        self._names.append(name)
        for split in splits:
            self._splits.setdefault(split, []).append(position)

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
        build, self._build = self._build, None
        if build is None:
            return
        try:
            try:
                self._shards.__exit__(kind)
                if kind is None:
                    self._publish(build)
            except OSError as err:
                if isinstance(err, RecordZooError):
                    raise
                raise disk_error(err, self.path.parent, 0) from err
        except BaseException:
            if kind is None:
                raise
        finally:
            build.remove()
            with contextlib.suppress(OSError):
                remove_dead(self.path)

    def _publish(self, build: Build) -> None:
        if self._recipe is None:
            raise PrepareError(f"No records were written to {self.path}; nothing is published.", path=str(self.path))
        self._sidecars |= {side.name: side.data for side in self._rows.rest()}
        sidecars = save_sidecars(build.path, 0, self._sidecars)
        build.journal_unit(UnitDone(0, tuple(self._shards.done), sidecars, self._bad, {}))
        self._recipe.finish(self._names, self._splits)
        assemble(build, self._recipe, "records", [])
        warn_of_bad(build)
        if not build.publish(replace=self._refresh):
            raise PrepareError(
                f"Another process has published {self.path} meanwhile; these records are not kept. Write to another "
                "path, or pass refresh=True to replace it.",
                path=str(self.path),
            )


def _is_storable(name: str) -> bool:
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


class _WriterRecipe(SchemaRecipe):
    """Records with names and splits that come with them."""

    def finish(self, names: Sequence[str], splits: Mapping[str, Sequence[int]]) -> None:
        """Say what is known when all are written."""
        self.count = len(names)
        self._all_names = names
        self.splits = {split: np.array(positions, np.int64) for split, positions in splits.items()}

    @override
    def names(self, stored: Stored, kept: Sequence[int]) -> Sequence[str]:
        return self._all_names
