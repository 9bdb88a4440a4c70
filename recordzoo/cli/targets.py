"""What a name on the command line means: a dataset, one part of it, a directory of images, a list, a record set."""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recordzoo import catalogue, settings
from recordzoo.catalogue import Entry
from recordzoo.cli.nearby import no_set, nothing_there, unknown_name
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.meant import no_split
from recordzoo.program import command
from recordzoo.recipes.list_table import LIST_ENDINGS
from recordzoo.remote.url import Url, is_url

if TYPE_CHECKING:
    from recordzoo.recipes.base import Recipe

Kind = Literal["dataset", "tree", "flat", "list", "set"]

_RECIPES: dict[Kind, str] = {
    "tree": "recordzoo.recipes.folder",
    "flat": "recordzoo.recipes.flat",
    "list": "recordzoo.recipes.listing",
    "set": "recordzoo.recipes.folder",
}


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How a directory of images is taken.

    Attributes:
        as_classes: Every folder is a class, also those called like splits.
        flat: All images, without classes.
        allow_empty: A class may be without images.
    """

    as_classes: bool = False
    flat: bool = False
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """One record set that a command was asked for.

    Attributes:
        label: What it is called: "imagenet.train", or the path of a tree or of a list.
        root: Where its raw data is or goes to; the tree, the list or the record set itself.
        kind: What `root` is; of a record set, variants are made.
        entry: Its dataset; None if it is a path.
        part: Its part.
        is_named: This record set itself was asked for, not a dataset of which it is one.
        split_of: The tree whose split it is, if it is one.
        settings: The arguments of its recipe, if it is a path.
    """

    label: str
    root: Path
    kind: Kind = "dataset"
    entry: Entry | None = None
    part: str = ""
    is_named: bool = True
    split_of: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # Any: as the recipe takes them

    def recipe(self) -> "Recipe":
        """Make its recipe; imports no torch, but NumPy and what reads archives."""
        if self.entry is not None:
            from recordzoo.recipes.declared import dataset_recipe

            return dataset_recipe(self.entry.name, self.part)
        made: Recipe = importlib.import_module(_RECIPES[self.kind]).recipe(**self.settings)
        return made


def find_dataset(name: str) -> tuple[Entry, str | None]:
    """Do what `catalogue.find` does; an error also says which paths may have been meant.

    Raises:
        ArgumentError: There is no such dataset or part.
    """
    if name.partition(".")[0] not in catalogue.names():
        raise unknown_name(name)
    return catalogue.find(name)


def is_path(text: str) -> bool:
    """Whether an argument means a directory or a file.

    It has a separator or a list's ending; or something here, or a record set made from it, has that name and no
    dataset does.
    """
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    if text in (".", "..") or any(separator in text for separator in separators) or _is_list(text):
        return True
    if text.partition(".")[0] in catalogue.names():
        return False
    return Path(text).exists() or _records_beside(text) is not None


def resolve(text: str, root: Path, split: str | None = None, trees: TreeOptions | None = None) -> list[Target]:
    """Turn one argument of `prepare` into record sets.

    Args:
        text: A dataset (all its parts that are not optional), a part of one, or the path of a tree, a list or a set.
        root: Where the raw data of a dataset is or goes to.
        split: Only the part that holds this split.
        trees: How directories of images are taken.

    Raises:
        ArgumentError: There is no such dataset, part or split.
        NotPreparedError: The path does not exist.
    """
    if is_url(text):
        url = Url.parse(text)
        raise ArgumentError(
            f"{url} is a URL; raw data and the record sets made from it are on this machine. To copy a record set that "
            f"is there, run: {command('pull', url)}"
        )
    if is_path(text) or _is_set(Path(text)):
        return _own(text, split, trees or TreeOptions())
    entry, part = find_dataset(text)
    parts = entry.default_parts if part is None else [part]
    if split is not None:
        holders = [s.part for s in entry.splits if s.name == split and part in (None, s.part)]
        if not holders:
            known = dict.fromkeys(s.name for s in entry.splits if part in (None, s.part))
            raise no_split(text, split, known)
        parts = list(dict.fromkeys(holders))
    is_named = part is not None or split is not None
    return [Target(entry.label(p), root, "dataset", entry, p, is_named) for p in parts]


def is_set_path(text: str) -> bool:
    """Whether an argument means a directory, as `is_path`, or a record set called like a dataset is in this one."""
    return is_path(text) or (Path(text) / "manifest.json").is_file()


def find_record_set(text: str) -> Path | Url:
    """Find the record set that an argument means: its directory or URL, its tree or list, or a dataset in this one.

    A tree or a list may be gone. A URL may also be that of the folder that the only set is in.

    Raises:
        ArgumentError: There is no such dataset, or several of its record sets are here.
        NotPreparedError: There is no record set.
    """
    if is_url(text):
        return _set_at_url(text)
    path = Path(text)
    if path.is_dir() and (path.name.endswith(".records") or (path / "manifest.json").exists()):
        return path
    if not path.exists() and path.name.endswith(".records"):
        raise NotPreparedError(f"There is no record set at {path}: it does not exist.", path=str(path))
    beside = _records_beside(text) if is_path(text) else None
    if beside is not None:
        return beside
    places = [target.recipe().target(target.root) for target in resolve(text, Path())]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise no_set(text, places, is_dataset=not is_path(text))
    if len(found) > 1:
        raise ArgumentError(f"{text} has several record sets here; name one: {', '.join(map(str, found))}.")
    return found[0]


def refuse_urls(what: str, *places: object) -> None:
    """Refuse URLs, also those that have become paths, where something is read or made on this machine.

    Raises:
        ArgumentError: One is a URL.
    """
    for place in places:
        try:
            found = is_url(place)
        except ArgumentError:  # it has lost a slash on its way through `Path`
            found = True
        if found:
            raise ArgumentError(
                f"{what} is a URL, and must be on this machine. `recordzoo pull` and `push` copy record sets from and "
                "to URLs."
            )


def find_local_set(text: str, what: str) -> Path:
    """Find a record set that must be on this machine.

    Args:
        text: See `find_record_set`.
        what: What needs it there: "--repair".

    Raises:
        ArgumentError: It is at a URL.
        NotPreparedError: There is none.
    """
    found = Url.parse(text) if is_url(text) else find_record_set(text)
    if isinstance(found, Path):
        return found
    raise ArgumentError(f"{found} is a URL; {what} needs a record set on this machine. Run: {command('pull', found)}")


def _set_at_url(text: str) -> Url:
    if settings.offline():  # the node's cache may know it
        return Url.parse(text)
    from recordzoo.copying.places import find_set  # imports NumPy

    return find_set(text)[0]


def _is_list(text: str) -> bool:
    return text.lower().endswith(LIST_ENDINGS)


def _is_set(path: Path) -> bool:
    from recordzoo.records.reader import is_record_set

    return is_record_set(path)


def _records_beside(text: str) -> Path | None:
    """Find the record set that was made from a tree or a list, which may be gone, by its name."""
    path = Path(os.path.normpath(text))
    if not path.name or path.name == "..":
        return None
    place = path.with_suffix(".records") if _is_list(text) else path.with_name(f"{path.name}.records")
    return place if place.is_dir() and _is_set(place) else None


def _own(text: str, split: str | None, trees: TreeOptions) -> list[Target]:
    """Turn a path into record sets: several if it is a tree whose only folders are splits."""
    path = Path(text)
    is_list = _is_list(text) and not path.is_dir()
    _check_there(text, is_list=is_list)
    kind: Kind = "set" if _is_set(path) else "list" if is_list else "flat" if trees.flat else "tree"
    folders = _split_folders(path) if kind == "tree" and not trees.as_classes else []
    if split is not None:
        if not folders:
            raise ArgumentError(
                f"{text} has no splits. --split is for datasets, and for directories whose only folders are splits "
                "(train, val, ...), without --as-classes and --flat."
            )
        if split not in folders:
            raise no_split(text, split, folders)
        folders = [split]
    settings = {"allow_empty": trees.allow_empty, "allow_none": False} if kind == "tree" else {}
    if folders:
        return [
            Target(os.path.join(text, name), path / name, kind, split_of=text, settings=settings) for name in folders
        ]
    return [Target(text, path, kind, settings=settings)]


def _split_folders(path: Path) -> list[str]:
    from recordzoo.recipes.folder import split_folders

    return split_folders(path) if path.is_dir() else []


def _check_there(text: str, *, is_list: bool) -> None:
    """Refuse a path at which there is nothing that can be prepared; of a tree that is gone, its record set is enough.

    Raises:
        NotPreparedError: There is nothing.
    """
    path = Path(text)
    if path.is_dir() or (is_list and path.exists()):
        return
    if path.exists():
        is_database = path.suffix.lower() in (".lmdb", ".mdb")
        hint = f"An LMDB database becomes a record set by: {command('import', text)}. " if is_database else ""
        raise NotPreparedError(
            f"{text} is a file, but not a list ({', '.join(LIST_ENDINGS)}). {hint}Give a directory with one "
            f"folder for each class, a list of files, or the name of a dataset; {command('list')} shows them.",
            path=text,
        )
    beside = _records_beside(text)
    if beside is None:
        raise nothing_there(text)
    if is_list:
        raise NotPreparedError(
            f"{text} does not exist. Its record set {beside} does: open that path instead.",
            path=text,
        )
