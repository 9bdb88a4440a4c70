"""Detect raw files that changed since a record set was made from them.

Two optional files beside a set's manifest tell what it was made from. `tree.json` has the path of a tree and the time
of each of its directories. `made-from.bin` has the raw files with their sizes and times: a header, a row for each
file, and the names, so that single rows can be read.
"""

import bisect
import contextlib
import functools
import mmap
import os
import random
import stat
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recordzoo.base.files import read_small
from recordzoo.base.progress import Progress, SilentProgress
from recordzoo.base.text import name_first
from recordzoo.errors import OtherSourceError, RecordError
from recordzoo.raw.member import FileTable
from recordzoo.recipes.declared import find_name, is_image, name_key
from recordzoo.recipes.folders import without_record_sets
from recordzoo.records.arrays import Names, leads_out, pack_names
from recordzoo.records.manifest import ORIGINAL, SetKind
from recordzoo.records.reader import RecordReader, extra_object
from recordzoo.records.shard import crc32
from recordzoo.records.writer import MADE_FROM_FILE, TREE_FILE

_BLOCKS, _BLOCK_FILES, _WRITTEN_FILES, _CONTENTS = 16, 16, 1000, 16
_NUM_NAMED = 3
_FILES_OF_A_SECOND = 20_000  # compared within a second

_MAGIC = b"rzfiles1"
_HEADER = struct.Struct("<8sQQQ")  # magic, number of files, bytes of the base, bytes of the names
_ROW = np.dtype([("size", "<i8"), ("mtime", "<i8"), ("end", "<u8")])  # end: end of its name in the names

_text = functools.partial(str, encoding="utf-8", errors="surrogateescape")

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between raw files and those that a record set was made from. False if there are none.

    Attributes:
        root: The directory of the raw files.
        found: The differences: "dog/1.jpg has another size".
        num_compared: Number of files compared.
        num_files: Number of files in total.
    """

    root: str
    found: Sequence[str] = ()
    num_compared: int = 0
    num_files: int = 0

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def summary(self) -> str:
        """The directory, the first differences, and the number of further ones."""
        text = f"in {self.root}, {name_first(self.found, _NUM_NAMED)}"
        if self.num_compared < self.num_files:
            text += f" ({self.num_compared:,} of {self.num_files:,} files were compared)"
        return text


def find_changes(
    reader: RecordReader,
    root: Path | None = None,
    *,
    full: bool = False,
    now: FileTable | None = None,
    new_names: bool = True,
    progress: Progress | None = None,
) -> Changes:
    """Compare the raw files under `root`, if there are any, with those that a record set was made from.

    A file has changed if its size differs, or if its time and its content differ. Contents can be compared only if the
    set stores the files unmodified; otherwise a different time alone is a change, except in a tree that was moved.

    Args:
        root: The tree or the list; default: the directory in which the records were made. Missing files count as
            changes only in a tree of class folders: other raw files may be deleted after conversion.
        full: Compare all files, and the content of each with another time. Default: some hundred random files,
            including files of modified directories, and the content of up to 16.
        now: The current files, to detect new ones. Without it, new files are detected only in trees of class folders.
        new_names: Whether files missing from the set are changes.
        progress: Receives the progress of a long comparison.
    """
    made_from = MadeFrom(reader)
    if root is None and not (os.path.isabs(made_from.base) and os.path.isdir(made_from.base)):
        return Changes(made_from.base)
    root = root or Path(made_from.base)
    base, directories = directory_of(root), tree_of(reader)[1]
    if directories is not None and not any(os.path.isdir(os.path.join(base, name)) for name in directories if name):
        return Changes(base)  # an empty mount point
    written, new, gone = _written_directories(reader, base, directories or {})
    count, num_compared, contents_left = len(made_from), 0, _CONTENTS
    if now is not None and made_from.base:
        stored = set(map(made_from.__getitem__, range(count)))
        new += [name for name in relative_names(now, root) if name not in stored]
    found = [f"{name} is new" for name in new if new_names] + [f"{name} is gone" for name in gone]
    listed = functools.cache(lambda: {name: position for position, name in enumerate(reader.names)})
    shown = progress if progress is not None and count >= _FILES_OF_A_SECOND else SilentProgress()
    shown.begin(f"comparing {count:,} files with their records")
    for number in range(count) if full else _some_files(made_from, written):
        name, (size, mtime, _) = made_from[number], made_from.rows[number].tolist()
        shown.advance(0, 1)
        if not name or (leads_out(name) and reader.manifest.kind is not SetKind.LIST):  # its files may be anywhere
            continue
        num_compared += 1
        path = os.path.join(base, name)
        try:
            status = os.stat(path)
        except OSError:
            found += [f"{name} is gone"] if directories is not None else []
            continue
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            found.append(f"{name} has another size")
        elif status.st_mtime_ns != mtime and (full or contents_left):
            contents_left -= 1
            is_same = _is_stored(reader, name, path, listed)
            if not (is_same or (is_same is None and base != made_from.base)):  # a copied tree has other times
                found.append(f"{name} was written to")
    shown.end()
    return Changes(base, tuple(dict.fromkeys(found)), num_compared, count)


def made_in(reader: RecordReader) -> str:
    """Return the directory of the raw files that a record set was made from; "" if it is unknown."""
    return tree_of(reader)[0] or MadeFrom(reader).base


def tree_of(reader: RecordReader) -> tuple[str, Mapping[str, int] | None]:
    """Read `TREE_FILE`: the tree, and the modification time of each directory in ns; "" and None for other raw data."""
    said = extra_object(reader, TREE_FILE)
    root, times = said.get("root"), said.get("directories")
    if not isinstance(root, str) or not isinstance(times, dict):
        return "", None
    return root, {name: time for name, time in times.items() if not leads_out(name) and "\0" not in name}


def warn_of_changes(reader: RecordReader, changes: Changes, command: str, *, stacklevel: int) -> None:
    """Warn of changed raw files, once per directory and record set in a process; see `change_text`."""
    if (key := (changes.root, str(reader.path))) not in _warned:
        _warned.add(key)
        warnings.warn(change_text(reader, changes, command), stacklevel=stacklevel + 1)


def change_text(reader: RecordReader, changes: Changes, command: str) -> str:
    """Describe the changes and the remedy: the command line that prepares the set."""
    return (
        f"{reader.path} is out of date: {changes.summary}. It is used as it is; to rebuild it, pass refresh=True or "
        f"run: {command} --refresh"
    )


def refuse_other(reader: RecordReader, changes: Changes) -> None:
    """Refuse records that were made from other files in another directory."""
    if changes and (before := made_in(reader)) != changes.root:
        raise OtherSourceError(
            f"{reader.path} holds the records of {before}, not of these files: {changes.summary}. Pass another "
            "records_dir, or none.",
            path=str(reader.path),
        )


def _some_files(made_from: "MadeFrom", written: Iterable[str]) -> Iterable[int]:
    """Choose files: random blocks, and evenly spaced files of modified directories."""
    count = len(made_from)
    if count <= _BLOCKS * _BLOCK_FILES:
        return range(count)
    blocks = random.Random().sample(range(count // _BLOCK_FILES), _BLOCKS)  # the program's global state stays
    numbers = [block * _BLOCK_FILES + place for block in sorted(blocks) for place in range(_BLOCK_FILES)]
    beside = [number for directory in written for number in _inside(made_from, directory)]
    return numbers + beside[:: -(-len(beside) // _WRITTEN_FILES) or 1]


def _is_stored(reader: RecordReader, name: str, path: str, listed: Callable[[], Mapping[str, int]]) -> bool | None:
    """Whether a file equals the stored image of its name; None if the set does not store the file's bytes."""
    image = reader.manifest.blobs.get("image")
    if image is None or image.encoding != "image" or reader.manifest.variant != ORIGINAL:
        return None
    is_listed = reader.manifest.is_listed
    position = listed().get(name) if is_listed else None
    while name and position is None and not is_listed:  # in ImageFolder's order, perhaps without its first folders
        position, name = find_name(reader.names, name), name.partition("/")[2]
    if position is None or not reader.has("image", position):
        return None
    row = reader.array("image.index")[position]
    try:
        data = read_small(Path(path), int(row["length"]))
        return bool(len(data) == row["length"] and crc32(data) == row["crc32"])
    except OSError:  # for example, it is larger
        return False


def _written_directories(
    reader: RecordReader, base: str, directories: Mapping[str, int]
) -> tuple[list[str], list[str], list[str]]:
    """Return the modified directories of a tree, the new names in them, and the names that are gone."""
    written, new, gone = list[str](), list[str](), list[str]()
    for directory, time in directories.items():
        path = os.path.join(base, directory)
        try:
            if os.stat(path).st_mtime_ns == time:
                continue
            _, folders, files = next(os.walk(path))
        except (OSError, StopIteration):
            gone.append(f"{directory}/")
            continue
        written.append(directory)
        start = f"{directory}/" if directory else ""
        there = {start + name for name in without_record_sets(Path(path), folders)}
        new += [f"{name}/" for name in sorted(there - directories.keys())]
        if directory:
            stored = {reader.names[position] for position in _inside(reader.names, directory)}
            stored |= {name for name in reader.manifest.skipped if name.rpartition("/")[0] == directory}
            images = {start + name for name in filter(is_image, files)}
            new += sorted(images - stored)
            gone += sorted(stored - images)
    return written, new, gone


def _inside(names: "Names | MadeFrom", directory: str) -> range:
    """Return the range of one directory's files among names in ImageFolder's order."""
    start = stop = bisect.bisect_left(names, name_key(f"{directory}/"), key=name_key)
    while stop < len(names) and names[stop].rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


class MadeFrom:
    """The content of `MADE_FROM_FILE`: the raw files of a record set, in the order of reading.

    Args:
        reader: The set. If the file is missing or damaged, the base is "" and there are no files.

    Attributes:
        base: The directory that the names are relative to, at the time of the build.
        rows: The size of each file in bytes, its modification time in ns, and the end of its name among the names.
    """

    def __init__(self, reader: RecordReader) -> None:
        self.base, self.rows, self._names = "", np.zeros(0, _ROW), memoryview(b"")
        with contextlib.suppress(RecordError, ValueError, struct.error):  # ValueError: it is empty
            with open(reader.open_file(MADE_FROM_FILE), "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, count, base_bytes, names_bytes = _HEADER.unpack_from(data)
            rows_at = _HEADER.size + base_bytes
            names_at = rows_at + count * _ROW.itemsize
            if magic == _MAGIC and names_at + names_bytes == len(data):
                self.base = _text(data[_HEADER.size : rows_at])
                self.rows, self._names = np.frombuffer(data, _ROW, count, rows_at), memoryview(data)[names_at:]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> str:
        """Return the name of a file; "" if it is damaged: the file is optional."""
        start, end = int(self.rows["end"][number - 1]) if number else 0, int(self.rows["end"][number])
        name = _text(self._names[start:end]) if start <= end <= len(self._names) else ""
        return "" if "\0" in name else name


def encode_files(table: FileTable, root: Path) -> bytes:
    """Encode a table of files as `MADE_FROM_FILE`, with names relative to `root`: a directory, or the list."""
    names, offsets = pack_names(list(relative_names(table, root)))
    rows = np.zeros(len(table), _ROW)
    rows["size"], rows["mtime"], rows["end"] = table.sizes, table.mtimes, offsets[1:]
    base = directory_of(root).encode("utf-8", "surrogateescape")
    return b"".join([_HEADER.pack(_MAGIC, len(rows), len(base), len(names)), base, rows.tobytes(), names.tobytes()])


def directory_of(root: Path) -> str:
    """Return the directory, links resolved, that names of raw files are relative to."""
    return os.path.realpath(root if root.is_dir() else root.parent)


def relative_names(table: FileTable, root: Path) -> Iterator[str]:
    """Yield the names of a table's files, relative to `root`; absolute names stay."""
    top = root if root.is_dir() else root.parent
    folder = os.path.relpath(os.path.abspath(table.base), os.path.abspath(top))
    if folder.startswith(os.pardir):  # reached by a link
        folder = os.path.relpath(os.path.realpath(table.base), os.path.realpath(top))
    prefix = "" if folder == "." else f"{folder.replace(os.sep, '/')}/"
    for name in table.names:
        yield name if os.path.isabs(name) else prefix + name
