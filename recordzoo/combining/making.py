"""Build a combined set, reuse an existing one, or extend a set in place; shared by all functions of this room."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from recordzoo.base.program import command
from recordzoo.custom.options import options_to_make
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.net.url import Url, is_url
from recordzoo.preparing import Options, ensure
from recordzoo.preparing.linking import LinkJob
from recordzoo.publish.exchange import check_place
from recordzoo.publish.output import ANOTHER_PATH, behind_links
from recordzoo.recipes.from_sets.combined import Change, CombinedRecipe
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.reader import RecordReader


class How(TypedDict, total=False):
    """The options of `CombinedRecipe`."""

    unite: bool
    keeps_names: bool
    change: Change | None


def make_combined(
    parts: Sequence[SetPart], output: str | os.PathLike[str], options: Options, **how: Unpack[How]
) -> Path:
    """Combine the parts into a set, unless it exists."""
    place = _place(parts, output)
    check_place(place, ANOTHER_PATH)
    recipe = CombinedRecipe(parts, place, written=options.layout, is_linked=_may_link(parts, options), **how)
    to_make = options_to_make(place, options, lambda: _check_same(recipe))
    if to_make is not None:
        if recipe.is_linked:
            LinkJob(recipe, options.progress, replace=to_make.refresh is True).run()
        else:
            ensure(recipe, place.parent, to_make)
        _check_same(recipe)  # another process may have published something else first
    return place


def make_linked(
    parts: Sequence[SetPart], output: str | os.PathLike[str] | None, options: Options, **how: Unpack[How]
) -> Path:
    """Build a set that shares the shards of the parts; without `output`, replace the first part."""
    for part in parts:
        if not isinstance(part.reader.path, Path):
            raise ArgumentError(
                f"{part.reader.path} is at a URL, and only sets of one machine share shards. "
                f"Run: {command('pull', part.reader.path)}"
            )
    if output is not None:
        return make_combined(parts, output, options, **how)
    place = behind_links(parts[0].reader.folder)
    check_place(place, ANOTHER_PATH)
    recipe = CombinedRecipe(parts, place, is_linked=True, **how)
    LinkJob(recipe, options.progress, replace=True).run()
    if not _is_made(recipe):
        raise OtherSourceError(
            f"{place} was changed by another process meanwhile. Run the same command again.", path=str(place)
        )
    return place


def _may_link(parts: Sequence[SetPart], options: Options) -> bool:
    """Whether the new set can share the unmodified shards of the parts.

    Not if records were left out: their values would stay in the shards, and `push` would publish them.
    """
    is_read = options.check_images or options.executor is not None or options.on_error != "keep"
    is_whole = all(part.choice.is_all and isinstance(part.reader.path, Path) for part in parts)
    return is_whole and not options.layout and not is_read


def _place(parts: Sequence[SetPart], output: str | os.PathLike[str]) -> Path:
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


def _is_made(recipe: CombinedRecipe) -> bool:
    """Whether the existing set is the requested one."""
    return recipe.is_of(RecordReader(recipe.output).manifest, recipe.output)


def _check_same(recipe: CombinedRecipe) -> None:
    if not _is_made(recipe):
        sets = ", ".join(part.name for part in recipe.parts)
        raise OtherSourceError(
            f"{recipe.output} is there and was not made of these records of {sets}. Pass refresh=True (--refresh) to "
            "replace it, or another output.",
            path=str(recipe.output),
        )
