"""Convert one unit of raw data to finished shards, in the parent or a worker. Writes only the unit's own files."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from recordzoo.errors import PrepareError, SourceError
from recordzoo.preparing.rows import ShardDone, UnitDone, load_rows, save_sidecars
from recordzoo.preparing.shards import UnitShards
from recordzoo.raw.member import Member, Unit
from recordzoo.recipes.base import Blob, Recipe, Sidecar
from recordzoo.recipes.jpeg import look
from recordzoo.records.crc import crc32


@dataclass(frozen=True, slots=True)
class Task:
    """The input of a unit's conversion; it can be pickled.

    Attributes:
        number: The unit's place in the plan.
        folder: The build directory.
        shard_bytes: Target shard size in bytes; None: the unit is one shard, however large.
        on_error: Treatment of images that no decoder recognises.
        check_images: Decode each image instead of reading only its header.
        done: Shards of this unit that an earlier run finished.
        max_pixels: Pillow's limit against decompression bombs, which the user may have changed.
    """

    number: int
    unit: Unit
    recipe: Recipe
    folder: Path
    shard_bytes: int | None
    on_error: str
    check_images: bool = False
    done: tuple[ShardDone, ...] = ()
    max_pixels: int | None = field(default_factory=lambda: Image.MAX_IMAGE_PIXELS)


class UnitConverter:
    """Converts one unit, with `run`.

    Args:
        task: The unit to convert.
        on_shard: Called with each shard as soon as it is finished, in order.
        advance: Called in the running thread with the numbers of bytes read and images stored.
    """

    def __init__(
        self,
        task: Task,
        on_shard: Callable[[ShardDone], None] = lambda done: None,
        advance: Callable[[int, int], None] = lambda num_bytes, num_images: None,
    ) -> None:
        self._task, self._on_shard, self._advance = task, on_shard, advance
        self._sidecars: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        self._skipped: dict[str, dict[str, str]] = {}

    def run(self) -> UnitDone:
        """Convert the unit; sealing a shard overlaps with filling the next."""
        task = self._task
        expected = self._expected_values()
        main_field = task.recipe.main_field
        with UnitShards(task.folder, task.number, task.shard_bytes, task.done, self._on_shard, main_field) as shards:
            for blob, mark in self._blobs():
                wanted = next(expected, None)
                if wanted is None:
                    shards.put(blob, mark)
                elif wanted[:2] != (blob.field, blob.key):
                    raise _changed(wanted[1], repr(blob.key))
                elif wanted[2] != crc32(blob.data):
                    raise _changed(wanted[1], "another of that name")
                self._advance(0, int(blob.field == main_field))
                del blob  # freed before the next blob, which may be as large, is read
            if (wanted := next(expected, None)) is not None:
                raise _changed(wanted[1], "nothing")
        sidecars = save_sidecars(task.folder, task.number, self._sidecars)
        return UnitDone(task.number, tuple(shards.done), sidecars, self._bad, self._skipped, task.unit.stamp)

    def _expected_values(self) -> Iterator[tuple[str, str, int]]:
        """Yield the values of an earlier run's shards: they come again in this order and are skipped."""
        for done in self._task.done:
            yield from load_rows(self._task.folder, done).values()

    def _blobs(self) -> Iterator[tuple[Blob, int | None]]:
        """Yield the blobs to store, with the marks of inspected images; collect the side files."""
        for member in self._task.unit.members():
            left = member.size_bytes
            for item in self._items(member):
                counted = min(len(item.data), left)  # a member may yield many records, larger than itself
                if isinstance(item, Sidecar):
                    self._sidecars[item.name] = item.data
                else:
                    problem, mark = self._look(item)
                    if problem is None or self._keeps(item, problem):
                        yield item, mark
                del item  # as above
                self._advance(counted, 0)
                left -= counted
            self._advance(left, 0)

    def _items(self, member: Member) -> Iterator[Blob | Sidecar]:
        """Yield a member's blobs and side files; none if the member is too large and may be skipped."""
        try:
            yield from self._task.recipe.extract(member)
        except SourceError as err:
            if not err.details.get("is_oversized") or self._task.on_error != "skip":
                raise
            # The recipe names its blobs: extract the member without content to learn which ones are left out.
            empty = self._task.recipe.extract(dataclasses.replace(member, read=bytes))
            blobs = [item for item in empty if isinstance(item, Blob)]
            if not blobs:
                raise  # the records need this file, for example a list
            problem = f"{member.size_bytes:,} bytes, more than a record holds"
            for blob in blobs:
                self._skipped.setdefault(blob.field, {})[blob.key] = problem

    def _look(self, blob: Blob) -> tuple[str | None, int | None]:
        """Check an image's header or pixels, unless the recipe already reports a problem."""
        if blob.problem is None and blob.checked and self._task.recipe.fields[blob.field].encoding == "image":
            return look(blob.data, decode=self._task.check_images)
        return blob.problem, None

    def _keeps(self, blob: Blob, problem: str) -> bool:
        """Record an image's problem; return whether the image is stored."""
        if self._task.on_error == "raise":
            raise PrepareError(
                f"{blob.name or blob.key}: {problem}. Pass on_error='keep' or 'skip' to go on without it."
            )
        keep = self._task.on_error == "keep"
        if keep:
            self._bad[blob.name or blob.key] = problem
        else:
            reason = f"{blob.name[-1000:]}: {problem}" if blob.name else problem
            self._skipped.setdefault(blob.field, {})[blob.key] = reason
        return keep


def _changed(before: str, now: str) -> SourceError:
    text = f"The raw data changed since its preparation began: {before!r} was there, and now there is {now}."
    return SourceError(f"{text} What was made is thrown away; run the same command again.", worthless=True)


def convert_unit(task: Task, advance: Callable[[int, int], None] = lambda num_bytes, num_images: None) -> UnitDone:
    """Convert a unit in a worker; `advance` as of `UnitConverter`."""
    Image.MAX_IMAGE_PIXELS = task.max_pixels
    return UnitConverter(task, advance=advance).run()
