"""Where a record set came from: its recipe, and where its raw data is, by what it says of itself."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo import catalogue
from recordzoo.aliases import JSON
from recordzoo.errors import ArgumentError, RecordError
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
from recordzoo.records.manifest import ENDING, ORIGINAL, Manifest
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


@dataclass(frozen=True)
class Facts:
    """What is known of a record set; of one whose manifest is damaged, only what its name says.

    Attributes:
        path: Its directory.
        dataset: As in the manifest.
        part: As in the manifest.
        variant: As in the manifest.
        metadata: As in the manifest.
        reader: It, open; None if the manifest is damaged.
    """

    path: Path
    dataset: str
    part: str = ""
    variant: str = ORIGINAL
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    reader: RecordReader | None = None

    @staticmethod
    def of(reader: RecordReader) -> "Facts":
        """Take them from the manifest."""
        manifest: Manifest = reader.manifest
        return Facts(reader.folder, manifest.dataset, manifest.part, manifest.variant, manifest.metadata, reader)

    @staticmethod
    def by_name(path: Path) -> "Facts | None":
        """Guess them from what the directory is called; None if that says nothing."""
        name = path.name.removesuffix(ENDING)
        with contextlib.suppress(ArgumentError):
            entry, part = catalogue.find(name)
            return Facts(path, entry.name, part or "")
        beside = path.with_name(name)
        if beside.is_dir():
            return Facts(path, "folder")
        return Facts(path, "list") if any(map(Path.is_file, _lists(path))) else None


def find_origin(facts: Facts, root: Path | None) -> Origin | None:
    """Find out what a record set was made from; None if nothing says it, or it was made by a program.

    Args:
        facts: What is known of it.
        root: Where its raw data is; None: where it was, or beside the record set.

    Raises:
        RecordZooError: As the recipe's `find` for databases: they are not there, or not what they were.
    """
    if root is None and facts.variant != ORIGINAL:
        original = original_path(facts.path, facts.variant)
        if original != facts.path and is_record_set(original):
            return Origin(_variant(StoredRecipe(RecordReader(original)), facts, original), original)
    places = [root] if root is not None else [*_recorded(facts), *_beside(facts)]
    recipe = _recipe(facts, places)
    if recipe is None or not places:
        return None
    place = next((each for each in places if _is_there(recipe, each)), places[-1])
    return Origin(_variant(recipe, facts, place), place)


def _variant(recipe: Recipe, facts: Facts, root: Path) -> Recipe:
    if facts.variant in (ORIGINAL, recipe.variant):
        return recipe
    if isinstance(recipe, StoredRecipe):
        return VariantRecipe(recipe, Variant.parse(facts.variant), root)
    return variant_recipe(recipe, root, facts.variant)


def _recipe(facts: Facts, places: list[Path]) -> Recipe | None:
    names = list(facts.reader.names) if facts.reader is not None and facts.metadata.get("selection") else None
    written = facts.metadata.get("written")
    layout = dict(written) if isinstance(written, dict) else {}
    if facts.dataset == "folder":
        return folder.recipe(names)
    if facts.dataset == "flat":
        return flat.recipe()
    if facts.dataset == "list":
        return listing.recipe(layout.pop("shuffle_seed", None), layout)
    if facts.dataset == "imported" and places:
        return ImportRecipe(places[0].absolute(), facts.path)
    if facts.dataset == DATASET and facts.reader is not None:
        return combined_again(facts.reader, places)
    if facts.dataset in catalogue.names():
        return dataset_recipe(facts.dataset, facts.part)
    return None


def _recorded(facts: Facts) -> Iterator[Path]:
    """Yield where the raw data was when the records were made, by the files beside the manifest."""
    reader = facts.reader
    if reader is None:
        return
    if facts.dataset == DATASET:
        yield facts.path.parent
    elif (path := listing.list_path(reader)) is not None:
        yield Path(path)
    elif (directories := KnownDirectories.of(reader)) is not None:
        yield Path(directories.root)
    elif facts.dataset != "list" and (made_from := MadeFrom.of(reader)) is not None:
        yield Path(made_from.base)


def _beside(facts: Facts) -> Iterator[Path]:
    """Yield where the raw data would be for records that lie where `prepare` puts them."""
    if facts.dataset == "list":
        yield from _lists(facts.path)
    elif facts.dataset in ("folder", "flat"):
        name = facts.path.name.removesuffix(ENDING).removesuffix(f"-{facts.variant}")
        yield facts.path.with_name(name)
    elif facts.dataset in catalogue.names():
        yield facts.path.parent


def _lists(path: Path) -> list[Path]:
    return [path.with_suffix(ending) for ending in LIST_ENDINGS]


def _is_there(recipe: Recipe, root: Path) -> bool:
    if not recipe.raw_files:
        return root.exists()
    with contextlib.suppress(RecordError, OSError, RuntimeError):  # broken there: another place may be whole
        return recipe.find(root) is not None
    return False
