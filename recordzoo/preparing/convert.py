"""Convert one unit of raw data to finished shards, in the parent or a worker. Writes only the unit's own files.

A shard is finished when its `.npz` file is there, which is written after the shard itself was synced and read back.
"""

import contextlib
import dataclasses
import io
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.base.files import move, remove, sync_directory, write_file
from recordzoo.base.process import crash_point
from recordzoo.errors import PrepareError, SourceError
from recordzoo.raw.member import Member, Unit
from recordzoo.recipes.recipe import Blob, Recipe, Sidecar, look, mark_of, quiet, sniffed_ending
from recordzoo.records.arrays import INDEX_DTYPE, Names, arrays_of, pack_names
from recordzoo.records.manifest import ShardSpec
from recordzoo.records.shard import ShardWriter, capacity_for, crc32, seal, stored_bytes

NO_VALUES = ShardSpec("", 0, 0, 0, 0, "")

ROW_DTYPE = np.dtype([*INDEX_DTYPE.descr, ("mark", "u1"), ("field", "<u2")])
"""What is noted of a stored value: its row in the index, its mark, the number of its field."""


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """A finished shard: its unit, its number in the unit.

    Attributes:
        spec: Its entry for the manifest, under its name in the build; of a unit's end without values, `NO_VALUES`.
        num_images: Number of values of the recipe's main field, not of labels or masks.
        is_last: Whether the unit ends with it.
        stamp: `Unit.stamp`.
    """

    unit: int
    number: int
    spec: ShardSpec
    num_images: int
    is_last: bool
    stamp: str

    @property
    def stem(self) -> str:
        """Its name in the build directory, without an ending."""
        return f"u{self.unit:05d}-{self.number:05d}"


@dataclass(slots=True)
class UnitEnd:
    """What units have besides values: small files, broken images, and images that were left out, by field."""

    sidecars: dict[str, bytes] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)

    def skip(self, field_name: str, key: str, why: str) -> None:
        """Note an image that is left out."""
        self.skipped.setdefault(field_name, {})[key] = why


class StoredValue(NamedTuple):
    """A value in a shard: its field, key, length in bytes, CRC-32 and mark."""

    field: str
    key: str
    length: int
    crc: int
    mark: int


@dataclass(frozen=True)
class FinishedShard:
    """A finished shard's file: its facts, the rows and keys of its values, and, in a unit's last shard, the unit's end.

    Attributes:
        field_names: The fields, by their numbers in the rows.
        rows: `ROW_DTYPE`, by slot.
    """

    facts: ShardFacts
    field_names: Sequence[str]
    rows: NDArray[np.void]
    keys: Names
    end: UnitEnd | None


def save_shard(
    folder: Path,
    facts: ShardFacts,
    values: Sequence[StoredValue],
    offsets: NDArray[np.uint64],
    end: UnitEnd | None = None,
) -> None:
    """Write a shard's file: from now on the shard is finished."""
    numbers = {name: number for number, name in enumerate(sorted({value.field for value in values}))}
    rows = np.zeros(len(values), ROW_DTYPE)
    rows["slot"], rows["offset"] = np.arange(len(values)), offsets
    rows["field"] = [numbers[value.field] for value in values]
    rows["length"] = [value.length for value in values]
    rows["crc32"] = [value.crc for value in values]
    rows["mark"] = [value.mark for value in values]
    packed, bounds = pack_names([value.key for value in values])
    document = {"facts": asdict(facts), "fields": list(numbers)}
    sidecars = {} if end is None else end.sidecars
    if end is not None:
        sizes = {name: len(data) for name, data in sidecars.items()}
        document["end"] = {"sidecars": sizes, "bad": end.bad, "skipped": end.skipped}
    buffer = io.BytesIO()
    np.savez(
        buffer,
        allow_pickle=False,
        document=np.frombuffer(json.dumps(document).encode(), np.uint8),
        rows=rows,
        packed=packed,
        bounds=bounds,
        sidecars=np.frombuffer(b"".join(sidecars.values()), np.uint8),
    )
    path = folder / f"{facts.stem}.npz"
    # Two workers may convert the same unit: the second must not overwrite a file that is being read.
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    write_file(aside, buffer.getvalue())  # shares its memory; a view would keep the buffer in an error
    move(aside, path)
    sync_directory(folder)
    crash_point("shard.done")


def load_shard(path: Path) -> FinishedShard:
    """Read a finished shard's file.

    Raises:
        PrepareError: It cannot be read, or is damaged.
    """
    try:
        arrays = arrays_of(path.read_bytes())
        document = json.loads(arrays["document"].tobytes())
        facts = ShardFacts(**{**document["facts"], "spec": ShardSpec(**document["facts"]["spec"])})
        keys = Names(arrays["packed"], arrays["bounds"])
        end = None
        if facts.is_last:
            said, start = document["end"], 0
            end = UnitEnd(bad=said["bad"], skipped=said["skipped"])
            for name, size in said["sidecars"].items():
                end.sidecars[name] = arrays["sidecars"][start : start + size].tobytes()
                start += size
        return FinishedShard(facts, document["fields"], arrays["rows"], keys, end)
    except OSError as err:
        raise PrepareError(f"{path} cannot be read: {err.strerror}.") from err
    except Exception as err:  # of many kinds: zip, NumPy, JSON
        raise PrepareError(f"{path} is damaged ({err}). Run the same command again: it is made anew.") from err


class UnitShards:
    """The shards of one unit: each is filled, and sealed while the next is filled.

    The context manager finishes the last shard, or removes it after an error.

    Args:
        folder: The build directory.
        unit: The unit's number.
        shard_bytes: Target shard size in bytes; None: one shard, however large.
        check: Called before a shard is finished; raises if the preparation has ended.
        num_done: Number of finished shards of this unit.
        main_field: The field whose values are counted as images.
        stamp: `Unit.stamp`.

    Attributes:
        end: What the unit has besides values, for the last shard: complete it before the block ends.
        done: The shards that were finished here.
    """

    def __init__(
        self,
        folder: Path,
        unit: int,
        shard_bytes: int | None,
        check: Callable[[], None] = lambda: None,
        num_done: int = 0,
        main_field: str = "",
        stamp: str = "",
    ) -> None:
        self._folder, self._unit, self._shard_bytes, self._check = folder, unit, shard_bytes, check
        self._next, self._main_field, self._stamp = num_done, main_field, stamp
        self.end = UnitEnd()
        self.done: list[ShardFacts] = []
        self._writer: ShardWriter | None = None
        self._values: list[StoredValue] = []  # in the writer's shard
        self._sealing: Future[ShardFacts] | None = None
        self._sealer = ThreadPoolExecutor(1, "recordzoo-seal")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self._finish_shard(self.end)
                self._collect()
        finally:
            self._abandon()
            self._sealer.shutdown()

    def put(self, blob: Blob, mark: int | None = None) -> None:
        """Store a blob.

        Args:
            mark: Its mark (`recordzoo.recipes.recipe`). Default: determined now.
        """
        cost, limit = stored_bytes(len(blob.data)), self._shard_bytes
        if self._writer is not None and limit is not None and self._writer.stored_bytes + cost > limit:
            self._finish_shard(None)
        if self._writer is None:
            path = self._folder / f"u{self._unit:05d}-{self._next:05d}.{secrets.token_hex(4)}.tmp"
            self._writer = ShardWriter(path, capacity_for(max(limit or 0, cost)))
        self._writer.put(blob.data)
        if mark is None:
            with quiet():
                mark = mark_of(blob.data)
        self._values.append(StoredValue(blob.field, blob.key, len(blob.data), crc32(blob.data), mark))

    def _finish_shard(self, end: UnitEnd | None) -> None:
        """Seal the open shard; with a unit's end also if there is none, because the end needs a file."""
        if self._writer is None and end is None:
            return
        self._collect()  # first: if this raises, the open shard is still known and gets removed
        self._sealing = self._sealer.submit(self._seal, self._writer, self._values, self._next, end)
        self._writer, self._values = None, []
        self._next += 1

    def _seal(
        self, writer: ShardWriter | None, values: Sequence[StoredValue], number: int, end: UnitEnd | None
    ) -> ShardFacts:
        """Sync the shard, read it back, rename it and write its file."""
        facts = ShardFacts(self._unit, number, NO_VALUES, 0, end is not None, self._stamp)
        if writer is None:
            self._check()
            save_shard(self._folder, facts, [], np.empty(0, np.uint64), end)
            return facts
        path = writer.path
        try:
            writer.close(commits=True)
            spec, offsets = seal(path, [value.length for value in values], [value.crc for value in values])
            self._check()
        except BaseException:
            with contextlib.suppress(OSError):  # Windows: still mapped by the error's traceback; the build sweeps it
                remove(path)  # after a failed sync, pages that look written may be lost
            raise
        crash_point("shard.sealed")
        # Another worker may have finished the same unit: its shard has the same bytes.
        move(path, self._folder / f"{facts.stem}.lmdb")
        spec = dataclasses.replace(spec, name=f"{facts.stem}.lmdb")
        num_images = sum(value.field == self._main_field for value in values)
        facts = dataclasses.replace(facts, spec=spec, num_images=num_images)
        save_shard(self._folder, facts, values, offsets, end)
        return facts

    def _collect(self) -> None:
        """Wait for the shard that is being sealed."""
        if self._sealing is not None:
            sealing, self._sealing = self._sealing, None
            self.done.append(sealing.result())

    def _abandon(self) -> None:
        """After an error, wait for the shard that is being sealed, and remove the open one."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.close(commits=False)
            remove(self._writer.path)
            self._writer = None
        if self._sealing is not None:
            with contextlib.suppress(OSError, PrepareError):
                self._collect()


@dataclass(frozen=True, slots=True)
class Task:
    """The conversion of a unit; it can be pickled.

    Attributes:
        number: The unit's place in the plan.
        folder: The build directory.
        shard_bytes: Target shard size in bytes; None: the unit is one shard, however large.
        on_error: Treatment of images that no decoder recognises.
        check_images: Decode each image instead of reading only its header.
        done: Shards of this unit that an earlier run finished.
        max_pixels: Pillow's limit against decompression bombs, which the user may have changed.
        shared: A file that is there until the preparation ends, if a worker may run longer.
    """

    number: int
    unit: Unit
    recipe: Recipe
    folder: Path
    shard_bytes: int | None
    on_error: str
    check_images: bool = False
    done: tuple[ShardFacts, ...] = ()
    max_pixels: int | None = field(default_factory=lambda: Image.MAX_IMAGE_PIXELS)
    shared: Path | None = None

    def run(
        self,
        check: Callable[[], None] | None = None,
        advance: Callable[[int, int], None] = lambda num_bytes, num_images: None,
    ) -> list[ShardFacts]:
        """Convert the unit; return its shards. Sealing a shard overlaps with filling the next.

        Args:
            check: As of `UnitShards`. Default: look for the shared file.
            advance: Called in this thread with the numbers of bytes read and images stored.
        """
        Image.MAX_IMAGE_PIXELS = self.max_pixels
        expected, main = self._expected_values(), self.recipe.main_field
        check = check or self._check_wanted
        with UnitShards(
            self.folder, self.number, self.shard_bytes, check, len(self.done), main, self.unit.stamp
        ) as shards:
            for blob, mark in self._blobs(shards.end, advance):
                wanted = next(expected, None)
                if wanted is None:
                    shards.put(blob, mark)
                elif wanted[:2] != (blob.field, blob.key):
                    raise _changed(wanted[1], repr(blob.key))
                elif wanted[2] != crc32(blob.data):
                    raise _changed(wanted[1], "another of that name")
                advance(0, int(blob.field == main))
                del blob  # freed before the next blob, which may be as large, is read
            if (wanted := next(expected, None)) is not None:
                raise _changed(wanted[1], "nothing")
        return [*self.done, *shards.done]

    def _check_wanted(self) -> None:
        """Finish nothing for a preparation that has ended: the next one in this directory may have another plan."""
        if self.shared is not None and not self.shared.exists():
            raise PrepareError(f"{self.shared} is gone: the preparation has ended.")

    def _expected_values(self) -> Iterator[tuple[str, str, int]]:
        """Yield field, key and CRC-32 of an earlier run's values: they come again in this order and are skipped."""
        for facts in self.done:
            shard = load_shard(self.folder / f"{facts.stem}.npz")
            fields, crcs = shard.rows["field"].tolist(), shard.rows["crc32"].tolist()
            for number, key, crc in zip(fields, shard.keys, crcs, strict=True):
                yield shard.field_names[number], key, crc

    def _blobs(self, end: UnitEnd, advance: Callable[[int, int], None]) -> Iterator[tuple[Blob, int | None]]:
        """Yield the blobs to store, with the marks of inspected images; collect the side files."""
        for member in self.unit.members():
            left = member.size_bytes
            for item in self._items(member, end):
                counted = min(len(item.data), left)  # a member may yield many records, larger than itself
                if isinstance(item, Sidecar):
                    end.sidecars[item.name] = item.data
                else:
                    problem, mark = self._look(item)
                    if problem is None or self._keeps(item, problem, end):
                        yield item, mark
                del item  # as above
                advance(counted, 0)
                left -= counted
            advance(left, 0)

    def _items(self, member: Member, end: UnitEnd) -> Iterator[Blob | Sidecar]:
        """Yield a member's blobs and side files; none if the member is too large and may be skipped."""
        try:
            yield from self.recipe.extract(member)
        except SourceError as err:
            if not err.details.get("is_oversized") or self.on_error != "skip":
                raise
            # The recipe names its blobs: extract the member without content to learn which ones are left out.
            empty = self.recipe.extract(dataclasses.replace(member, read=bytes))
            blobs = [item for item in empty if isinstance(item, Blob)]
            if not blobs:
                raise  # the records need this file, for example a list
            problem = f"{member.size_bytes:,} bytes, more than a record holds"
            for blob in blobs:
                end.skip(blob.field, blob.key, problem)

    def _look(self, blob: Blob) -> tuple[str | None, int | None]:
        """Check an image's header or pixels, unless the recipe already reports a problem."""
        if blob.problem is None and blob.checked and self.recipe.fields[blob.field].encoding == "image":
            return look(blob.data, decode=self.check_images)
        return blob.problem, None

    def _keeps(self, blob: Blob, problem: str, end: UnitEnd) -> bool:
        """Record an image's problem; return whether the image is stored."""
        if self.on_error == "keep" and blob.is_untrusted and not sniffed_ending(blob.data):
            raise PrepareError(
                f"{blob.name or blob.key}: {problem}. A list may be a stranger's, so nothing but images is stored. "
                "on_error='skip' (--on-error skip) leaves it out."
            )
        if self.on_error == "raise":
            raise PrepareError(
                f"{blob.name or blob.key}: {problem}. Pass on_error='keep' or 'skip' to go on without it."
            )
        if self.on_error == "keep":
            end.bad[blob.name or blob.key] = problem
            return True
        end.skip(blob.field, blob.key, f"{blob.name[-1000:]}: {problem}" if blob.name else problem)
        return False


def _changed(before: str, now: str) -> SourceError:
    text = f"The raw data changed since its preparation began: {before!r} was there, and now there is {now}."
    return SourceError(f"{text} What was made is thrown away; run the same command again.", worthless=True)
