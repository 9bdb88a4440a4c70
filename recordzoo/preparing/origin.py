"""A record set → what it was made from: its recipe, and the place of its raw data."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from recordzoo.errors import RecordError
from recordzoo.preparing.kinds import kind_of
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.variants import StoredRecipe, Variant, variant_recipe
from recordzoo.recipes.variants.recipe import VariantRecipe
from recordzoo.recipes.variants.stored import original_path
from recordzoo.records.manifest import ORIGINAL
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
    kind = kind_of(reader.manifest)
    places = [root] if root is not None else [*kind.recorded(reader), *kind.beside(reader)]
    recipe = kind.recipe(reader, places)
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


def _is_there(recipe: Recipe, root: Path) -> bool:
    if not recipe.raw_files:
        return root.exists()
    with contextlib.suppress(RecordError, OSError, RuntimeError):  # broken there: another place may be whole
        return recipe.find(root) is not None
    return False
