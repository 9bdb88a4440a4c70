"""`verify`: check a record set and report its problems; even a hostile set cannot harm the calling process."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.base.progress import LogProgress, Progress
from recordzoo.errors import ManifestError, RecordError
from recordzoo.net.url import Url, is_url
from recordzoo.records.checking import MAX_PROBLEMS, Check, Report
from recordzoo.records.crc import crc32
from recordzoo.records.files import Directory, pread
from recordzoo.records.lmdb_walk import LmdbWalk
from recordzoo.records.manifest import MANIFEST_NAME, ShardSpec, manifest_digest

__all__ = ["Report", "verify"]

_MOST_TIMES = 5
"""Checks of one record set that is replaced each time."""


def verify(
    path: str | os.PathLike[str],
    *,
    full: bool = False,
    progress: Progress | None = None,
    max_problems: int | None = MAX_PROBLEMS,
) -> Report:
    """Check a record set.

    Always checked: the manifest; that each of its files is a regular file of the right size; the hash of each array;
    that indices, splits and names fit; the head of each shard. `full` reads everything: the hash of each shard, the
    CRC-32 of each record, and each shard's tree through LMDB, in a child process.

    Damage, also of the manifest, is reported, not raised. A set that is replaced meanwhile is checked again.

    Args:
        path: The record set's directory, or its URL: then the cache is not used, and shards are only compared with
            their hashes in the manifest.
        full: Whether to read the shards.
        progress: Shows the work. Default: log lines.
        max_problems: Stop after this many problems (`Report.stopped`); None: find all.

    Raises:
        ManifestError: There is no manifest: it is not a record set.
        FormatVersionError: It has a later format.
        RemoteError: The server of a URL cannot be reached, or refuses access.
        RecordError: The record set is replaced again and again.
    """
    if is_url(path):
        from recordzoo.records.remote_check import verify_at_url  # its imports are slow

        return verify_at_url(Url.parse(path), full, progress or LogProgress(), max_problems)
    place = Path(path).expanduser().absolute()
    for _ in range(_MOST_TIMES):
        try:
            directory = Directory(place)
        except OSError as err:
            raise ManifestError(f"{place} is not a record set: {err.strerror}.", path=str(place)) from err
        if not os.path.lexists(place / MANIFEST_NAME):
            raise ManifestError(f"{place} is not a record set: it has no {MANIFEST_NAME}.", path=str(place))
        check = _LocalCheck(directory, progress or LogProgress(), max_problems)
        check.run(full)
        if check.report.ok or not directory.is_replaced:
            return check.report
    raise RecordError(
        f"{place} was replaced {_MOST_TIMES} times while it was verified. Verify it again.", path=str(place)
    )


class _LocalCheck(Check):
    """One run of `verify` over a directory."""

    def __init__(self, directory: Directory, progress: Progress, max_problems: int | None) -> None:
        super().__init__(directory, progress, max_problems)
        self.folder = directory.path

    @override
    def listed(self) -> set[str]:
        return set(os.listdir(self.folder))

    @override
    def read_head(self, spec: ShardSpec) -> bytes:
        fd = self.directory.open(spec.name, spec.size_bytes)
        try:
            return pread(fd, 2 * spec.page_size, 0)
        finally:
            os.close(fd)

    @override
    def check_shards(self, numbers: Sequence[int], manifest: bytes) -> None:
        with LmdbWalk(self.folder, manifest_digest(manifest)) as walk, ThreadPoolExecutor(1) as pool:
            for number in numbers:
                self._shard(number, self.manifest.shards[number], walk, pool)

    def _shard(self, number: int, spec: ShardSpec, walk: LmdbWalk, pool: ThreadPoolExecutor) -> None:
        """Read a shard in three ways in parallel: LMDB in the child, records in a thread, the whole file here."""
        try:
            fd = self.directory.open(spec.name, spec.size_bytes)
        except OSError as err:
            self.error(spec.name, err)
            return
        try:
            records = pool.submit(lambda: list(self._damaged(fd, number)))
            try:
                if self.hash(fd, spec.size_bytes)[0] != spec.hash:
                    self.problem(spec.name, "its hash is not the one in the manifest; it was damaged")
                self.count(0, spec.size_bytes)
            except OSError as err:
                self.error(spec.name, err)
            finally:
                found = records.result()
        finally:
            os.close(fd)
        for name, checked, positions in found:
            self.count(0, 0, checked)
            self.name_records(name, positions, spec.name, "its bytes have another CRC-32")
            self.progress.advance(0, checked)
        for problem in walk.ask(number, spec.size_bytes):
            self.problem(spec.name, problem)

    def _damaged(self, fd: int, shard: int) -> Iterator[tuple[str, int, list[int]]]:
        """Yield each blob field's name, its number of records in the shard, and the damaged positions."""
        size_bytes = self.manifest.shards[shard].size_bytes
        for name, index in self.indices.items():
            positions = np.flatnonzero(index["shard"] == shard)
            positions = positions[np.argsort(index["offset"][positions], kind="stable")]
            bad = []
            for position, (_, _, length, crc, offset) in zip(
                positions.tolist(), index[positions].tolist(), strict=True
            ):
                if offset + length > size_bytes:
                    continue  # reported with the index
                try:
                    data = pread(fd, length, offset)
                except (OSError, MemoryError):
                    data = b""
                if len(data) != length or crc32(data) != crc:
                    bad.append(position)
            yield name, len(positions), sorted(bad)
