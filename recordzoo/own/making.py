"""Make the record set of any `Target`, and check that an existing one fits the request."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError, FolderError, OtherSourceError
from recordzoo.own.annotated import AnnotatedFolder
from recordzoo.own.lists import ListRecipe
from recordzoo.own.sample import SampleRecipe, store
from recordzoo.own.targets import Target
from recordzoo.preparing.changes import find_changes
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Preparation
from recordzoo.preparing.publish import ANOTHER_PATH, check_place, generation
from recordzoo.recipes.declared import IMAGE_ENDINGS, is_image, raise_if_empty
from recordzoo.records.reader import RecordReader

_OF_FILES = ("tree", "flat", "annotated", "list")  # kinds of targets


def completed(target: Target, shuffle_seed: int | None, options: Options) -> Target:
    """Return a target with the options that its recipe takes.

    Raises:
        ArgumentError: An option does not apply to this kind of target.
    """
    variant = options.variant
    if target.kind == "set" and variant is None:
        raise ArgumentError(
            f"{target.label} is a record set already. For a variant of it pass variant='256' (--short-side, --max-side "
            "or --format)."
        )
    if target.kind == "foreign" and variant is not None:
        place = target.place()
        raise ArgumentError(
            f"A variant is made of a record set: prepare {target.label} first, then run: "
            f"{command('prepare', place, '--short-side', '256')}"
        )
    added: dict[str, Any] = {}  # Any: as the recipes take them
    if target.kind in ("list", "annotated"):
        added["skips_missing"] = options.on_error == "skip"
    if target.kind == "list":
        if shuffle_seed is not None and not isinstance(shuffle_seed, int):
            raise ArgumentError(f"Argument shuffle_seed is {shuffle_seed!r}; it must be a whole number.")
        added |= {"shuffle_seed": shuffle_seed, "layout": options.layout}
    elif shuffle_seed is not None:
        raise ArgumentError(f"shuffle_seed (--shuffle) is for lists of files; {target.label} is none.")
    return dataclasses.replace(target, settings={**target.settings, **added})


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """A record set that `make` made or found.

    Attributes:
        path: Its directory.
        was_ready: Whether it existed before.
        preparation: Its preparation; None for other tools' data.
    """

    path: Path
    was_ready: bool
    preparation: Preparation | None = None


def make(target: Target, options: Options, *, download: bool = True, full: bool = False) -> Made:
    """Make a record set; if it exists, compare it with the request instead.

    Args:
        target: As `completed` returns it.
        options: How.
        download: Download raw data that is not there.
        full: Compare all files of a list with those that its record set was made from, not a bounded number.

    Raises:
        RecordZooError: As `ensure`.
        OtherSourceError: The record set is there, and holds something else.
    """
    recipe = target.recipe()
    if isinstance(recipe, SampleRecipe):
        check_place(recipe.output, ANOTHER_PATH)
        before = generation(recipe.output)
        path = store(recipe, options)
        return Made(path, was_ready=before == generation(path))
    options = dataclasses.replace(options, prepare=options.prepare is not False)
    preparation = Preparation(recipe, target.root, options)
    before = generation(preparation.target)
    if target.kind == "tree":
        _refuse_empty(target.root)
    if target.kind in _OF_FILES and (not preparation.is_ready() or preparation.refresh):
        if (source := preparation.raw.source()) is not None:
            source.files()  # missing raw data is reported first
        for remark in recipe.remarks():
            preparation.raw.progress.note(f"{target.label}: {remark}")
    path = preparation.run(download=download)
    was_ready = before == generation(path)
    check_made(target, path, was_ready=was_ready, full=full)
    return Made(path, was_ready, preparation)


def _refuse_empty(path: Path) -> None:
    """Refuse a directory that holds neither folders nor images."""
    if path.is_dir() and not any(each.is_dir() or is_image(each.name) for each in path.iterdir()):
        raise FolderError(
            f"{path} has no class folders, no images, and no files of a known format. Unpack zips, or prepare each; "
            f"{command('prepare', '--help')} names the formats; any dataset of Python's is stored by "
            "recordzoo.convert(dataset, 'my.records').",
            path=os.fspath(path),
        )


def check_made(target: Target, path: Path, *, was_ready: bool, full: bool) -> None:
    """Refuse a record set that is not of a directory or a list as it was asked for, or that holds no images.

    Args:
        target: What was asked for. What a list was not asked for (None) may be anything.
        path: The record set.
        was_ready: It was not made just now: also compare a list's files, as far as they are still there.
        full: All of them, not a bounded number.

    Raises:
        OtherSourceError: It is of something else.
        FolderError: It has no images, or a class has none.
    """
    if target.kind not in _OF_FILES:
        return
    reader, recipe, problem = RecordReader(path), target.recipe(), None
    is_other = isinstance(recipe, AnnotatedFolder) and not recipe.is_of(reader.manifest, target.root)
    if isinstance(recipe, ListRecipe):
        problem = recipe.difference(reader.manifest, target.root)
        if problem is None and was_ready and (changes := find_changes(reader, target.root.absolute(), full=full)):
            problem = f"is out of date: {changes.summary}"
    elif reader.manifest.kind is not recipe.kind or is_other:
        problem = f"holds {reader.manifest.title}, not {recipe.kind.text}"
    if problem is not None:
        hint = "Pass --refresh (refresh=True) to make it again, or another --output."
        raise OtherSourceError(f"{path} {problem}. {hint}", path=os.fspath(path))
    if not len(reader):
        raise FolderError(f"{path} holds no images. Add some, and pass --refresh.", path=os.fspath(path))
    empty = reader.manifest.metadata.get("empty_classes")
    try:
        if target.kind == "tree" and not target.settings.get("allow_empty") and isinstance(empty, list):
            raise_if_empty(empty, IMAGE_ENDINGS)
    except FolderError as err:
        text = f"{path}: {err}. Pass --allow-empty, or remove these folders and pass --refresh."
        raise FolderError(text, path=os.fspath(path), **err.details) from err
