"""The facts of each dataset: one TOML file each beside this module, read without torch, NumPy or the network.

Everything that `recordzoo list`, `recordzoo info`, shell completion and the documentation need comes from here, and a
recipe takes its raw files from here. A dataset's file reads::

    title = "CUB-200-2011"                  # all of these are needed
    summary = "One sentence."
    homepage = "https://..."
    licence = "..."
    citation = "..."
    class = "recordzoo.datasets.cub200:CUB200Record"   # or a list of them
    recipe = "recordzoo.recipes.cub200"
    num_classes = 200                       # where the dataset has classes
    instructions = "..."                    # where people may have to fetch files by hand

    [parts.""]                              # one table for each record set; "" where there is only one
    description = "..."
    optional = false                        # true: prepared only when it is named
    set_name = "cub200"                     # <set_name>.records on disk, where it is not <dataset>.<part>

    [[files]]                               # one for each raw file
    name = "CUB_200_2011.tgz"
    part = ""                               # or `parts = ["train", "val"]`
    urls = ["https://..."]
    size_bytes = 1
    md5 = "..."                             # and/or sha256
    needs_terms = false

    [splits.train]                          # how many samples; `part` says which record set holds them
    count = 5994
    part = ""

Adding a dataset starts with such a file; nothing else needs to be told of it.
"""

import difflib
import functools
from pathlib import Path

from recordzoo.catalogue.facts import Entry, FileFacts, Part, Split
from recordzoo.catalogue.parse import parse
from recordzoo.errors import ArgumentError

__all__ = ["Entry", "FileFacts", "Part", "Split", "entry", "names", "unknown"]

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """List the datasets' names, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def entry(name: str) -> Entry:
    """Look a dataset up by its name.

    Raises:
        ArgumentError: There is no such dataset; the message says which name may have been meant.
    """
    if name not in names():
        raise unknown(name)
    return _read(_FOLDER / f"{name}.toml")


def unknown(name: str) -> ArgumentError:
    """Make the error for a name that no dataset and no part has."""
    known = names()
    full = [entry(n).label(part.name) for n in known for part in entry(n).parts if part.name]
    close = difflib.get_close_matches(name.lower().replace("-", "").replace("_", ""), [*known, *full], n=1, cutoff=0.5)
    meant = f"Did you mean {close[0]}? " if close else ""
    return ArgumentError(
        f"Unknown dataset {name!r}. {meant}The datasets are {', '.join(known)}.",
        name=name,
        meant=close[0] if close else None,
    )


@functools.cache
def _read(path: Path) -> Entry:
    return parse(path.stem, path.read_text(encoding="utf-8"))
