"""What a name on the command line means: a dataset, one part of it, a class-per-folder tree, or a list of files."""

import importlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.recipes.list_table import LIST_ENDINGS

if TYPE_CHECKING:
    from recordzoo.recipes.base import Recipe


@dataclass(frozen=True, slots=True)
class Target:
    """One record set that a command was asked for.

    Attributes:
        label: What it is called: "imagenet.train", or the path of a tree or of a list.
        root: Where its raw data is or goes to; the tree or the list itself.
        entry: Its dataset; None for a tree or a list.
        part: Its part.
        is_named: This record set itself was asked for, not a dataset of which it is one.
        is_list: It is a list of files.
        is_set: It is a record set, of which variants are made.
        settings: How the recipe of a list is to be made.
    """

    label: str
    root: Path
    entry: Entry | None = None
    part: str = ""
    is_named: bool = True
    is_list: bool = False
    is_set: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # Any: as the recipe takes them

    def recipe(self) -> "Recipe":
        """Make its recipe; imports no torch, but NumPy and what reads archives."""
        own = "recordzoo.recipes.listing" if self.is_list else "recordzoo.recipes.folder"
        module = importlib.import_module(self.entry.recipe_module if self.entry else own)
        made: Recipe = module.recipe(self.part) if self.entry else module.recipe(**self.settings)
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
    """Whether an argument means a directory or a file.

    It has a separator or a list's ending, or something here has that name and no dataset does.
    """
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    if text in (".", "..") or any(separator in text for separator in separators) or _is_list(text):
        return True
    return Path(text).exists() and text.partition(".")[0] not in catalogue.names()


def resolve(text: str, root: Path, split: str | None = None) -> list[Target]:
    """Turn one argument of `prepare` into record sets.

    Args:
        text: A dataset (all its parts that are not optional), a part of one, or the path of a tree or a list.
        root: Where the raw data of a dataset is or goes to.
        split: Only the part that holds this split.

    Raises:
        ArgumentError: There is no such dataset, part or split.
        NotPreparedError: The path does not exist.
    """
    if is_path(text) or _is_set(Path(text)):
        return [_own(text, split)]
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
    """Find the record set that an argument means: its directory, its tree or list, or a dataset in this one.

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


def _is_list(text: str) -> bool:
    return text.lower().endswith(LIST_ENDINGS)


def _is_set(path: Path) -> bool:
    from recordzoo.records.reader import is_record_set

    return is_record_set(path)


def _own(text: str, split: str | None) -> Target:
    path = Path(text)
    if split is not None:
        raise ArgumentError(f"--split {split} is for datasets; all of {text} is prepared at once.")
    is_list = _is_list(text) and not path.is_dir() and path.exists()
    if not is_list and not path.is_dir():
        found = "is a file, and by its name no list of files" if path.exists() else "does not exist"
        hint = ""
        if path.exists() and path.suffix.lower() in (".lmdb", ".mdb"):
            hint = f"An LMDB database becomes a record set by: recordzoo import {shlex.quote(text)}. "
        raise NotPreparedError(
            f"{text} {found}. {hint}Give a directory with one folder for each class, a list of files "
            f"({', '.join(LIST_ENDINGS)}), or the name of a dataset ({', '.join(catalogue.names())}).",
            path=text,
        )
    return Target(text, path, is_list=is_list, is_set=_is_set(path))
