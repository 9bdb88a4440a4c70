"""Our record sets: with `RecordLoader`, or with torch's own DataLoader."""

import os
from pathlib import Path

import s3fs  # noqa: F401 - the others import their clients before the clock starts, too
from torch.utils.data import DataLoader

from benchmarks.object_storage.work import Work
from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe

BLOCK_BYTES, WINDOW = 16 << 20, 2
"""Samples of two blocks are mixed at a time, and a block is as large as a shard: few shards are needed at a time."""


def write(tree: Path, folder: Path, shard_bytes: int) -> None:
    ensure(FolderRecipe(), tree, records_dir=folder / "photos.records", prepare=True, shard_bytes=shard_bytes)


class _Lengths(ImageFolderRecord):
    """The number of bytes of each photograph, which is read but not decoded."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return len(self.read(index)), 0


def loader(source: str | Path, cache: Path, work: Work, *, is_stock: bool = False) -> DataLoader:
    os.environ["RECORDZOO_CACHE_DIR"] = str(cache)
    kind = ImageFolderRecord if work.is_decoded else _Lengths
    dataset = kind(f"{source}/photos.records", work.transform())
    order = RecordSampler(dataset, shuffle="block", block_bytes=BLOCK_BYTES, window=WINDOW, virtual_ranks=1)
    if is_stock:
        return DataLoader(dataset, work.batch_size, sampler=order, num_workers=work.workers, persistent_workers=True)
    return RecordLoader(
        dataset, work.batch_size, sampler=order, num_workers=work.workers, persistent_workers=True, precision="fast"
    )


def warm_up(tree: Path) -> None:
    """Have what `RecordLoader` imports and compiles when it is first used, which no epoch should count."""
    dataset = ImageFolderRecord(tree, Work(True).transform(), prepare=True)
    next(iter(RecordLoader(dataset, 2, precision="fast")))
