"""The facts of each dataset: ``recordzoo/datasets/<name>.toml``, read without torch, NumPy or the network.

All that `recordzoo list`, `recordzoo info`, completion, the documentation, recipes and the register of classes say
about a dataset comes from its file::

    title = "CUB-200-2011"                  # all of these are needed
    summary = "One sentence."
    task = "classification"
    homepage = "https://..."
    license = "..."
    license_source = "..."                  # where it was read, or looked for in vain: an address or a sentence
    citation = "..."
    checked = "layout"                      # how the recipe was checked: "bytes" (with the whole real files), "lists"
                                            # (real lists, or a part of the real files), "layout" (generated files)
    checked_date = "2026-11-24"
    checked_source = "..."                  # what the recipe read, and where that is from
    class = "CUB200Record"                  # or a list; defined in <name>.py beside this file
    module = "cub200"                       # or in module.py, shared with others; so is a recipe, in module_recipe.py
    num_images = 11_788                     # where that is not the sum of the splits: they may overlap
    num_classes = 200                       # where the dataset has classes
    classes = ["..."]                       # their names, where the raw files do not have them
    folder = "flowers-102"                  # where torchvision keeps the raw files, relative to root; default: root
    expansion = 1.46                        # size of the records / size of the raw files; default 1.02
    recipe = "CUB200"                       # the class in <module>_recipe.py; not needed if the layout says it all
    layout = "class_folders"                # or "annotated"
    top = "2750/"                           # the folder above the class folders, or of the images; default: "{part}/"
    folders = { val = "valid" }             # class_folders: for each split its folder below top, if there are any
    endings = [".jpeg"]                     # class_folders: what images end with, lower case; default: as ImageFolder
    annotations = ["*.json"]                # annotated: patterns (`fnmatch`) of the names of annotation files
    splits = { train = 5994, test = 5794 }  # numbers of samples; where there are parts, in their tables
    instructions = "..."                    # where people may have to fetch files by hand
    differences = ["One sentence."]         # where the class differs from torchvision's on purpose

    [parts.train]                           # one table for each record set, where there are several
    description = "..."
    optional = false                        # true: prepared only when it is named
    set_name = "cub200"                     # <set_name>.records on disk, where it is not <dataset>.<part>
    splits = { train = 1_281_167 }
    top = "320px/"                          # and folders, annotations, classes, recipe: where they differ
    arguments = { split = "train" }         # with which the class opens this record set; or { train = true }

    [[files]]                               # one for each raw file
    name = "CUB_200_2011.tgz"
    part = "train"                          # or `parts = ["train", "val"]`
    urls = ["https://..."]                  # the official address first, then mirrors of the same bytes
    size_bytes = 1                          # exact; it is compared
    about_bytes = 1                         # where no exact size is known: for the checks of room, and for people
    md5 = "..."                             # and/or sha256: a file that has one of the two is accepted
    unconfirmed = true                      # the md5 is known from one loader and its copies: a mismatch only warns
    needs_terms = false
    optional = false                        # true: the part is also prepared without it

To add a dataset, add such a file (`docs/add-a-dataset.md`). Nothing else refers to it.
"""

import difflib
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from recordzoo.base.settings import command
from recordzoo.base.text import did_you_mean
from recordzoo.errors import ArgumentError
from recordzoo.net.url import RemoteFile
from recordzoo.records.manifest import Manifest, SetKind

_FOLDER = Path(__file__).parent.parent / "datasets"
_OF_ANY_TREE = dict.fromkeys(("DatasetFolderRecord", "ImageFolderRecord"), "recordzoo.datasets.image_folder")


CHECKED = {
    "bytes": "The recipe has prepared the whole real files.",
    "lists": "The recipe has read real lists, or a part of the real files; the layout of the rest is from sources.",
    "layout": "The recipe has read only generated files; the layout of the real ones is from sources.",
}
"""How a recipe was checked, and what that means."""

OBTAINED = {
    "download": "downloaded",
    "terms": "downloaded after you accepted the terms of access",
    "partly": "downloaded; some files by hand",
    "by hand": "you fetch the raw files yourself",
}
"""How raw files are had, and what that means."""


CONVERT_SPEED = 130e6
"""Bytes of raw data that one core converts per second: `benchmarks/prepare_imagenet.py`, 1.1 GB in 8.3 s of CPU."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What it takes to prepare a dataset by its name: estimates. None: unknown, because a file's size is unknown.

    Attributes:
        kept_bytes: The record sets, which stay on the disk; the raw files may be deleted then.
        needed_bytes: Record sets and raw files together: the peak of disk during the preparation.
        convert_seconds: Time to convert on one core, at `CONVERT_SPEED`; without the download, and on a fast disk.
    """

    kept_bytes: int | None = None
    needed_bytes: int | None = None
    convert_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """How the recipe of a dataset was checked (see `CHECKED`), on which day, and with which files from where."""

    by: str
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Where what is in the raw data, for a recipe that needs no code of its own, or little; see the keys of the file.

    Attributes:
        kind: `layout` of the file; "": all of the recipe is code.
    """

    kind: str = ""
    top: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    endings: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """Raw data that is obtained, converted and published on its own: one record set; see the keys of the file.

    Attributes:
        name: "train", "segmentations", or "" if it is the only one or the main one.
        set_name: "" where that is the part's label.
        recipe: "" if the layout says it all.
    """

    name: str
    description: str = ""
    optional: bool = False
    set_name: str = ""
    arguments: Mapping[str, str | int | bool] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    recipe: str = ""
    layout: Layout = Layout()


@dataclass(frozen=True, slots=True)
class Split:
    """A named list of positions: what the dataset class calls it, how many samples, and the part that holds them."""

    name: str
    count: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class FileFacts(RemoteFile):
    """What is known of a raw file.

    Attributes:
        parts: The parts that are made from it.
    """

    parts: tuple[str, ...] = ("",)

    @property
    def hashes(self) -> str:
        """The hashes of which the file must have one, as ``sha256:<hex> or md5:<hex>``; "" if none is known."""
        md5 = None if self.sha256 and self.unconfirmed else self.md5
        return " or ".join(f"{name}:{digest}" for name, digest in (("sha256", self.sha256), ("md5", md5)) if digest)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a dataset without having it: the keys of its file, as above, but for these.

    Attributes:
        name: What it is called on the command line: "cub200".
        checked: How its recipe was checked.
        class_names: Its dataset classes, as they are imported from `recordzoo`.
        parts: Its record sets.
        files: Its raw files, in the order of reading.
        splits: Its splits.
        images: `num_images` of the file.
        expansion: The default is that of photographs of 110 KB on average, which no archive makes smaller
            (benchmarks/size.py).
    """

    name: str
    module: str
    title: str
    summary: str
    task: str
    homepage: str
    license: str
    citation: str
    checked: Checked
    class_names: tuple[str, ...]
    parts: tuple[DatasetPart, ...]
    files: tuple[FileFacts, ...]
    splits: tuple[Split, ...]
    images: int | None = None
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None
    folder: str = ""
    expansion: float = 1.02
    instructions: str = ""
    differences: tuple[str, ...] = ()
    license_source: str = ""

    @property
    def dataset_module(self) -> str:
        """The module of its dataset classes; importing it imports torch. That of its recipes ends with "_recipe"."""
        return f"recordzoo.datasets.{self.module}"

    @property
    def default_parts(self) -> list[str]:
        """The parts that are prepared when the dataset is prepared by name."""
        return [part.name for part in self.parts if not part.optional]

    @property
    def obtained(self) -> str:
        """How its raw files are had: a key of `OBTAINED`."""
        files = self.default_files
        if not all(file.urls or file.optional for file in files):
            return "by hand"
        if any(file.needs_terms for file in files):
            return "terms"
        return "download" if all(file.urls for file in files) else "partly"

    @property
    def size_bytes(self) -> int | None:
        """The size of these files together, exact or about; None if the size of one is not known."""
        return None if any(file.expected_bytes is None for file in self.default_files) else self.known_bytes

    @property
    def known_bytes(self) -> int:
        """The known sizes of these files together, exact or about."""
        return sum(file.expected_bytes or 0 for file in self.default_files)

    @property
    def costs(self) -> Costs:
        """What it takes to prepare it by its name."""
        raw = self.size_bytes
        if raw is None:
            return Costs()
        # A file that several parts are made from is read for each of them.
        read = [
            sum(file.expected_bytes or 0 for file in self.files if part in file.parts) for part in self.default_parts
        ]
        records = sum(int(size * self.expansion) for size in read)
        return Costs(records, raw + records, round(sum(read) / CONVERT_SPEED, 1))

    @property
    def num_images(self) -> int:
        """How many images it has when it is prepared by name."""
        return sum(split.count for split in self.default_splits) if self.images is None else self.images

    @property
    def default_files(self) -> list[FileFacts]:
        """The files that are downloaded when the dataset is prepared by name."""
        return [file for file in self.files if not set(self.default_parts).isdisjoint(file.parts)]

    @property
    def default_splits(self) -> list[Split]:
        """The splits that the dataset has when it is prepared by name; where a name comes twice, the first."""
        splits = {split.name: split for split in reversed(self.splits) if split.part in self.default_parts}
        return [split for split in self.splits if splits.get(split.name) is split]

    def part(self, name: str = "") -> DatasetPart:
        """Look up one part; an ArgumentError names all, if there is no such part."""
        for part in self.parts:
            if part.name == name:
                return part
        labels = [self.label(part.name) for part in self.parts]
        hint = did_you_mean(self.label(name), labels)
        raise ArgumentError(f"{self.name} has no part {name!r}; it has {', '.join(labels)}.{hint}")

    def label(self, part: str = "") -> str:
        """Say what the command line calls a part: "cub200", "imagenet.train", "voc.2012"."""
        return f"{self.name}.{part}" if part else self.name

    def set_name(self, part: str = "") -> str:
        """Say what a part's record set is called on disk, without its ending: "imagenet.train", "voc2012"."""
        return self.part(part).set_name or self.label(part)

    def raw_files(self, part: str = "") -> tuple[RemoteFile, ...]:
        """Return a part's raw files."""
        self.part(part)
        return tuple(file for file in self.files if part in file.parts)


def names() -> list[str]:
    """List the datasets' names, sorted."""
    return sorted(_files())


def entry(name: str) -> Entry:
    """Look a dataset up by its name.

    Raises:
        ArgumentError: There is no such dataset; the message says which name may have been meant.
    """
    path = _files().get(name)
    if path is None:
        raise unknown(name)
    return _read(path)


def entry_of(manifest: Manifest) -> Entry | None:
    """Return the entry of the dataset that a record set holds; None if it holds a user's own data."""
    is_known = manifest.kind is SetKind.ZOO and manifest.dataset in _files()
    return entry(manifest.dataset) if is_known else None


def find(name: str) -> tuple[Entry, str | None]:
    """Read "imagenet" as (its entry, None) and "imagenet.train" as (its entry, "train").

    Raises:
        ArgumentError: There is no such dataset or part.
    """
    if name in _files():
        return entry(name), None
    dataset, dot, part = name.partition(".")
    if not dot or not part or dataset not in _files():
        raise unknown(name)
    found = entry(dataset)
    return found, found.part(part).name


def class_modules() -> dict[str, str]:
    """Return the module of each dataset class, by the name of the class."""
    entries = map(entry, names())
    found = {name: each.dataset_module for each in entries for name in each.class_names}
    return {**found, **_OF_ANY_TREE}


def unknown(name: str) -> ArgumentError:
    """Make the error for a name that no dataset and no part has."""
    known = names()
    full = [entry(n).label(part.name) for n in known for part in entry(n).parts if part.name]
    word = _plain(name).removesuffix("record")  # CUB200Record: cub200
    titles = {_plain(entry(each).title): each for each in known}  # CUB-200-2011: cub200
    close = difflib.get_close_matches(word, [*known, *full], n=1, cutoff=0.75)
    meant = titles.get(word) or next(iter(close), None)
    help = f"Did you mean {meant}? {command('list')} shows all." if meant else f"It must be {', '.join(known)}."
    return ArgumentError(f"Unknown dataset {name!r}. {help}", name=name, meant=meant)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


@functools.cache
def raw_files() -> dict[str, list[tuple[Entry, FileFacts]]]:
    """Return the datasets with a raw file of each name; reads all entries."""
    found: dict[str, list[tuple[Entry, FileFacts]]] = {}
    for each in map(entry, names()):
        for file in each.files:
            found.setdefault(file.name, []).append((each, file))
    return found


@functools.cache
def _files() -> dict[str, Path]:
    return {path.stem: path for path in _FOLDER.glob("*.toml")}


@functools.cache
def _read(path: Path) -> Entry:
    return parse(path.stem, path.read_text(encoding="utf-8"))


LAYOUTS = ("class_folders", "annotated")
"""The recipes that need no code of their own."""


def parse(name: str, text: str) -> Entry:
    """Read a dataset's facts from TOML, strictly: a key that is missing, unknown or of another type is an error.

    Args:
        name: The dataset's name.
        text: The TOML.

    Raises:
        ArgumentError: The text is not such a file; the message names the place.
    """
    where = f"{name}.toml"
    try:
        top = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise ArgumentError(f"{where} is not TOML: {err}") from err
    splits, parts, recipe, layout = _splits(where, top), [], top.pop("recipe", ""), _layout(where, top)
    for part, table in top.pop("parts", {}).items():
        place = f"{where}: [parts.{part}]"
        splits += _splits(place, table, part)
        of_part = _layout_of(place, part, layout, table) if layout.kind else layout
        parts.append(_made(DatasetPart, place, {"recipe": recipe, **table}, name=part, layout=of_part))
    shared = {"folder": top.get("folder", ""), "instructions": top.pop("instructions", "").strip()}
    tables = enumerate(top.pop("files", ()), 1)
    files = tuple(_file(f"{where}: [[files]] number {number}", table, shared) for number, table in tables)
    checked = Checked(*(top.pop(key, "") for key in ("checked", "checked_date", "checked_source")))
    if checked.by not in CHECKED:
        raise ArgumentError(f"{where}: checked must be one of {', '.join(CHECKED)}; it is {checked.by!r}.")
    renamed = {attribute: top.pop(key) for key, attribute in _ATTRIBUTES.items() if key in top}
    result: Entry = _made(
        Entry,
        where,
        {"module": name, "instructions": shared["instructions"], **renamed, **top},
        name=name,
        checked=checked,
        parts=tuple(parts) or (_made(DatasetPart, where, {"recipe": recipe}, name="", layout=layout),),
        files=files,
        splits=tuple(splits),
    )
    known = {part.name for part in result.parts}
    for what, wanted in [*((f.name, f.parts) for f in files), *((f"split {s.name}", (s.part,)) for s in splits)]:
        if not known.issuperset(wanted):
            raise ArgumentError(f"{where}: {what} belongs to {wanted}, but the parts are {sorted(known)}.")
    return result


_ATTRIBUTES = {"class": "class_names", "num_images": "images"}
"""Keys of a file that its `Entry` calls otherwise."""


# Any, from here on: a dataclass, a type, and what TOML has.
def _made(kind: Any, where: str, table: Mapping[str, Any], /, **given: Any) -> Any:
    """Make a dataclass of a table; `given` are the fields that are no keys of it."""
    types = {each.name: each.type for each in fields(kind) if each.name not in given}
    for key, value in table.items():
        if key not in types:
            raise ArgumentError(f"{where} has the unknown key {key}.")
        found = value
        if get_origin(types[key]) is tuple or tuple[str, ...] in get_args(types[key]):
            found = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not _fits(found, types[key]):
            raise ArgumentError(f"{where}: {key} must be of the type {types[key]}; it is {value!r}.")
        given[key] = float(found) if types[key] is float else found
    try:
        return kind(**given)
    except TypeError as err:
        raise ArgumentError(f"{where}: {err}.") from err


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; a whole number may be a float, but true is no number."""
    inner = get_args(kind)
    if isinstance(kind, UnionType):
        return any(_fits(value, each) for each in inner)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if get_origin(kind) is Mapping:
        return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
    return type(value) in ((int, float) if kind is float else (kind,))


def _splits(where: str, table: dict[str, Any], part: str = "") -> list[Split]:
    counts = table.pop("splits", {}).items()
    return [_made(Split, where, {"count": count}, name=name, part=part) for name, count in counts]


def _layout(where: str, top: dict[str, Any]) -> Layout:
    kind = top.pop("layout", "")
    if not kind:
        return Layout()
    if kind not in LAYOUTS:
        raise ArgumentError(f"{where}: layout must be {' or '.join(LAYOUTS)}; it is {kind!r}.")
    keys = {each.name: top.pop(each.name) for each in fields(Layout) if each.name in top}
    found: Layout = _made(Layout, where, {"top": "{part}/", **keys}, kind=kind)
    return found


def _layout_of(where: str, part: str, layout: Layout, table: dict[str, Any]) -> Layout:
    """Return the layout of a part: that of the dataset, but for what the part says itself."""
    keys = {key: table.pop(key, getattr(layout, key)) for key in ("top", "folders", "annotations")}
    found: Layout = _made(Layout, where, keys, kind=layout.kind, endings=layout.endings)
    annotations = tuple(each.replace("{part}", part) for each in found.annotations)
    return replace(found, top=found.top.replace("{part}", part), annotations=annotations)


def _file(where: str, table: dict[str, Any], shared: Mapping[str, str]) -> FileFacts:
    part = table.pop("part", "")
    result: FileFacts = _made(FileFacts, where, {"parts": part, **table}, **shared)
    if result.size_bytes is not None and result.about_bytes is not None:
        raise ArgumentError(f"{where}: about_bytes is for a file without size_bytes.")
    if result.unconfirmed and result.md5 is None:
        raise ArgumentError(f"{where}: unconfirmed is for a file with an md5.")
    for digest, length in ((result.md5, 32), (result.sha256, 64)):
        if digest is not None and (len(digest) != length or not set(digest) <= set("0123456789abcdef")):
            raise ArgumentError(f"{where}: {digest!r} is not a hash of {length} hexadecimal digits.")
    return result
