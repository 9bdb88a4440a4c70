"""The arguments of `prepare` → `Target`s → record sets: of datasets, trees, lists, record sets, foreign files.

The command line imports this module for every command: what imports NumPy is imported by the functions that need it.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from recordzoo import catalogue
from recordzoo.base.settings import command, known_roots
from recordzoo.base.text import closest, did_you_mean, name_first, no_split, shown
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError, FolderError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.formats import NAMES, find_foreign
from recordzoo.net.url import Url, is_url
from recordzoo.own.columns import LIST_ENDINGS, PARQUET, USUAL, Columns

if TYPE_CHECKING:
    from recordzoo.preparing.options import Options
    from recordzoo.preparing.preparation import Preparation
    from recordzoo.recipes.recipe import Recipe

Kind = Literal["dataset", "tree", "flat", "annotated", "list", "set", "foreign"]

WHAT: dict[Kind, str] = {
    "tree": "a directory of images",
    "flat": "a directory of images",
    "annotated": "a directory of images with annotations",
    "list": "a list of files",
    "set": "a record set",
    "foreign": "another tool's data",
    "dataset": "a dataset",
}
_READINGS: dict[str, Kind] = {"classes": "tree", "flat": "flat", "list": "list"}
"""Values of `from_` that name no format."""

_OF_FILES: tuple[Kind, ...] = ("tree", "flat", "annotated", "list")
_ENDING = ".records"
_ADDRESSES = ("hf://", "mongodb://", "mongodb+srv://")
_NUM_NAMED = 5
_COMMON_NAME = re.compile("[a-z]+")
"""Names that any archive may have: images, train, ..."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How user data is read: the arguments of `recordzoo.prepare` of these names; those of lists are `columns`."""

    from_: str | None = None
    allow_empty: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, Any] = field(default_factory=dict)  # Any: `Kind` of the schema, which imports NumPy
    columns: Columns = USUAL
    allow_paths: bool = False
    annotations: str | None = None
    exif: Literal["turn", "keep"] = "turn"
    list_: str | None = None

    def __post_init__(self) -> None:
        """Check the name of the format.

        Raises:
            ArgumentError: There is none of that name.
        """
        if self.from_ is not None and self.from_ not in (known := readings()):
            raise ArgumentError(
                f"Unknown value {self.from_!r} for argument from_ (--from). Valid values are {', '.join(known)}."
                f"{did_you_mean(str(self.from_), known)}"
            )
        if self.exif not in ("turn", "keep"):
            raise ArgumentError(f"Unknown value {self.exif!r} for argument exif (--exif). Valid values are turn, keep.")
        if self.from_ == "flat" and self.allow_empty:
            raise ArgumentError("from_='flat' (--from flat) stores no classes; leave out allow_empty (--allow-empty).")


def readings() -> tuple[str, ...]:
    """Return the valid values of `from_`."""
    from recordzoo.own.annotated import FORMATS

    return (*_READINGS, *FORMATS, *NAMES)


@dataclass(frozen=True, slots=True)
class Target:
    """One record set that was asked for.

    Attributes:
        label: What it is called: "imagenet.train", or a path or address.
        root: Where its raw data is or goes to; the tree, the list, the record set or the foreign file itself.
        kind: What `root` is; of a record set, variants are made.
        entry: Its dataset; None if it is a path.
        part: Its part.
        split_of: The tree whose split it is, if it is one.
        settings: The arguments of its recipe, if it is a path.
    """

    label: str
    root: Path
    kind: Kind = "dataset"
    entry: Entry | None = None
    part: str = ""
    split_of: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # Any: as the recipe takes them

    def recipe(self) -> "Recipe":
        """Make its recipe; imports no torch, but NumPy and what reads archives."""
        if self.entry is not None:
            from recordzoo.recipes.declared import dataset_recipe

            return dataset_recipe(self.entry.name, self.part)
        from recordzoo.own.annotated import AnnotatedFolder
        from recordzoo.own.lists import ListRecipe
        from recordzoo.own.sample import ForeignRecipe
        from recordzoo.recipes.folders import FlatRecipe, FolderRecipe, SplitTreeRecipe
        from recordzoo.recipes.variant import StoredRecipe
        from recordzoo.records.reader import RecordReader

        if self.kind == "set":
            return StoredRecipe(RecordReader(self.root))
        makers: dict[str, Callable[..., Recipe]] = {
            "annotated": AnnotatedFolder,
            "flat": FlatRecipe,
            "foreign": ForeignRecipe,
            "list": ListRecipe,
            "tree": SplitTreeRecipe if "splits" in self.settings else FolderRecipe,
        }
        return makers[self.kind](**self.settings)

    def place(self) -> Path:
        """Return where its record set is by default."""
        return self.settings["output"] if self.kind == "foreign" else self.recipe().target(self.root)


def find_dataset(name: str) -> tuple[Entry, str | None]:
    """Do what `catalogue.find` does; an error also says which paths may have been meant.

    Raises:
        ArgumentError: There is no such dataset or part.
    """
    if name.partition(".")[0] not in catalogue.names():
        raise _unknown_name(name)
    return catalogue.find(name)


def is_path(text: str) -> bool:
    """Whether an argument is the path of a directory or a file.

    It has a separator, braces, or the ending of a list or a record set; or something here, or a record set made from
    it, has that name and no dataset does.
    """
    marks = [os.sep, "{", *([os.altsep] if os.altsep else [])]
    if text in (".", "..") or any(mark in text for mark in marks) or _is_list(text) or text.endswith(".records"):
        return True
    name, _, part = text.partition(".")
    if name in catalogue.names() and (not part or part in [each.name for each in catalogue.entry(name).parts]):
        return False  # also of "lsun.test" beside a file of this name, but not of "lsun.zip"
    return Path(text).exists() or records_beside(text) is not None


def is_name(data: str | os.PathLike[str]) -> TypeGuard[str]:
    """Whether an argument is the name of a dataset, known or not: no path, no URL, and no record set is called so."""
    return isinstance(data, str) and not is_url(data) and not is_path(data) and not _is_set(Path(data))


# Any: a table in memory, of another library maybe.
def resolve(
    data: Any,
    root: Path,
    split: str | None = None,
    reading: Reading | None = None,
    output: str | os.PathLike[str] | None = None,
) -> list[Target]:
    """Turn one argument of `prepare` into record sets.

    Args:
        data: A dataset (all its parts that are not optional), a part of one, the path of a tree, a list, a record set
            or another tool's files, or an address of such; or a table in memory. A `Path` never names a dataset.
        root: Where the raw data of a dataset is or goes to; of a table in memory, what its paths are relative to.
        split: Only the part that holds this split.
        reading: How user data is read.
        output: The record set's directory. Default: as each kind has it.

    Raises:
        ArgumentError: There is no such dataset, part or split.
        NotPreparedError: The path does not exist.
    """
    reading = reading or Reading()
    if not isinstance(data, str | os.PathLike):
        label = f"<{type(data).__name__}>"
        settings = {"columns": reading.columns, "data": data}
        return [Target(label, root.absolute() / label, "list", settings=settings)]
    text = os.fspath(data)
    if not text:
        raise ArgumentError("Argument data is an empty text; it must be a name, a path or an address.")
    if is_url(data):
        if text.startswith(_ADDRESSES) and not text.rstrip("/").endswith(".records"):
            return [_foreign(text, reading, output)]
        url = Url.parse(text)
        raise ArgumentError(
            f"{url} is a URL; raw data and the record sets made from it are on this machine. Download "
            f"raw data first. A record set that is there is copied by: {command('pull', url)}"
        )
    if is_name(data):
        return _of_dataset(data, root, split)
    return _own(text, split, reading, output)


_COLUMNS = "image, targets, split_column or name_column (--image, --target, --split-column, --name-column)"
_TAKERS: dict[str, tuple[str, str, tuple[Kind, ...]]] = {
    "from_": ("from_ (--from)", "own data", ("tree", "flat", "annotated", "list", "foreign")),
    "columns": (_COLUMNS, "lists of files", ("list",)),
    "fields": ("fields (--field)", "other tools' files", ("foreign",)),
    "kinds": ("kinds", "other tools' files", ("foreign",)),
    "allow_paths": ("allow_paths (--allow-paths)", "lists and other tools' files", ("list", "foreign")),
    "list_": ("list_ (--list)", "MongoDB", ("foreign",)),
    "exif": ("exif (--exif)", "images with annotations", ("annotated",)),
    "annotations": ("annotations (--annotations)", "images with COCO JSON", ("annotated",)),
    "allow_empty": ("allow_empty (--allow-empty)", "class folders", ("tree",)),
}
"""What each attribute of `Reading` is called, and what takes it."""


def check_reading(targets: Sequence[Target], reading: Reading) -> None:
    """Raise for arguments that would be ignored, because none of these targets has that kind of data.

    Raises:
        ArgumentError: There is such an argument.
    """
    usual, first = Reading(), targets[0]
    for name, (option, takers, kinds) in _TAKERS.items():
        is_given = getattr(reading, name) != getattr(usual, name)
        if is_given and not any(target.kind in kinds for target in targets):
            raise ArgumentError(f"{option} is for {takers}, and {first.label} is {WHAT[first.kind]}.")


def records_beside(text: str) -> Path | None:
    """Find the record set that was made from a tree or a list, which may be gone, by its name."""
    path = Path(os.path.normpath(text))
    path = path if path.name not in ("", "..") else Path(os.path.abspath(path))
    if not path.name:
        return None
    place = path.with_suffix(".records") if _is_list(text) else path.with_name(f"{path.name}.records")
    return place if place.is_dir() and _is_set(place) else None


def _of_dataset(name: str, root: Path, split: str | None) -> list[Target]:
    entry, part = find_dataset(name)
    parts = entry.default_parts if part is None else [part]
    if split is not None:
        holders = [s.part for s in entry.splits if s.name == split and part in (None, s.part)]
        if not holders:
            known = dict.fromkeys(s.name for s in entry.splits if part in (None, s.part))
            raise no_split(name, split, known)
        parts = list(dict.fromkeys(holders))
    targets = [Target(entry.label(p), root, "dataset", entry, p) for p in parts]
    if Path(name).is_dir() and root.resolve() == Path.cwd() and not any(map(_has_begun, targets)):
        raise ArgumentError(
            f"{name} is a dataset, and there is a folder {name} here that holds none of its raw files. For the folder, "
            f"run: {command('prepare', os.path.join(os.curdir, name))}. For the dataset, run: "
            f"{command('prepare', name, '--root', 'data')}"
        )
    return targets


def _has_begun(target: Target) -> bool:
    """Whether something of a dataset is in its root: records, a build of them, raw files, or parts of these."""
    from recordzoo.preparing.publish import build_path  # imports NumPy

    recipe, place = target.recipe(), target.place()
    if place.exists() or build_path(place).exists():
        return True
    paths = [remote.path(target.root) for remote in recipe.raw_files]
    if any(path.exists() or path.with_name(f"{path.name}.part").exists() for path in paths):
        return True
    try:
        return recipe.find(target.root) is not None
    except SourceError:  # some of it is there
        return True


def _is_list(text: str) -> bool:
    return text.lower().endswith(LIST_ENDINGS)


def _is_set(path: Path) -> bool:
    from recordzoo.records.reader import is_record_set

    return is_record_set(path)


def _own(text: str, split: str | None, reading: Reading, output: str | os.PathLike[str] | None) -> list[Target]:
    """Turn a path into record sets: several if it is a tree whose only folders are splits."""
    from recordzoo.own.annotated import format_of, is_tree, refuse_no_classes
    from recordzoo.own.annotations import COCO
    from recordzoo.recipes import folders as trees

    path = Path(text).expanduser()
    if output is None and not path.resolve().name and not _is_set(path):
        trees.records_beside(path)  # refuses it, before a search of the whole file system
    kind = _kind(path, text, reading)
    if reading.from_ is None and path.is_file():
        _refuse_raw_file(path, text)
    folders = trees.split_folders(path) if kind == "tree" and reading.from_ is None and path.is_dir() else []
    if reading.from_ is None and (kind == "tree" or path.suffix.lower() == ".zip"):
        place = path.with_suffix(_ENDING) if path.is_file() else Path(f"{path.resolve()}{_ENDING}")
        places = [path / f"{name}{_ENDING}" for name in folders] or [place if output is None else Path(output)]
        if path.exists() and not all(map(_is_set, places)):  # otherwise the user has insisted before
            refuse_no_classes(path, text)
    are_ready = all(_is_set(path / f"{name}{_ENDING}") for name in folders)
    may_be_others = bool(folders) and not are_ready and not is_tree(path)
    if may_be_others and (others := [each for each in folders if holds_foreign(path / each, {})]):
        raise SourceError(
            f"{text} has folders of another tool's files: {', '.join(others)}. Prepare each by itself: "
            f"{command('prepare', os.path.join(text, others[0]))}",
            path=text,
        )
    if len(folders) > 1 and split is None and not are_ready and _has_other_numbers(path, folders):
        return [Target(text, path, "tree", settings={"allow_empty": reading.allow_empty, "splits": folders})]
    if split is not None:
        if not folders:
            raise ArgumentError(
                f"{text} has no splits. --split is for datasets, and for directories whose only folders are splits "
                "(train, val, ...), without --from."
            )
        if split not in folders:
            raise no_split(text, split, folders)
        folders = [split]
    if kind == "foreign":
        return [_foreign(text, reading, output)]
    settings: dict[str, Any] = {}  # Any: as the recipe takes them
    if kind == "list":
        settings = {"columns": reading.columns, "allow_paths": reading.allow_paths}
    if kind == "annotated":
        settings = {"format": reading.from_ or format_of(path)}
        if reading.annotations is not None:
            settings = {"format": COCO, "chosen": _file_in(path, reading.annotations)}
        settings["exif"] = reading.exif
    if kind == "tree":
        settings = {"allow_empty": reading.allow_empty, "allow_none": False}
    if folders:
        return [
            Target(os.path.join(text, name), path / name, kind, split_of=text, settings=settings) for name in folders
        ]
    return [Target(text, path, kind, settings=settings)]


def _file_in(path: Path, name: str) -> str:
    """Return a file's path relative to a directory; the user gave it so, or relative to the current directory."""
    for base in (path, Path()):
        place = os.path.relpath(base / Path(name).expanduser(), path)
        if (path / place).is_file() and not place.startswith(os.pardir):
            return place.replace(os.sep, "/")
    raise NotPreparedError(f"There is no file {name} in {path} (--annotations, annotations=).", path=str(path))


def _has_other_numbers(path: Path, folders: Sequence[str]) -> bool:
    """Whether a class would have two numbers, if each split numbered the class folders that it has."""
    from recordzoo.recipes.folders import class_names

    classes: list[list[str]] = []
    for name in folders:
        with contextlib.suppress(FolderError):  # a split without classes
            classes.append(class_names(path / name))
    pairs = itertools.combinations(classes, 2)
    return any(one.index(name) != other.index(name) for one, other in pairs for name in {*one} & {*other})


def _refuse_raw_file(path: Path, text: str) -> None:
    """Refuse a raw file of the zoo, by its name; if anybody may have a file of that name, also by its size."""
    for entry, facts in catalogue.raw_files().get(path.name, ()):
        if path.stat().st_size == facts.size_bytes or not _COMMON_NAME.fullmatch(path.name.partition(".")[0]):
            root = os.fspath(path.absolute().parent).removesuffix(f"{os.sep}{Path(entry.folder)}")
            raise ArgumentError(
                f"{text} is a raw file of {entry.name}. To prepare that dataset, run: "
                f"{command('prepare', entry.name, '--root', root)}. To read it as another tool's data, pass --from and "
                "its format (from_)."
            )


def _kind(path: Path, text: str, reading: Reading) -> Kind:
    """Classify a path, in this order: a record set, what `reading` says, a list, annotations, foreign files."""
    from recordzoo.own.annotated import FORMATS, format_of, is_tree
    from recordzoo.own.columns import has_paths

    if _is_set(path):  # first: an error of permissions then has a type
        return "set"
    if reading.from_ is not None:
        kind = "annotated" if reading.from_ in FORMATS else _READINGS.get(reading.from_, "foreign")
        if kind == "tree" and path.suffix.lower() == ".zip" and path.is_file():
            return "foreign"
        if kind != "foreign":
            _check_there(path, text, is_list=kind == "list")
        return kind
    is_list = _is_list(text) and not path.is_dir()
    if is_list and path.suffix.lower() == PARQUET and path.is_file() and reading.columns == USUAL:
        is_list = has_paths(path)
    if not is_list and (path.is_file() or "{" in text or any(each.is_file() for each in path.parents)):
        return "foreign"
    _check_there(path, text, is_list=is_list)
    if is_list:
        return "list"
    if path.is_dir() and (reading.annotations is not None or format_of(path) is not None):
        return "annotated"
    if not path.is_dir() or is_tree(path):
        return "tree"
    from recordzoo.formats.base import find_shards
    from recordzoo.formats.webdataset import TAR_ENDINGS

    for file in find_shards(str(path), TAR_ENDINGS):
        _refuse_raw_file(file, str(file))
    return "foreign" if holds_foreign(path, reading.fields) else "tree"


def holds_foreign(path: Path, fields: Mapping[str, str]) -> bool:
    """Whether a directory holds another tool's files; a Parquet table of paths beside images is a list.

    Raises:
        SourceError, PrepareError: As `find_foreign`.
    """
    from recordzoo.own.columns import has_paths
    from recordzoo.recipes.declared import is_image

    is_list = any(map(has_paths, path.glob(f"*{PARQUET}"))) and any(map(is_image, os.listdir(path)))
    return not is_list and find_foreign(str(path.absolute()), None, fields) is not None


def _foreign(text: str, reading: Reading, output: str | os.PathLike[str] | None) -> Target:
    from recordzoo.own.sample import default_place

    location = text if "://" in text else os.path.abspath(os.path.expanduser(text))
    place = default_place(location) if output is None else Path(output).expanduser().absolute()
    settings = {"location": location, "output": place, "reading": reading}
    return Target(shown(text), Path() if "://" in text else Path(location), "foreign", settings=settings)


def _check_there(path: Path, text: str, *, is_list: bool) -> None:
    """Refuse a path at which nothing can be prepared. If a tree was deleted, its record set is enough."""
    if path.is_dir() or (is_list and path.exists()):
        return
    beside = records_beside(text)
    if beside is None:
        meant = _near_path(text)
        raise NotPreparedError(f"{text} does not exist. {_whats_read(meant)}", path=text, meant=meant)
    if is_list:
        raise NotPreparedError(
            f"{text} does not exist. Its record set {beside} does: open that path instead.", path=text
        )


def completed(target: Target, shuffle_seed: int | None, options: "Options") -> Target:
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
        raise ArgumentError(
            f"A variant is made of a record set: prepare {target.label} first, then run: "
            f"{command('prepare', target.place(), '--short-side', '256')}"
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
    return replace(target, settings={**target.settings, **added})


@dataclass(frozen=True, slots=True)
class Made:
    """A record set that `make` made or found.

    Attributes:
        path: Its directory.
        was_ready: Whether it existed before.
        preparation: Its preparation; None for other tools' data.
    """

    path: Path
    was_ready: bool
    preparation: "Preparation | None" = None


def make(target: Target, options: "Options", *, download: bool = True, full: bool = False) -> Made:
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
    from recordzoo.own.sample import SampleRecipe, store
    from recordzoo.preparing.preparation import Preparation
    from recordzoo.preparing.publish import ANOTHER_PATH, check_place, generation

    recipe = target.recipe()
    if isinstance(recipe, SampleRecipe):
        check_place(recipe.output, ANOTHER_PATH)
        before = generation(recipe.output)
        path = store(recipe, options)
        return Made(path, was_ready=before == generation(path))
    options = replace(options, prepare=options.prepare is not False)
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
    from recordzoo.recipes.declared import is_image

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
    from recordzoo.preparing.changes import find_changes
    from recordzoo.recipes.declared import IMAGE_ENDINGS, raise_if_empty
    from recordzoo.records.reader import RecordReader

    reader = RecordReader(path)
    problem = target.recipe().difference(reader.manifest, target.root)
    if problem is None and target.kind == "list" and was_ready:
        changes = find_changes(reader, target.root.absolute(), full=full)
        problem = f"is out of date: {changes.summary}" if changes else None
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


def no_set(text: str, places: Sequence[Path]) -> NotPreparedError:
    """Make the error for data without a record set, with the sets in that directory or, of a dataset, elsewhere.

    Args:
        text: The argument: a dataset, a tree or a list.
        places: Where its record sets would be.
    """
    absent = f"{' and '.join(map(str, places))} {'does' if len(places) == 1 else 'do'} not exist"
    if is_path(text):
        there = f"{text} holds record sets; give the path of one"
        candidates = sorted(Path(text).glob(f"*{_ENDING}"))
    else:
        there = "It is prepared elsewhere"
        candidates = [root / place.name for root in known_roots() for place in places]
    found = [str(path) for path in candidates if _is_set(path)]
    hint = f"{there}: {name_first(found, _NUM_NAMED)}." if found else f"Run: {command('prepare', text)}"
    return NotPreparedError(f"There is no record set for {text}: {absent}. {hint}", path=str(places[0]))


def _unknown_name(name: str) -> ArgumentError:
    """Make the error for a word that is no dataset and no path, with the dataset or path of the most similar name."""
    meant = catalogue.unknown(name).details.get("meant") or _near_path(name)
    return ArgumentError(
        f"There is no dataset and no path {name!r}. {_whats_read(meant)} Prepare your copy of a dataset that is not in "
        f"the list: {command('prepare', './FOLDER')}",
        name=name,
        meant=meant,
    )


def _whats_read(meant: str | None) -> str:
    hint = f"Did you mean {meant}? " if meant else ""
    return (
        f"{hint}{command('list')} shows the datasets; a path is a directory with one folder for each class, a list of "
        f"files ({', '.join(LIST_ENDINGS)}), another tool's files, or a record set."
    )


def _near_path(text: str) -> str | None:
    """Find the directory, list or record set beside a path that has the most similar name."""
    path, found = Path(text), None
    with contextlib.suppress(OSError):
        shown_names = [name for name in sorted(os.listdir(path.parent)) if not name.startswith(".")]
        found = closest(path.name, (name for name in shown_names if _is_list(name) or (path.parent / name).is_dir()))
    folder = "." if path.parent == Path() else str(path.parent)
    return None if found is None else os.path.join(folder, found)
