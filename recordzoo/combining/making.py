"""What `merge` and `subset` share: a combined set is made, or is there already."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recordzoo.custom.options import OwnOptions, check_place, is_current
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.preparing import ensure, is_record_set
from recordzoo.recipes.combined.part import Part
from recordzoo.recipes.combined.recipe import CombinedRecipe
from recordzoo.records.reader import RecordReader
from recordzoo.remote.url import Url, is_url


def make_combined(
    parts: Sequence[Part], output: str | os.PathLike[str], options: OwnOptions, *, unite: bool = False
) -> Path:
    """Make a set of the parts, unless it is there.

    Raises:
        ArgumentError: The parts do not fit together; or `output` is one of the sets, or a URL.
        OtherSourceError: `output` holds something else.
    """
    place = _place(parts, output)
    check_place(place)
    written: dict[str, Any] = {  # Any: JSON
        name: value for name, value in options.items() if name in ("num_shards", "shard_bytes") and value is not None
    }
    recipe = CombinedRecipe(parts, place, unite=unite, written=written)
    if is_record_set(place) and is_current(options, lambda: _check_same(place, recipe)):
        return place
    ensure(recipe, place.parent, prepare=True, records_dir=place, **options)
    _check_same(place, recipe)  # another process may have been faster, with something else
    return place


def _place(parts: Sequence[Part], output: str | os.PathLike[str]) -> Path:
    if is_url(output):
        raise ArgumentError(
            f"{Url.parse(output)} is a URL; the new record set is made on this machine. Push it afterwards."
        )
    place = Path(output).expanduser().absolute()
    for part in parts:
        path = part.reader.path
        if isinstance(path, Path) and place.exists() and place.samefile(path):
            raise ArgumentError(f"The output {place} is one of the record sets that are read. Name another directory.")
    return place


def _check_same(place: Path, recipe: CombinedRecipe) -> None:
    """Compare what is there with what is asked for."""
    if not recipe.is_of(RecordReader(place).manifest, place):
        sets = ", ".join(part.name for part in recipe.parts)
        raise OtherSourceError(
            f"{place} is there and was not made of these records of {sets}. Pass refresh=True (--refresh) to replace "
            "it, or another output.",
            path=str(place),
        )
