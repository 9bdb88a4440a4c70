"""Record sets at URLs, for the dataset classes: nothing is prepared there."""

import os
from collections.abc import Sequence
from pathlib import Path

from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError, ManifestError, NotPreparedError
from recordzoo.net.failures import NOT_FOUND
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.options import Options
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import variant_recipe
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, ORIGINAL
from recordzoo.records.reader import RecordReader


def open_at_url(kind: str, recipe: Recipe, root: Url, options: Options, *, download: bool = False) -> RecordReader:
    """Open the record set of a recipe at a URL: the URL itself, or the set's usual place below it.

    Args:
        root: The URL.

    Raises:
        ArgumentError: An option would prepare something.
        NotPreparedError: There is no record set.
        RecordError: It cannot be read.
    """
    _refuse_preparing(kind, root, options, download=download)
    if options.records_dir is not None:
        return open_one(kind, [_as_url(options.records_dir)], options)
    local = Path(os.sep) / "root" / (root.name or "root")
    target = variant_recipe(recipe, local, options.variant).target(local)
    below = (root if target.parent == local else root.parent) / target.name
    return open_one(kind, [root, below] if root.name.endswith(ENDING) else [below, root], options)


def open_given(kind: str, root: Url, options: Options) -> RecordReader:
    """Open the record set at a URL, or the set ``<name>.records`` beside it."""
    _refuse_preparing(kind, root, options)
    beside = root.parent / f"{root.name}{ENDING}"
    return open_one(kind, [root] if root.name.endswith(ENDING) else [root, beside], options)


def open_variant(kind: str, reader: RecordReader, url: Url, options: Options) -> RecordReader:
    """Open the variant that lies beside the record set at a URL."""
    stem = url.name.removesuffix(ENDING)
    if reader.manifest.variant != ORIGINAL:
        stem = stem.removesuffix(f"-{reader.manifest.variant}")
    name = stem if options.variant == ORIGINAL else f"{stem}-{options.variant}"
    return open_one(kind, [url.parent / f"{name}{ENDING}"], options)


def open_one(kind: str, places: Sequence[Url], options: Options) -> RecordReader:
    """Open the first record set that is there."""
    for place in places:
        try:
            return RecordReader(place, cache_bytes=options.cache_bytes)
        except ManifestError as err:
            if getattr(err, "status", None) != NOT_FOUND:
                raise
    looked = " or ".join(str(place / MANIFEST_NAME) for place in places)
    name = next((place.name for place in places if place.name.endswith(ENDING)), f"NAME{ENDING}")
    target = next((place for place in places if place.name == name), places[0])
    raise NotPreparedError(
        f"{kind}: no record set (looked for {looked}). Prepare it on a disk, then run: {command('push', name, target)}",
        root=str(places[-1]),
    )


def _refuse_preparing(kind: str, root: Url, options: Options, *, download: bool = False) -> None:
    wanted = {"download": download, **{name: getattr(options, name) for name in ("prepare", "refresh", "discard_raw")}}
    for name, value in wanted.items():
        if value:
            raise ArgumentError(
                f"{kind}: {name}={value!r} has no meaning at {root}: nothing is prepared at a URL. Prepare on a disk, "
                f"then run: {command('push', f'NAME{ENDING}', root)}"
            )


def _as_url(place: str | os.PathLike[str]) -> Url:
    if not is_url(place):
        raise ArgumentError(f"Argument records_dir is {os.fspath(place)!r}; it must be a URL, because root is a URL.")
    return Url.parse(place)
