"""Raw data → units and shards: how large the records will be, how many units there are, how many processes convert."""

from dataclasses import dataclass

from recordzoo.base.types import JSON
from recordzoo.base.workers import default_workers
from recordzoo.preparing.options import Options
from recordzoo.raw.member import Source, Unit
from recordzoo.recipes.base import Recipe
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.shard import stored_bytes

_SPILL = 1.03
"""How much more than on average the files of a unit may take in a shard."""

_FEW_BYTES = 16 << 20
"""Less raw data than this is converted before worker processes have started, which takes about a second."""


def records_bytes(recipe: Recipe, raw: Source | int) -> int:
    """Estimate the size of the records.

    Args:
        recipe: How the records are made.
        raw: The raw data; if it is not there yet, the size of its archives.
    """
    if isinstance(raw, int):
        return int(raw * recipe.expansion)
    return raw.records_bytes(recipe.expansion, lambda size: stored_bytes(recipe.stored_bytes(size)))


@dataclass(frozen=True)
class Division:
    """Divides raw data as the options say, or else by its size."""

    recipe: Recipe
    options: Options

    def shard_bytes(self, source: Source) -> int:
        """Return the target shard size in bytes; not used if the number of shards is given.

        Default: raw size / 8, so that several processes have work, clipped to 64 MiB..1 GiB. For variants: raw size /
        32, clipped to 16 MiB..1 GiB, because a megabyte of a variant takes a second of work.
        """
        if self.options.shard_bytes:
            return self.options.shard_bytes
        parts, least = (8, 64 << 20) if self.recipe.variant == ORIGINAL else (32, 16 << 20)
        data_bytes = int(source.size_bytes * min(1, self.recipe.expansion))
        return max(least, min(1 << 30, data_bytes // parts))

    def plan(self, source: Source) -> dict[str, JSON]:
        """Return the part of a build's plan that says how shards are cut."""
        return self.options.layout or {"shard_bytes": self.shard_bytes(source)}

    def units(self, source: Source) -> list[Unit]:
        """Cut the source: a shard for each unit if their number is given, else units that fill shards.

        Raises:
            ArgumentError: It cannot be cut into so many.
        """
        if self.options.num_shards:
            return source.cut(self.options.num_shards)
        # A little less raw data than fills a shard: the rest would become a small shard of its own.
        expansion = max(self.recipe.expansion, records_bytes(self.recipe, source) / max(1, source.size_bytes))
        return source.units(int(self.shard_bytes(source) / (_SPILL * expansion)))

    def num_workers(self, num_bytes: int) -> int:
        """Return how many processes convert this much raw data; one if the data is small.

        The size says nothing of the work if samples come from a user's own dataset; such a recipe has a set-up.
        """
        if self.options.workers:
            return self.options.workers
        return 1 if num_bytes < _FEW_BYTES and self.recipe.worker_setup() is None else default_workers()
