"""Raw data that is there, but not where a recipe looks for it: hints for the error if it finds none.

Kaggle, unzip tools and colleagues leave datasets one folder too deep, with their top folder as the root, or under other
names: ``images/Images``, ``CUB_200_2011 (1).tgz``, ``train-images.idx3-ubyte``.
"""

import itertools
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from recordzoo.base.files import is_folder
from recordzoo.base.text import name_first

_MOST, _MOST_IN_FOLDER = 20_000, 2000  # paths that are looked at: the root may be a shared disk
_NUM_SHOWN = 3
_PACKED = re.compile(r"(\.(tar|tgz|gz|zip|bz2|xz))+$")
_COPY = re.compile(r" ?\(\d+\)$")  # by a browser


def near(root: Path, looked_for: Iterable[str]) -> str:
    """Say where raw data probably is; "" if nothing looks like it.

    Args:
        root: The directory in which it was not found.
        looked_for: The files and folders that were looked for, relative to it. Those that are patterns are ignored.
    """
    names = [name for name in dict.fromkeys(looked_for) if not re.search(r"[ *<|]", name)]
    wanted = [name for name in names if not os.path.isfile(root / name)]
    there = list(itertools.islice(_entries(root), _MOST))
    other, found = _best_root(root, there, wanted)
    if found:
        are = "is" if len(found) == 1 else "are"
        return f"{name_first(found, _NUM_SHOWN)} {are} in {other}: give that as the root."
    pairs = [f"{each} like {name}" for name in wanted if (each := _like(name, there))]
    if pairs:
        return f"Found {name_first(pairs, _NUM_SHOWN)}: move, rename or link what is meant."
    empty = [name for name in wanted if os.path.exists(root / name)]
    return f"{name_first(empty, _NUM_SHOWN)} is there, but lacks files that it should have." if empty else ""


def _entries(root: Path) -> Iterator[str]:
    """Yield the names of what is below a folder, those of folders with a "/" at the end; the shallow ones first."""
    waiting = deque([""])
    while waiting:
        folder = waiting.popleft()
        try:
            with os.scandir(root / folder) as entries:
                found = {entry.name: is_folder(entry) for entry in itertools.islice(entries, _MOST_IN_FOLDER)}
        except OSError:
            continue
        for name, has_more in sorted(found.items()):
            if name.startswith(".") or name == "__MACOSX" or ".records" in name:
                continue
            path = f"{folder}{name}{'/' if has_more else ''}"
            yield path
            if has_more:
                waiting.append(path)


def _best_root(root: Path, there: Sequence[str], wanted: Sequence[str]) -> tuple[Path, list[str]]:
    """Return the root that has most of what is wanted, and what it has.

    A folder above the given root is only one if what is wanted begins with the folders from there to the root.
    """
    root, known = root.absolute(), {name.rstrip("/") for name in there}
    folders = [name for name in there if name.endswith("/")]
    found = [(root / top, [name for name in wanted if top + name.rstrip("/") in known]) for top in folders]
    for depth, path in enumerate(root.parents, 1):
        start = "".join(f"{part}/" for part in root.parts[-depth:])
        names = [name for name in wanted if name.startswith(start)]
        found.append((path, [name for name in names if os.path.exists(path / name)]))
    return max(found, key=lambda each: len(each[1]), default=(root, []))


def _like(wanted: str, there: Iterable[str]) -> str:
    """Return the first path whose last two parts, or whose only one, are like those of the wanted one; "" for none."""
    parts = _keys(wanted)
    for name in there:
        keys = _keys(name)
        num_compared = min(2, len(keys), len(parts))
        if name != wanted and _kind(name) == _kind(wanted) and keys[-num_compared:] == parts[-num_compared:]:
            return name
    return ""


def _kind(name: str) -> tuple[bool, bool]:
    """Whether a path is a folder, and whether it is packed: a file of another kind must not be renamed to this one."""
    return name.endswith("/"), _PACKED.search(name.lower()) is not None


def _keys(name: str) -> tuple[str, ...]:
    """Reduce each part of a path to its letters and digits, without what a browser or a packer appends."""
    parts = name.strip("/").lower().split("/")
    return tuple(re.sub(r"[\W_]", "", _COPY.sub("", _PACKED.sub("", part))) for part in parts)
