"""A record set → what it was made from: its recipe, and the place of its raw data."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo import catalogue
from recordzoo.errors import RecordError
from recordzoo.preparing.directories import KnownDirectories
from recordzoo.recipes import flat, folder, listing
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.combined.recipe import DATASET, combined_again
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.imports.recipe import ImportRecipe
from recordzoo.recipes.list_table import LIST_ENDINGS
from recordzoo.recipes.variants import StoredRecipe, Variant, variant_recipe
from recordzoo.recipes.variants.recipe import VariantRecipe
from recordzoo.recipes.variants.stored import original_path
from recordzoo.records.made_from import MadeFrom
from recordzoo.records.manifest import ENDING, ORIGINAL
from recordzoo.records.reader import RecordReader, is_record_set


@dataclass(frozen=True, slots=True)
class Origin:
    """What a record set was made from.

    Attributes:
        recipe: How its records are made.
        root: Where its raw data is looked for, or goes to.
    """

    recipe: Recipe
    root: Path


def find_origin(reader: RecordReader, root: Path | None) -> Origin | None:
    """Find out what a record set was made from; None if nothing says it, or a program made it.

    Args:
        reader: The record set.
        root: Where its raw data is; None: where it was, or beside the record set.

    Raises:
        RecordZooError: As the recipe's `find` for databases: they are not there, or not what they were.
    """
    variant = reader.manifest.variant
    if root is None and variant != ORIGINAL:
        original = original_path(reader.folder, variant)
        if original != reader.folder and is_record_set(original):
            return Origin(_variant(StoredRecipe(RecordReader(original)), variant, original), original)
    places = [root] if root is not None else [*_recorded(reader), *_beside(reader)]
    recipe = _recipe(reader, places)
    if recipe is None or not places:
        return None
    place = next((each for each in places if _is_there(recipe, each)), places[-1])
    return Origin(_variant(recipe, variant, place), place)


def _variant(recipe: Recipe, variant: str, root: Path) -> Recipe:
    if variant in (ORIGINAL, recipe.variant):
        return recipe
    if isinstance(recipe, StoredRecipe):
        return VariantRecipe(recipe, Variant.parse(variant), root)
    return variant_recipe(recipe, root, variant)


def _recipe(reader: RecordReader, places: list[Path]) -> Recipe | None:
    manifest = reader.manifest
    written = manifest.metadata.get("written")
    layout = dict(written) if isinstance(written, dict) else {}
    if manifest.dataset == "folder":
        return folder.recipe(list(reader.names) if manifest.metadata.get("selection") else None)
    if manifest.dataset == "flat":
        return flat.recipe()
    if manifest.dataset == "list":
        return listing.recipe(layout.pop("shuffle_seed", None), layout)
    if manifest.dataset == "imported" and places:
        return ImportRecipe(places[0].absolute(), reader.folder)
    if manifest.dataset == DATASET:
        return combined_again(reader, places)
    if manifest.dataset in catalogue.names():
        return dataset_recipe(manifest.dataset, manifest.part)
    return None


def _recorded(reader: RecordReader) -> Iterator[Path]:
    """Yield where the raw data was when the records were made, by the files beside the manifest."""
    dataset = reader.manifest.dataset
    if dataset == DATASET:
        yield reader.folder.parent
    elif (path := listing.list_path(reader)) is not None:
        yield Path(path)
    elif (directories := KnownDirectories.of(reader)) is not None:
        yield Path(directories.root)
    elif dataset != "list" and (made_from := MadeFrom.of(reader)) is not None:
        yield Path(made_from.base)


def _beside(reader: RecordReader) -> Iterator[Path]:
    """Yield where the raw data would be for records that lie where `prepare` puts them."""
    path, manifest = reader.folder, reader.manifest
    if manifest.dataset == "list":
        yield from (path.with_suffix(ending) for ending in LIST_ENDINGS)
    elif manifest.dataset in ("folder", "flat"):
        yield path.with_name(path.name.removesuffix(ENDING).removesuffix(f"-{manifest.variant}"))
    elif manifest.dataset in catalogue.names():
        yield path.parent


def _is_there(recipe: Recipe, root: Path) -> bool:
    if not recipe.raw_files:
        return root.exists()
    with contextlib.suppress(RecordError, OSError, RuntimeError):  # broken there: another place may be whole
        return recipe.find(root) is not None
    return False
