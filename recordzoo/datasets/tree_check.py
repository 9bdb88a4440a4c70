"""Has a tree changed since its records were made?

Only directories are looked at; where their times differ, also names, and then the sizes of some files.
"""

import bisect
import json
import os
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.errors import OtherSourceError
from recordzoo.recipes.class_folders import IMAGE_ENDINGS, name_key
from recordzoo.recipes.folder import TREE_FILE
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.reader import RecordReader

_SAMPLE = 1000
_warned: set[Path] = set()


@dataclass(frozen=True, slots=True)
class _Known:
    """What `TREE_FILE` says: where the tree was, and when each of its directories changed, in ns."""

    root: str
    directories: Mapping[str, int]


def check_tree(reader: RecordReader, tree: Path, *, explicit: bool, new_names: bool = True) -> None:
    """Compare a tree with its records; warn, once a process and path, if it has changed.

    Args:
        reader: The records.
        tree: The resolved tree; nothing is said if it is gone.
        explicit: The user named the records; then they must be those of this tree.
        new_names: Whether files and folders that the records do not have are a change: not where the names of the
            samples were just listed and found.

    Raises:
        OtherSourceError: They are those of another one.
    """
    known = _read(reader)
    if known is None or not _exists(tree, known):
        return
    moved = known.root != os.fspath(tree)
    changed, differences = _differences(reader, tree, known, new_names)
    if not differences and reader.manifest.variant == ORIGINAL:
        # Another tree is looked at all over; this one where something was written, which need not change any name.
        positions: Sequence[int] = range(len(reader)) if moved else _positions(reader, changed)
        differences = list(_size_differences(reader, tree, positions))
    if not differences:
        return
    what = differences[0] + (f" and {len(differences) - 1} more" if len(differences) > 1 else "")
    if moved and explicit:
        raise OtherSourceError(
            f"{reader.path} holds the records of {known.root}, not of {tree}: {what}. "
            "Pass another records_dir, or none.",
            path=str(reader.path),
        )
    if tree not in _warned:
        _warned.add(tree)
        warnings.warn(
            f"{tree} is not what it was when {reader.path} was made from it: {what}. The records are used as they "
            f"are; to make them again, pass refresh=True or run: recordzoo prepare {shlex.quote(str(tree))} --refresh",
            stacklevel=4,
        )


def _read(reader: RecordReader) -> _Known | None:
    """Read `TREE_FILE`; None if it is not there or not ours, because it only helps."""
    try:
        document = json.loads(reader.extra(TREE_FILE) or b"")
        root, directories = document["root"], document["directories"]
        times = {str(name): int(time) for name, time in directories.items()}
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not isinstance(root, str):
        return None
    return _Known(root, {name: time for name, time in times.items() if _is_inside(name)})


def _is_inside(name: str) -> bool:
    """Whether a name of the file, which may be a stranger's, is one of a directory in the tree."""
    return not name.startswith("/") and ".." not in name.split("/") and "\0" not in name


def _exists(tree: Path, known: _Known) -> bool:
    """Whether anything of the tree is there; an empty mount point is a tree that is gone."""
    return any((tree / name).is_dir() for name in known.directories if name and "/" not in name)


def _differences(reader: RecordReader, tree: Path, known: _Known, new_names: bool) -> tuple[list[str], list[str]]:
    """Return the directories that were written to, and which names differ in them."""
    skipped: dict[str, set[str]] = {}
    for name in reader.manifest.skipped:
        skipped.setdefault(name.rpartition("/")[0], set()).add(name)
    changed: list[str] = []
    differences: list[str] = []
    for directory, time in known.directories.items():
        path = tree / directory
        try:
            if path.stat().st_mtime_ns == time:
                continue
            folders, files = _list(path, directory)
        except OSError:
            differences.append(f"{directory}/ is gone")
            continue
        changed.append(directory)
        inside = {name for name in known.directories if name and name.rpartition("/")[0] == directory}
        if new_names:
            differences += [f"{name}/ is new" for name in sorted(folders - inside)]
        if not directory:
            continue
        stored = {reader.names[position] for position in _positions_in(reader, directory)}
        stored |= skipped.get(directory, set())
        if new_names:
            differences += [f"{name} is new" for name in sorted(files - stored)]
        differences += [f"{name} is gone" for name in sorted(stored - files)]
    return changed, differences


def _list(path: Path, directory: str) -> tuple[set[str], set[str]]:
    """List the folders and the images of a directory, as names relative to the tree."""
    start = f"{directory}/" if directory else ""
    folders: set[str] = set()
    files: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                folders.add(start + entry.name)
            elif entry.name.lower().endswith(IMAGE_ENDINGS):
                files.add(start + entry.name)
    return folders, files


def _positions(reader: RecordReader, directories: Sequence[str]) -> list[int]:
    """Return the positions of the files that lie in any of the directories."""
    return [position for directory in directories if directory for position in _positions_in(reader, directory)]


def _positions_in(reader: RecordReader, directory: str) -> range:
    """Return the positions of the files of one directory: they lie together in ImageFolder's order."""
    names = reader.names
    start = stop = bisect.bisect_left(names, name_key(f"{directory}/"), key=name_key)
    while stop < len(names) and names[stop].rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


def _size_differences(reader: RecordReader, tree: Path, positions: Sequence[int]) -> Iterator[str]:
    """Compare the sizes of up to 1,000 files, spread evenly, with those of the stored values."""
    lengths = reader.lengths("image")
    for position in positions[:: -(-len(positions) // _SAMPLE) or 1]:
        name = reader.names[position]
        try:
            size = (tree / name).stat().st_size
        except OSError:
            yield f"{name} is gone"
            continue
        if size != int(lengths[position]):
            yield f"{name} has another size"
