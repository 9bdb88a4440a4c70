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
    layout = "class_folders"                # or "annotated"; without it the recipe is code: <name>_recipe.py
    top = "2750/"                           # the folder above the class folders, or of the images; default: "{part}/"
    folders = { val = "valid" }             # class_folders: for each split its folder below top
    endings = [".jpeg"]                     # class_folders: what images end with; default: as for ImageFolder
    annotations = ["*.json"]                # annotated: patterns of the names of annotation files
    splits = { train = 5994, test = 5794 }  # numbers of samples; where there are parts, in their tables
    instructions = "..."                    # where people may have to fetch files by hand
    differences = ["One sentence."]         # where the class differs from torchvision's on purpose

    [parts.train]                           # one table for each record set, where there are several
    description = "..."
    optional = false                        # true: prepared only when it is named
    set_name = "cub200"                     # <set_name>.records on disk, where it is not <dataset>.<part>
    splits = { train = 1_281_167 }
    top = "320px/"                          # and annotations: where they differ from the dataset's
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
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.base.settings import command
from recordzoo.base.text import did_you_mean
from recordzoo.catalogue.facts import CHECKED, OBTAINED, Costs, DatasetPart, Entry, FileFacts, Layout, Split, parse
from recordzoo.errors import ArgumentError
from recordzoo.records.kinds import SetKind

if TYPE_CHECKING:
    from recordzoo.records.manifest import Manifest

__all__ = [
    "CHECKED",
    "OBTAINED",
    "Costs",
    "DatasetPart",
    "Entry",
    "FileFacts",
    "Layout",
    "Split",
    "class_modules",
    "entry",
    "entry_of",
    "find",
    "names",
    "unknown",
]

_FOLDER = Path(__file__).parent.parent / "datasets"
_WITHOUT_FACTS = {
    "DatasetFolderRecord": "recordzoo.datasets.image_folder",  # of any tree
    "ImageFolderRecord": "recordzoo.datasets.image_folder",  # of any tree
}


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


def entry_of(manifest: "Manifest") -> Entry | None:
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
    return {**found, **_WITHOUT_FACTS}


def unknown(name: str) -> ArgumentError:
    """Make the error for a name that no dataset and no part has."""
    known = names()
    full = [entry(n).label(part.name) for n in known for part in entry(n).parts if part.name]
    close = difflib.get_close_matches(name.lower().replace("-", "").replace("_", ""), [*known, *full], n=1, cutoff=0.75)
    help = f"Did you mean {close[0]}? {command('list')} shows all." if close else f"It must be {', '.join(known)}."
    return ArgumentError(
        f"Unknown dataset {name!r}. {help}",
        name=name,
        meant=close[0] if close else None,
    )


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


NOT_STATED = "not stated"
LIMITED = "research or non-commercial use"
OPEN = "open license"
OTHER = "other or several terms"
GROUPS = (OPEN, LIMITED, OTHER, NOT_STATED)

_NAME = re.compile(
    r"(?P<name>Apache-2\.0|BSD 3-Clause|BSD-style|CC0( 1\.0)?|CC BY[A-Z-]* \d\.\d|MIT|Public domain)"
    r"(?P<repository> \(repository license)?(?P<note> \([^)]*\)$)?(?P<more>.*)"
)
_LIMITS = re.compile(r"non-commercial|research|-NC\b|fair use|must not be sold", re.IGNORECASE)


def group(text: str) -> str:
    """Return one of `GROUPS`."""
    if text.startswith("Not stated"):
        return NOT_STATED
    if _LIMITS.search(text):
        return LIMITED
    named = _NAME.fullmatch(text)
    return OPEN if named and not named["repository"] and not named["more"] and "-ND" not in text else OTHER


def terms(text: str) -> list[str]:
    """Return the words by which a license is found: its group, its name, and the name without a version."""
    named = name(text)
    return list(dict.fromkeys(filter(None, (group(text), named, re.sub(r" \d\.\d$", "", named)))))


def name(text: str) -> str:
    """Return the name of the license that a text begins with; "" if that has none."""
    named = _NAME.fullmatch(text)
    return named["name"] if named else ""


def shown(text: str) -> str:
    """Return the cell of the table: the name, and whether there is more to know; else the group."""
    named = _NAME.fullmatch(text)
    if not named:
        return "other terms" if group(text) == OTHER else group(text)
    if named["repository"]:
        return f"{named['name']} (of the repository)"
    return named["name"] + (" and other terms" if named["more"] else "")


def fitting(
    entries: Iterable[Entry],
    words: Sequence[str] = (),
    *,
    task: str = "",
    license: str = "",
    obtained: str = "",
    checked: str = "",
    max_bytes: int | None = None,
) -> list[Entry]:
    """Choose the datasets that fit all arguments; an empty one fits every dataset. Case does not matter.

    Args:
        entries: The datasets.
        words: Texts in the name, title, summary, task or class names.
        task: One of the dataset's tasks: "detection".
        license: The group of the license, as on the site ("open license"), or its name, with or without version
            ("MIT", "CC BY-SA", "CC BY-SA 4.0").
        obtained: How the raw files are had: "download", "terms", "partly" or "by-hand".
        checked: How the recipe was checked: "bytes", "lists" or "layout".
        max_bytes: The largest download. A dataset of unknown size does not fit.

    Raises:
        ArgumentError: An argument is none of its values; the message begins with the argument's name.
    """
    entries = list(entries)
    names = {each for entry in entries for each in terms(entry.license)}.difference(GROUPS)
    task = _known("task", task, sorted({each for entry in entries for each in tasks(entry)}))
    license = _known("license", license.removeprefix("any "), [*GROUPS, *sorted(names)])
    obtained = _known("obtained", obtained, [how.replace(" ", "-") for how in OBTAINED])
    checked = _known("checked", checked, CHECKED)
    return [
        entry
        for entry in entries
        if task in ("", *tasks(entry))
        and license in ("", *terms(entry.license))
        and obtained in ("", entry.obtained.replace(" ", "-"))
        and checked in ("", entry.checked.by)
        and (max_bytes is None or (entry.size_bytes is not None and entry.size_bytes <= max_bytes))
        and all(word.lower() in searched_text(entry) for word in words)
    ]


def searched_text(entry: Entry) -> str:
    """Return the text of a dataset in which words are looked up, in lower case; the site uses it, too."""
    return " ".join([entry.name, entry.title, entry.summary, entry.task, *entry.class_names]).lower()


def tasks(entry: Entry) -> list[str]:
    """Split a dataset's task into the words by which it is found."""
    return entry.task.split(", ")


def _known(name: str, value: str, known: Iterable[str]) -> str:
    """Return a value as it is known, whatever its case; "" for no value."""
    spelt = {each.lower(): each for each in known}
    if value and value.lower() not in spelt:
        raise ArgumentError(f"{name} {value!r} is none of {', '.join(known)}.{did_you_mean(value, known)}")
    return spelt.get(value.lower(), "")
