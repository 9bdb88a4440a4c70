"""How large records will be, and raw files are, as far as it is known before."""

from collections.abc import Iterable

from recordzoo.recipes.base import Recipe
from recordzoo.records.shard import stored_bytes
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Source


def records_bytes(recipe: Recipe, raw: Source | int) -> int:
    """Estimate the size of the records.

    Args:
        recipe: What they are made with.
        raw: The raw data; if it is not there yet, the size of its archives.
    """
    if isinstance(raw, int):
        return int(raw * recipe.expansion)
    return raw.records_bytes(recipe.expansion, lambda size: stored_bytes(recipe.stored_bytes(size)))


def files_bytes(files: Iterable[RemoteFile]) -> int | None:
    """Add up the sizes of raw files, exact or about; None if the size of one is not known."""
    sizes = [file.expected_bytes for file in files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
