"""The kinds of record sets: the class that opens each, its title, and its raw data."""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from recordzoo import catalogue
from recordzoo.preparing.directories import KnownDirectories
from recordzoo.recipes import annotated_folder, flat, folder, listing
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.from_sets.combined import combined_again
from recordzoo.recipes.list_columns import Columns
from recordzoo.recipes.list_table import LIST_ENDINGS
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import MadeFrom
from recordzoo.records.manifest import ENDING, Manifest
from recordzoo.records.reader import RecordReader


def _any_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    return "recordzoo.families.record_set", "RecordDataset", {}


def _no_words(reader: RecordReader, root: str) -> list[str]:
    return []


def _nowhere(reader: RecordReader) -> Iterable[Path]:
    return ()


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What differs between kinds of record sets.

    Attributes:
        text: The content of such a set; "": the dataset's name describes it.
        recipe: Return the recipe that rebuilds a set, or None. The places are directories where the raw data may be.
        recorded: The former path of the raw data, from the files beside the manifest.
        beside: The path of the raw data of a set in the default place of `prepare`.
        words: The arguments of ``recordzoo prepare`` that rebuild a set from the raw data in a directory.
        opens: Return module, name and further arguments of the class that opens a set.
    """

    text: str
    recipe: Callable[[RecordReader, Sequence[Path]], Recipe | None]
    recorded: Callable[[RecordReader], Iterable[Path]] = _nowhere
    beside: Callable[[RecordReader], Iterable[Path]] = _nowhere
    words: Callable[[RecordReader, str], list[str]] = _no_words
    opens: Callable[[Manifest], tuple[str, str, Mapping[str, Any]]] = _any_class


def kind_of(manifest: Manifest) -> KindFacts:
    """Return the facts of a record set's kind."""
    return KINDS[manifest.kind]


def text_of(manifest: Manifest) -> str:
    """Return the title of a record set's data."""
    label = f"{manifest.dataset}.{manifest.part}" if manifest.part else manifest.dataset
    return kind_of(manifest).text or label


def _is_known(manifest: Manifest) -> bool:
    return manifest.dataset in catalogue.names()  # a later version may know more


def _zoo_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    if not _is_known(manifest) or "image" not in manifest.blobs:
        return _any_class(manifest)
    entry = catalogue.entry(manifest.dataset)
    return entry.dataset_module, entry.class_names[0], entry.part(manifest.part).arguments


def _folder_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    return catalogue.class_modules()["ImageFolderRecord"], "ImageFolderRecord", {}


def _list_recipe(reader: RecordReader, places: Sequence[Path]) -> Recipe:
    written = reader.manifest.metadata.get("written")
    layout = dict(written) if isinstance(written, dict) else {}
    seed, columns = layout.pop("shuffle_seed", None), Columns.from_json(layout.pop("columns", None))
    skips = bool(reader.manifest.skipped)
    return listing.recipe(shuffle_seed=seed, layout=layout, columns=columns, skips_missing=skips)


def _list_words(reader: RecordReader, root: str) -> list[str]:
    written = reader.manifest.metadata.get("written")
    columns = Columns.from_json(written.get("columns") if isinstance(written, dict) else None)
    return [listing.list_path(reader) or root, *columns.words()]


def _import_recipe(reader: RecordReader, places: Sequence[Path]) -> Recipe | None:
    if not places:
        return None
    # Imported by name: the room `custom` imports this one.
    again = importlib.import_module("recordzoo.custom.importing").recipe_again
    return cast(Recipe, again(reader, places[0]))


def _annotations(reader: RecordReader) -> str:
    return str(reader.manifest.metadata.get("annotations"))


def _tree(reader: RecordReader) -> Iterable[Path]:
    found = KnownDirectories.of(reader) or MadeFrom.of(reader)
    if found is not None:
        yield Path(found.root if isinstance(found, KnownDirectories) else found.base)


def _list(reader: RecordReader) -> Iterable[Path]:
    path = listing.list_path(reader)
    return () if path is None else (Path(path),)


def _tree_beside(reader: RecordReader) -> Iterable[Path]:
    path = reader.folder
    yield path.with_name(path.name.removesuffix(ENDING).removesuffix(f"-{reader.manifest.variant}"))


KINDS = {
    SetKind.ZOO: KindFacts(
        "",
        recipe=lambda reader, _: (
            dataset_recipe(reader.manifest.dataset, reader.manifest.part) if _is_known(reader.manifest) else None
        ),
        recorded=_tree,
        beside=lambda reader: (reader.folder.parent,) if _is_known(reader.manifest) else (),
        words=lambda reader, root: [text_of(reader.manifest), "--root", root],
        opens=_zoo_class,
    ),
    SetKind.FOLDER: KindFacts(
        "images in classes",
        recipe=lambda reader, _: folder.recipe(
            list(reader.names) if reader.manifest.metadata.get("selection") else None
        ),
        recorded=_tree,
        beside=_tree_beside,
        words=lambda _, root: [root],
        opens=_folder_class,
    ),
    SetKind.FLAT: KindFacts(
        "images without classes",
        recipe=lambda *_: flat.recipe(),
        recorded=_tree,
        beside=_tree_beside,
        words=lambda _, root: [root, "--from", "flat"],
    ),
    SetKind.LIST: KindFacts(
        "images of a list",
        recipe=_list_recipe,
        recorded=_list,
        beside=lambda reader: (reader.folder.with_suffix(ending) for ending in LIST_ENDINGS),
        words=_list_words,
    ),
    SetKind.ANNOTATED: KindFacts(
        "images with annotations",
        recipe=lambda reader, _: (
            annotated_folder.recipe(format=_annotations(reader))
            if _annotations(reader) in annotated_folder.FORMATS
            else None
        ),
        recorded=_tree,
        beside=_tree_beside,
        words=lambda reader, root: [root, "--from", _annotations(reader)],
    ),
    SetKind.IMPORTED: KindFacts("", recipe=_import_recipe, recorded=_tree),
    SetKind.COMBINED: KindFacts(
        "other record sets", recipe=combined_again, recorded=lambda reader: (reader.folder.parent,)
    ),
    SetKind.OWN: KindFacts("own data", recipe=lambda *_: None),
}
