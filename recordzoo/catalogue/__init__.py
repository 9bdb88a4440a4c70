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
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.base.program import command
from recordzoo.catalogue.facts import CHECKED, OBTAINED, Costs, DatasetPart, Entry, FileFacts, Layout, Split
from recordzoo.catalogue.parse import parse
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
