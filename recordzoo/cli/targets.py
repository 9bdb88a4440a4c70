"""What a name on the command line means: a dataset, one part of it, or a class-per-folder tree."""

import importlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError, NotPreparedError

if TYPE_CHECKING:
    from recordzoo.recipes.base import Recipe


@dataclass(frozen=True, slots=True)
class Target:
    """One record set that a command was asked for.

    Attributes:
        label: What it is called: "imagenet.train", or the path of a tree.
        root: Where its raw data is or goes to.
        entry: Its dataset; None for a tree.
        part: Its part.
        is_named: This record set itself was asked for, not a dataset of which it is one.
    """

    label: str
    root: Path
    entry: Entry | None = None
    part: str = ""
    is_named: bool = True

    def recipe(self) -> "Recipe":
        """Make its recipe; imports no torch, but NumPy and what reads archives."""
        module = importlib.import_module(self.entry.recipe_module if self.entry else "recordzoo.recipes.folder")
        made: Recipe = module.recipe(self.part) if self.entry else module.recipe()
        return made


def find_dataset(name: str) -> tuple[Entry, str | None]:
    """Read "imagenet" as (its entry, None) and "imagenet.train" as (its entry, "train").

    Raises:
        ArgumentError: There is no such dataset or part.
    """
    if name in catalogue.names():
        return catalogue.entry(name), None
    dataset, dot, part = name.partition(".")
    if dot and part and dataset in catalogue.names():
        entry = catalogue.entry(dataset)
        return entry, entry.part(part).name
    raise catalogue.unknown(name)


def is_path(text: str) -> bool:
    """Whether an argument means a directory: it has a separator, or a directory has that name and no dataset does."""
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    if text in (".", "..") or any(separator in text for separator in separators):
        return True
    return Path(text).is_dir() and text.partition(".")[0] not in catalogue.names()


def resolve(text: str, root: Path, split: str | None = None) -> list[Target]:
    """Turn one argument of `prepare` into record sets.

    Args:
        text: A dataset (all its parts that are not optional), a part of one, or the path of a tree.
        root: Where the raw data of a dataset is or goes to.
        split: Only the part that holds this split.

    Raises:
        ArgumentError: There is no such dataset, part or split.
        NotPreparedError: The path does not exist.
    """
    if is_path(text):
        return [_tree(text, split)]
    entry, part = find_dataset(text)
    parts = [p.name for p in entry.parts if not p.optional] if part is None else [part]
    if split is not None:
        holders = [s.part for s in entry.splits if s.name == split and part in (None, s.part)]
        if not holders:
            known = dict.fromkeys(s.name for s in entry.splits if part in (None, s.part))
            raise ArgumentError(f"{text} has no split {split!r}; it has {', '.join(known) or 'none'}.")
        parts = list(dict.fromkeys(holders))
    is_named = part is not None or split is not None
    return [Target(entry.label(p), root, entry, p, is_named) for p in parts]


def is_set_path(text: str) -> bool:
    """Whether an argument means a directory, as `is_path`, or a record set called like a dataset is in this one."""
    return is_path(text) or (Path(text) / "manifest.json").is_file()


def find_record_set(text: str) -> Path:
    """Find the record set that an argument means: its directory, its tree, or a dataset in this one.

    Raises:
        ArgumentError: There is no such dataset, or several of its record sets are here.
        NotPreparedError: There is no record set.
    """
    path = Path(text)
    if is_set_path(text):
        if not path.exists():
            raise NotPreparedError(f"There is no record set at {path}: it does not exist.", path=str(path))
        if (path / "manifest.json").exists() or path.name.endswith(".records"):
            return path
    places = [target.recipe().target(target.root) for target in resolve(text, Path())]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise NotPreparedError(
            f"There is no record set for {text}: {' and '.join(map(str, places))} "
            f"{'does' if len(places) == 1 else 'do'} not exist. Run: recordzoo prepare {shlex.quote(text)}",
            path=str(places[0]),
        )
    if len(found) > 1:
        raise ArgumentError(f"{text} has several record sets here; name one: {', '.join(map(str, found))}.")
    return found[0]


def _tree(text: str, split: str | None) -> Target:
    path = Path(text)
    if split is not None:
        raise ArgumentError(f"--split {split} is for datasets; {text} is a directory and has no splits.")
    if not path.is_dir():
        found = "is not a directory" if path.exists() else "does not exist"
        raise NotPreparedError(
            f"{text} {found}. Give a directory with one folder for each class, or the name of a dataset "
            f"({', '.join(catalogue.names())}).",
            path=text,
        )
    return Target(text, path)
