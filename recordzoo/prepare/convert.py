"""One unit of raw data → finished shards. Runs in the parent or in a worker process; writes only files of its own."""

import contextlib
import io
import secrets
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from recordzoo import durable
from recordzoo.errors import PrepareError, SourceError
from recordzoo.prepare.rows import ShardDone, ShardRows, UnitDone, load_rows, save_rows, save_sides
from recordzoo.recipes.base import Blob, Recipe, Side
from recordzoo.recipes.class_folders import IMAGE_ENDINGS
from recordzoo.records.shard import ShardWriter, seal, stored_bytes
from recordzoo.sources.member import Unit
from recordzoo.steps import step

_filters = threading.Lock()


@dataclass(frozen=True, slots=True)
class Task:
    """All that converting a unit needs; pickles.

    Attributes:
        number: The unit's place in the plan.
        folder: The build directory.
        shard_bytes: About how large a shard may become.
        on_error: What to do with an image that no decoder recognises.
        done: Shards of this unit that an earlier run finished.
    """

    number: int
    unit: Unit
    recipe: Recipe
    folder: Path
    shard_bytes: int
    on_error: str
    done: tuple[ShardDone, ...] = ()


@dataclass
class _OpenShard:
    """A shard that is being filled."""

    writer: ShardWriter
    stack: contextlib.ExitStack
    rows: ShardRows = field(default_factory=ShardRows)
    size_bytes: int = 0


class UnitConverter:
    """Converts one unit; `run` does it all.

    Args:
        task: What to convert.
        on_shard: Told of each shard as soon as it is finished, in order.
        advance: Told how many bytes and images were stored; called from the thread that runs.
    """

    def __init__(
        self,
        task: Task,
        on_shard: Callable[[ShardDone], None] = lambda done: None,
        advance: Callable[[int, int], None] = lambda num_bytes, num_images: None,
    ) -> None:
        self._task, self._on_shard, self._advance = task, on_shard, advance
        self._shards: list[ShardDone] = []
        self._sides: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._open: _OpenShard | None = None
        self._sealing: Future[ShardDone] | None = None

    def run(self) -> UnitDone:
        """Convert the unit; sealing a shard overlaps with filling the next.

        Raises:
            SourceError: The raw data is broken, or changed since an earlier run.
            PrepareError: An image is broken and `on_error` is "raise".
            OSError: The disk is full, or failed.
        """
        expected = self._expected_keys()
        with ThreadPoolExecutor(1, "recordzoo-seal") as self._sealer:
            try:
                for blob in self._blobs():
                    wanted = next(expected, None)
                    if wanted is None:
                        self._store(blob)
                    elif wanted != (blob.field, blob.key):
                        raise _changed(wanted[1], repr(blob.key))
                    else:
                        self._advance(len(blob.data), 1)
                if (wanted := next(expected, None)) is not None:
                    raise _changed(wanted[1], "nothing")
                self._finish_shard()
                self._collect()
            finally:
                self._abandon()
        sides = save_sides(self._task.folder, self._task.number, self._sides)
        return UnitDone(self._task.number, tuple(self._shards), sides, self._bad, self._skipped)

    def _expected_keys(self) -> Iterator[tuple[str, str]]:
        """Keys that finished shards of an earlier run hold: they come again, in that order, and are passed over."""
        for done in self._task.done:
            self._shards.append(done)
            yield from load_rows(self._task.folder, done).keys()

    def _blobs(self) -> Iterator[Blob]:
        """Yield what is to be stored; keep aside what is not."""
        for member in self._task.unit.members():
            for item in self._task.recipe.extract(member):
                if isinstance(item, Side):
                    self._sides[item.name] = item.data
                elif self._accepts(item, member.name):
                    yield item

    def _accepts(self, blob: Blob, file: str) -> bool:
        """Look at an image's header; note what is wrong, and say whether the image is stored all the same.

        A file that is not called an image is not looked at: whoever chose it has a loader for it (`is_valid_file`).
        """
        if self._task.recipe.fields[blob.field].encoding != "image" or not file.lower().endswith(IMAGE_ENDINGS):
            return True
        if (problem := image_problem(blob.data)) is None:
            return True
        if self._task.on_error == "raise":
            raise PrepareError(f"{blob.key}: {problem}. Pass on_error='keep' or 'skip' to go on without it.")
        keep = self._task.on_error == "keep"
        (self._bad if keep else self._skipped)[blob.key] = problem
        return keep

    def _store(self, blob: Blob) -> None:
        cost = stored_bytes(len(blob.data))
        if self._open is not None and self._open.size_bytes + cost > self._task.shard_bytes:
            self._finish_shard()
        if self._open is None:
            self._open = self._new_shard(cost)
        self._open.writer.put(blob.data)
        self._open.rows.append(blob.field, blob.key, len(blob.data), zlib.crc32(blob.data))
        self._open.size_bytes += cost
        self._advance(len(blob.data), 1)

    def _new_shard(self, first: int) -> _OpenShard:
        path = self._task.folder / f"{self._name(len(self._shards) + bool(self._sealing))}.{secrets.token_hex(4)}.tmp"
        # Room for LMDB's own pages, and for pages half full where values of two lengths alternate; from the data
        # alone, for it is stored in the file.
        capacity = max(self._task.shard_bytes, first) * 2 + (16 << 20)
        stack = contextlib.ExitStack()
        return _OpenShard(stack.enter_context(ShardWriter(path, capacity)), stack)

    def _name(self, number: int) -> str:
        return f"u{self._task.number:05d}-s{number:04d}"

    def _finish_shard(self) -> None:
        if self._open is None:
            return
        self._collect()  # first: if it raises, the open shard is still known and abandoned
        shard, self._open = self._open, None
        number = len(self._shards)
        self._sealing = self._sealer.submit(self._seal, shard, number)

    def _seal(self, shard: _OpenShard, number: int) -> ShardDone:
        """Sync the shard, read it back, write its rows, give it its name."""
        path, rows, name = shard.writer.path, shard.rows, self._name(number)
        try:
            shard.stack.close()
            sealed = seal(path, rows.lengths, rows.crcs)
        except BaseException:
            durable.remove(path)  # after a failed sync its pages may be gone though they look written
            raise
        rows_digest = save_rows(self._task.folder, name, rows, sealed.offsets)
        step("shard.sealed")
        durable.rename(path, self._task.folder / f"{name}.lmdb")
        return ShardDone(
            unit=self._task.number,
            number=number,
            num_values=len(rows.lengths),
            size_bytes=sealed.size_bytes,
            page_size=sealed.page_size,
            last_page=sealed.last_page,
            blake2b=sealed.blake2b,
            rows=rows_digest,
        )

    def _collect(self) -> None:
        """Wait for the shard that is being sealed, and report it."""
        if self._sealing is not None:
            sealing, self._sealing = self._sealing, None
            done = sealing.result()
            self._shards.append(done)
            self._on_shard(done)

    def _abandon(self) -> None:
        """After an error: report what was finished, leave nothing half-done open."""
        if self._open is not None:
            shard, self._open = self._open, None
            abort = RuntimeError("abandoned")
            with contextlib.suppress(OSError):
                shard.stack.__exit__(RuntimeError, abort, None)
            durable.remove(shard.writer.path)
        if self._sealing is not None:
            with contextlib.suppress(OSError, PrepareError):
                self._collect()


def _changed(before: str, now: str) -> SourceError:
    text = f"The raw data changed since its preparation began: {before!r} was there, and now there is {now}."
    return SourceError(f"{text} What was made is thrown away; run the same command again.", worthless=True)


def image_problem(data: bytes) -> str | None:
    """Say why no decoder takes an image, from its header alone; None if one does."""
    try:
        # Warnings of odd EXIF blocks are for who reads the image. Filters belong to the whole process: they are changed
        # only for this moment, and by one thread at a time.
        with _filters, warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")
            with Image.open(io.BytesIO(data)):
                return None
    except UnidentifiedImageError:
        return "no image format that Pillow knows" if data else "an empty file"
    except Exception as err:  # noqa: BLE001  # Pillow's format plug-ins raise anything on hostile headers
        return f"{type(err).__name__}: {err}"[:300]


def convert_unit(task: Task) -> UnitDone:
    """Convert a unit in a worker process."""
    return UnitConverter(task).run()
