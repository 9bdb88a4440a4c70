"""A damaged shard, written again from its values: the same file, byte for byte."""

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recordzoo import durable
from recordzoo.errors import CorruptRecordError, PrepareError, RecordError
from recordzoo.records.files import Directory, pread
from recordzoo.records.layout import map_sizes
from recordzoo.records.manifest import ShardSpec
from recordzoo.records.shard import ShardWriter, capacity_for, seal, stored_bytes
from recordzoo.repairing.spool import Spool
from recordzoo.repairing.values import ShardValues
from recordzoo.steps import step

_DEFAULTS = (64 << 20, 16 << 20, 4 << 20)


def map_bytes(directory: Directory, name: str, page_size: int) -> list[int]:
    """Read how large LMDB's map of a shard was; nothing of a shard whose head is damaged."""
    try:
        fd = directory.open(name)
    except RecordError:
        return []
    try:
        return map_sizes(pread(fd, 2 * page_size, 0), page_size)
    except OSError:
        return []
    finally:
        os.close(fd)


def target_bytes(directory: Directory, shards: Iterable[tuple[str, int]]) -> list[int]:
    """Return the target sizes with which shards may have been written, in bytes, the likeliest first.

    LMDB stores how large its map was, which follows from the target.

    Args:
        directory: The record set.
        shards: The file and the page size of each.
    """
    least = capacity_for(0)
    maps = [size for name, page_size in shards for size in map_bytes(directory, name, page_size) if size > least]
    return [(size - least) // (capacity_for(1) - least) for size, _ in Counter(maps).most_common()]


def write_again(
    folder: Path, directory: Directory, spec: ShardSpec, values: ShardValues, spool: Spool, sizes: Sequence[int]
) -> None:
    """Write a shard into a folder, under its final name.

    Args:
        folder: Where to.
        directory: The damaged record set.
        spec: What the shard must be.
        values: Its values, some of which the damaged file still holds.
        spool: The others.
        sizes: Target sizes with which it may have been written, in bytes; see `target_bytes`.

    Raises:
        PrepareError: It is not the same file as before, though its values are the same.
        OSError: The disk is full, or failed.
    """
    first = stored_bytes(int(values.lengths[0])) if len(values.lengths) else 0
    for capacity in dict.fromkeys(capacity_for(max(size, first)) for size in (*sizes, 0, *_DEFAULTS)):
        path = folder / f"{spec.name}.{secrets.token_hex(4)}.tmp"
        try:
            with ShardWriter(path, capacity) as writer:
                for data in _values(directory, spec, values, spool):
                    writer.put(data)
            sealed = seal(path, values.lengths.tolist(), values.crcs.tolist())
            if sealed.blake2b == spec.blake2b:
                step("shard.sealed")
                durable.rename(path, folder / spec.name)
                return
        finally:
            durable.remove(path)
    raise PrepareError(
        f"{directory.path / spec.name}: all its values are there, but they do not give the file that it was: another "
        "version of recordzoo or LMDB wrote it, or no shard is left that tells the target size. Nothing was replaced. "
        "To rebuild the whole record set, pass --refresh to `recordzoo prepare`.",
        path=str(directory.path),
    )


def _values(directory: Directory, spec: ShardSpec, values: ShardValues, spool: Spool) -> Iterator[bytes]:
    for slot, data in enumerate(values.read(directory, spec.name)):
        if data is None and values.kind(slot) not in spool:
            raise CorruptRecordError(f"{directory.path / spec.name} is damaged further while it is repaired.")
        yield spool.get(values.kind(slot)) if data is None else data
