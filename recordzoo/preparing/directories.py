"""`tree.json`: modification times of the directories in a tree of class folders, to find new and missing files."""

import bisect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.recipes.class_folders import is_image, name_key
from recordzoo.recipes.folder import without_record_sets
from recordzoo.records.arrays import leads_out
from recordzoo.records.made_from import TREE_FILE
from recordzoo.records.reader import RecordReader


@dataclass(frozen=True, slots=True)
class KnownDirectories:
    """The content of `TREE_FILE`: the tree's path and the modification time of each directory, in ns."""

    root: str
    times: Mapping[str, int]

    @staticmethod
    def of(reader: RecordReader) -> "KnownDirectories | None":
        """Read `TREE_FILE`; None if it is missing or invalid: it is only an aid."""
        try:
            document = json.loads(reader.extra(TREE_FILE) or b"")
            root, directories = document["root"], document["directories"]
            times = {str(name): int(time) for name, time in directories.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        if not isinstance(root, str):
            return None
        return KnownDirectories(root, {name: time for name, time in times.items() if is_inside(name)})

    def any_exists(self, base: str) -> bool:
        """Whether any directory of the tree exists; an empty mount point has none."""
        return any(os.path.isdir(os.path.join(base, name)) for name in self.times if name and "/" not in name)

    def differences(self, reader: RecordReader, base: str, *, new_names: bool) -> tuple[list[str], list[str]]:
        """Return the modified directories and the names that differ in them."""
        skipped: dict[str, set[str]] = {}
        for name in reader.manifest.skipped:
            skipped.setdefault(name.rpartition("/")[0], set()).add(name)
        written: list[str] = []
        found: list[str] = []
        for directory, time in self.times.items():
            path = os.path.join(base, directory)
            try:
                if os.stat(path).st_mtime_ns == time:
                    continue
                folders, files = _list(path, directory)
            except OSError:
                found.append(f"{directory}/ is gone")
                continue
            written.append(directory)
            inside = {name for name in self.times if name and name.rpartition("/")[0] == directory}
            if new_names:
                found += [f"{name}/ is new" for name in sorted(folders - inside)]
            if not directory:
                continue
            stored = {reader.names[position] for position in directory_positions(reader.names, directory)}
            stored |= skipped.get(directory, set())
            if new_names:
                found += [f"{name} is new" for name in sorted(files - stored)]
            found += [f"{name} is gone" for name in sorted(stored - files)]
        return written, found


def is_inside(name: str) -> bool:
    """Whether a name stays inside the tree; it may come from an untrusted file."""
    return not leads_out(name) and "\0" not in name


def directory_positions(names: Sequence[str], directory: str) -> range:
    """Return the range of one directory's files among names in ImageFolder's order."""
    start = stop = bisect.bisect_left(names, name_key(f"{directory}/"), key=name_key)
    while stop < len(names) and names[stop].rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


def _list(path: str, directory: str) -> tuple[set[str], set[str]]:
    """List a directory's folders (except record sets) and images, as names relative to the tree."""
    start = f"{directory}/" if directory else ""
    folders: set[str] = set()
    files: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                folders.add(entry.name)
            elif is_image(entry.name):
                files.add(start + entry.name)
    return {start + name for name in without_record_sets(Path(path), list(folders))}, files
