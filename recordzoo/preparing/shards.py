"""Write blobs to shards: those of a unit, and those of a stream of values that a program passes one by one.

Each shard is filled, sealed while the next is filled, and reported in order.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.progress import Progress
from recordzoo.errors import PrepareError
from recordzoo.preparing.assemble import assemble, warn_of_bad
from recordzoo.preparing.journal import Journal
from recordzoo.preparing.rows import ShardDone, ShardRows, UnitDone, save_rows, save_sidecars, shard_stem
from recordzoo.publish.build import Build
from recordzoo.recipes.base import Blob, Recipe, Sidecar
from recordzoo.recipes.images import quiet
from recordzoo.recipes.jpeg import look, mark_of
from recordzoo.records.crc import crc32
from recordzoo.records.shard import ShardWriter, capacity_for, seal, stored_bytes


@dataclass
class _OpenShard:
    """A shard that is being filled."""

    writer: ShardWriter
    stack: contextlib.ExitStack
    rows: ShardRows = field(default_factory=ShardRows)
    size_bytes: int = 0


class UnitShards:
    """The shards of one unit. The context manager finishes the last shard, or removes it after an error.

    Args:
        folder: The build directory.
        unit: The unit's number.
        shard_bytes: Target shard size in bytes; None: one shard, however large.
        done: Finished shards of this unit.
        on_shard: Called with each further shard as soon as it is finished, in order.
        main_field: The field whose values are counted as images.
    """

    def __init__(
        self,
        folder: Path,
        unit: int,
        shard_bytes: int | None,
        done: tuple[ShardDone, ...] = (),
        on_shard: Callable[[ShardDone], None] = lambda done: None,
        main_field: str = "",
    ) -> None:
        self._folder, self._unit, self._shard_bytes, self._on_shard = folder, unit, shard_bytes, on_shard
        self._main_field = main_field
        self.done = list(done)
        self._open: _OpenShard | None = None
        self._sealing: Future[ShardDone] | None = None
        self._sealer = ThreadPoolExecutor(1, "recordzoo-seal")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self._finish_shard()
                self._collect()
        finally:
            self._abandon()
            self._sealer.shutdown()

    def put(self, blob: Blob, mark: int | None = None) -> None:
        """Store a blob.

        Args:
            mark: Its mark (`recordzoo.recipes.jpeg`). Default: determined now.
        """
        cost = stored_bytes(len(blob.data))
        limit = self._shard_bytes
        if self._open is not None and limit is not None and self._open.size_bytes + cost > limit:
            self._finish_shard()
        if self._open is None:
            self._open = self._new_shard(cost)
        self._open.writer.put(blob.data)
        if mark is None:
            with quiet():
                mark = mark_of(blob.data)
        self._open.rows.append(blob.field, blob.key, len(blob.data), crc32(blob.data), mark)
        self._open.size_bytes += cost

    def _new_shard(self, first: int) -> _OpenShard:
        path = (
            self._folder / f"{shard_stem(self._unit, len(self.done) + bool(self._sealing))}.{secrets.token_hex(4)}.tmp"
        )
        capacity = capacity_for(max(self._shard_bytes or 0, first))
        stack = contextlib.ExitStack()
        return _OpenShard(stack.enter_context(ShardWriter(path, capacity)), stack)

    def _finish_shard(self) -> None:
        if self._open is None:
            return
        self._collect()  # first: if this raises, the open shard is still known and gets removed
        shard, self._open = self._open, None
        self._sealing = self._sealer.submit(self._seal, shard, len(self.done))

    def _seal(self, shard: _OpenShard, number: int) -> ShardDone:
        """Sync the shard, read it back, write its rows and rename it."""
        path, rows, name = shard.writer.path, shard.rows, shard_stem(self._unit, number)
        try:
            shard.stack.close()
            sealed = seal(path, rows.lengths, rows.crcs)
        except BaseException:
            with contextlib.suppress(OSError):  # Windows: still mapped by the error's traceback; the build sweeps it
                durable.remove(path)  # after a failed sync, pages that look written may be lost
            raise
        rows_digest = save_rows(self._folder, name, rows, sealed.offsets)
        crash_point("shard.sealed")
        # Another worker may have finished the same unit: its shard has the same bytes.
        durable.move(path, self._folder / f"{name}.lmdb")
        durable.sync_directory(self._folder)
        return ShardDone(
            unit=self._unit,
            number=number,
            num_values=len(rows.lengths),
            size_bytes=sealed.size_bytes,
            page_size=sealed.page_size,
            last_page=sealed.last_page,
            hash=sealed.hash,
            rows=rows_digest,
            num_images=rows.fields.count(self._main_field),
        )

    def _collect(self) -> None:
        """Wait for the shard that is being sealed, and report it."""
        if self._sealing is not None:
            sealing, self._sealing = self._sealing, None
            done = sealing.result()
            self.done.append(done)
            self._on_shard(done)

    def _abandon(self) -> None:
        """After an error, report finished shards and remove the open one."""
        if self._open is not None:
            shard, self._open = self._open, None
            abort = RuntimeError("abandoned")
            with contextlib.suppress(OSError):
                shard.stack.__exit__(RuntimeError, abort, None)
            durable.remove(shard.writer.path)
        if self._sealing is not None:
            with contextlib.suppress(OSError, PrepareError):
                self._collect()


class Stream(UnitShards):
    """The shards of a build, filled by a program: one unit, which cannot be resumed.

    Args:
        build: The claimed build.
        shard_bytes: Target shard size in bytes.
        progress: For the journal, which reports nothing: nothing is resumed.
    """

    def __init__(self, build: Build, shard_bytes: int, progress: Progress) -> None:
        self._journal = Journal(build, progress)
        self._sidecars: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        super().__init__(build.path, 0, shard_bytes, on_shard=self._journal.add_shard)

    def add(self, name: str, blobs: Iterable[Blob], sidecars: Iterable[Sidecar]) -> None:
        """Store the values of a record."""
        for blob in blobs:
            problem, mark = look(blob.data) if blob.checked else (None, None)
            self.put(blob, mark)
            if problem is not None:
                self._bad[name] = problem
        self._sidecars |= {side.name: side.data for side in sidecars}

    def take_sidecars(self) -> dict[str, bytes]:
        """Return and forget the added side files: the caller writes them in another way."""
        found, self._sidecars = self._sidecars, {}
        return found

    def assemble(self, recipe: Recipe, sidecars: Iterable[Sidecar]) -> None:
        """Assemble the set after all shards are finished.

        Args:
            recipe: Arranges the records.
            sidecars: The last ones.
        """
        self._sidecars |= {side.name: side.data for side in sidecars}
        digest = save_sidecars(self._journal.path, 0, self._sidecars)
        self._journal.add_units([UnitDone(0, tuple(self.done), digest, self._bad, {})])
        assemble(self._journal, recipe, "records", [])
        warn_of_bad(self._journal)
