"""Divide raw data into units and shards; choose the number of processes."""

from dataclasses import dataclass

from recordzoo.base.types import JSON
from recordzoo.base.workers import default_workers
from recordzoo.preparing.options import Options
from recordzoo.raw.member import Source, Unit
from recordzoo.recipes.base import Recipe
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.shard import stored_bytes

_SPILL = 1.03
"""Allowed excess of a unit's stored size over the average."""

_FEW_BYTES = 16 << 20
"""One process converts less raw data than this in about a second, the start-up time of workers."""


def records_bytes(recipe: Recipe, raw: Source | int) -> int:
    """Estimate the size of the records.

    Args:
        recipe: The recipe.
        raw: The raw data; before the download, the size of its archives.
    """
    if isinstance(raw, int):
        return int(raw * recipe.expansion)
    return raw.records_bytes(recipe.expansion, lambda size: stored_bytes(recipe.stored_bytes(size)))


@dataclass(frozen=True)
class Division:
    """Divides raw data by the options, or by its size."""

    recipe: Recipe
    options: Options

    def shard_bytes(self, source: Source) -> int:
        """Return the target shard size in bytes; unused if the number of shards is given.

        Default: raw size / 8, so that several processes have work, clipped to 64 MiB..1 GiB. For variants: raw size /
        32, clipped to 16 MiB..1 GiB, because a megabyte of a variant takes a second of work.
        """
        if self.options.shard_bytes:
            return self.options.shard_bytes
        parts, least = (8, 64 << 20) if self.recipe.variant == ORIGINAL else (32, 16 << 20)
        data_bytes = int(source.size_bytes * min(1, self.recipe.expansion))
        return max(least, min(1 << 30, data_bytes // parts))

    def plan(self, source: Source) -> dict[str, JSON]:
        """Return the shard layout for a build's plan."""
        return self.options.layout or {"shard_bytes": self.shard_bytes(source)}

    def units(self, source: Source) -> list[Unit]:
        """Cut the source into units: one per shard if `num_shards` is given, otherwise units that fill shards.

        Raises:
            ArgumentError: The source cannot be cut into that many units.
        """
        if self.options.num_shards:
            return source.cut(self.options.num_shards)
        # Slightly less raw data than fills a shard: an overflow would give a small extra shard.
        expansion = max(self.recipe.expansion, records_bytes(self.recipe, source) / max(1, source.size_bytes))
        return source.units(int(self.shard_bytes(source) / (_SPILL * expansion)))

    def num_workers(self, num_bytes: int) -> int:
        """Return the number of processes for this much raw data; one if the data is small.

        Size does not predict the work for samples of a user's own dataset; such a recipe has a set-up.
        """
        if self.options.workers:
            return self.options.workers
        return 1 if num_bytes < _FEW_BYTES and self.recipe.worker_setup() is None else default_workers()
