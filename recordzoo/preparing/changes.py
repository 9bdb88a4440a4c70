"""Detect raw files that changed since a record set was made from them.

Two optional files beside a set's manifest tell what it was made from. `tree.json` has the path of a tree and the time
of each of its directories. `made-from.bin` has the raw files with their sizes and times: a header, a row for each
file, and the names, so that single rows can be read.
"""

import bisect
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
from recordzoo.records.arrays import AnyArray, Names, leads_out
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.reader import RecordReader, extra_object
from recordzoo.records.shard import crc32
from recordzoo.records.writer import MADE_FROM_FILE, TREE_FILE

_BLOCKS, _BLOCK_FILES, _WRITTEN_FILES, _CONTENTS = 16, 16, 1000, 16
_NUM_NAMED = 3
_GONE, _WRITTEN = "is gone", "was written to"
_FILES_OF_A_SECOND = 20_000  # compared within a second

_MAGIC = b"rzfiles1"
_HEADER = struct.Struct("<8sQQQ")  # magic, number of files, bytes of the base, bytes of the names
_ROW = np.dtype([("size", "<i8"), ("mtime", "<i8"), ("end", "<u8")])  # end: end of its name in the names
_MAX_BASE_BYTES = 1 << 16

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
        """The first differences, and the number of further ones."""
        text = name_first(self.found, _NUM_NAMED)
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
        progress: Receives the progress of a full comparison.
    """
    made_from = MadeFrom.of(reader)
    if root is None and not (os.path.isabs(made_from.base) and os.path.isdir(made_from.base)):
        return Changes(made_from.base)
    root = root or Path(made_from.base)
    base, directories = directory_of(root), _directories(reader)
    places = (os.path.join(base, name) for name in filter(None, directories or ()))
    if directories is not None and not any(map(os.path.isdir, places)):
        return Changes(base)  # an empty mount point
    written, found = _written_directories(reader, base, directories or {}, new_names=new_names)
    count, num_compared, contents_left = len(made_from), 0, _CONTENTS
    if now is not None and new_names and made_from.base:
        stored = set(map(made_from.__getitem__, range(count)))
        found += [f"{name} is new" for name in relative_names(now, root) if name not in stored]
    listed = functools.cache(lambda: {name: position for position, name in enumerate(reader.names)})
    shown = progress if progress is not None and full and count >= _FILES_OF_A_SECOND else SilentProgress()
    shown.begin(f"comparing {count:,} files with their records")
    for number in range(count) if full else _some_files(made_from, written):
        name, (size, mtime, _) = made_from[number], made_from.rows[number].tolist()
        shown.advance(0, 1)
        if not name or (leads_out(name) and reader.manifest.kind is not SetKind.LIST):  # its files may be anywhere
            continue
        num_compared += 1
        path = os.path.join(base, name)
        difference = _difference(path, size, mtime)
        if difference == _WRITTEN:
            contents_left -= 1
            if contents_left < 0 and not full:
                continue
            is_same = _is_stored(reader, name, path, listed)
            if is_same or (is_same is None and base != made_from.base):  # a copied tree has other times
                continue
        if difference and not (difference == _GONE and directories is None):
            found.append(f"{name} {difference}")
    shown.end()
    return Changes(base, tuple(dict.fromkeys(found)), num_compared, count)


def made_in(reader: RecordReader) -> str:
    """Return the directory of the raw files that a record set was made from; "" if it is unknown."""
    return tree_of(reader) or MadeFrom.of(reader).base


def tree_of(reader: RecordReader) -> str:
    """Return the tree of class folders that a record set was made from, as `TREE_FILE` says; "" if it is unknown."""
    root = extra_object(reader, TREE_FILE).get("root")
    return root if isinstance(root, str) else ""


def warn_of_changes(reader: RecordReader, changes: Changes, command: str, *, stacklevel: int) -> None:
    """Warn of changed raw files, once per directory and record set in a process; see `change_text`."""
    key = (changes.root, str(reader.path))
    if key not in _warned:
        _warned.add(key)
        warnings.warn(change_text(reader, changes, command), stacklevel=stacklevel + 1)


def change_text(reader: RecordReader, changes: Changes, command: str) -> str:
    """Describe the changes and the remedy: the command line that prepares the set."""
    return (
        f"{reader.path} is out of date: in {changes.root}, {changes.summary}. It is used as it is; to rebuild it, pass "
        f"refresh=True or run: {command} --refresh"
    )


def refuse_other(reader: RecordReader, changes: Changes) -> None:
    """Refuse records that were made from other files in another directory."""
    if changes and (before := made_in(reader)) != changes.root:
        raise OtherSourceError(
            f"{reader.path} holds the records of {before}, not of {changes.root}: {changes.summary}. "
            "Pass another records_dir, or none.",
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


def _difference(path: str, size: int, mtime: int) -> str:
    """Return the difference between a file and its former size and modification time; "" if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return _GONE
    if status.st_size != size or not stat.S_ISREG(status.st_mode):
        return "has another size"
    return "" if status.st_mtime_ns == mtime else _WRITTEN


def _is_stored(reader: RecordReader, name: str, path: str, listed: Callable[[], Mapping[str, int]]) -> bool | None:
    """Whether a file equals the stored image of its name; None if the set does not store the file's bytes."""
    image = reader.manifest.blobs.get("image")
    if image is None or image.encoding != "image" or reader.manifest.variant != ORIGINAL:
        return None
    position = None
    if reader.manifest.is_listed:
        position, name = listed().get(name), ""
    while name and position is None:  # in ImageFolder's order, perhaps without its first folders
        position, name = find_name(reader.names, name), name.partition("/")[2]
    if position is None or not reader.has("image", position):
        return None
    row = reader.array("image.index")[position]
    try:
        data = read_small(Path(path), int(row["length"]))
    except OSError:  # for example, it is larger
        return False
    return bool(len(data) == row["length"] and crc32(data) == row["crc32"])


def _directories(reader: RecordReader) -> Mapping[str, int] | None:
    """Read the modification time of each directory of a tree, in ns, from `TREE_FILE`; None for other raw data."""
    document = extra_object(reader, TREE_FILE)
    times = document.get("directories")
    if not isinstance(document.get("root"), str) or not isinstance(times, dict):
        return None
    return {name: time for name, time in times.items() if not leads_out(name) and "\0" not in name}


def _written_directories(
    reader: RecordReader, base: str, directories: Mapping[str, int], *, new_names: bool
) -> tuple[list[str], list[str]]:
    """Return the modified directories of a tree, and the differences of names in them."""
    written, found = list[str](), list[str]()
    for directory, time in directories.items():
        path = os.path.join(base, directory)
        try:
            if os.stat(path).st_mtime_ns == time:
                continue
            _, folders, files = next(os.walk(path))
        except (OSError, StopIteration):
            found.append(f"{directory}/ is gone")
            continue
        written.append(directory)
        start = f"{directory}/" if directory else ""
        if new_names:
            there = {start + name for name in without_record_sets(Path(path), folders)}
            found += [f"{name}/ is new" for name in sorted(there - directories.keys())]
        if directory:
            stored = {reader.names[position] for position in _inside(reader.names, directory)}
            stored |= {name for name in reader.manifest.skipped if name.rpartition("/")[0] == directory}
            images = {start + name for name in filter(is_image, files)}
            found += [f"{name} is new" for name in sorted(images - stored)] if new_names else []
            found += [f"{name} is gone" for name in sorted(stored - images)]
    return written, found


def _inside(names: "Names | MadeFrom", directory: str) -> range:
    """Return the range of one directory's files among names in ImageFolder's order."""
    start = stop = bisect.bisect_left(names, name_key(f"{directory}/"), key=name_key)
    while stop < len(names) and names[stop].rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


class MadeFrom:
    """The content of `MADE_FROM_FILE`: the raw files of a record set, in the order of reading.

    Attributes:
        base: The directory that the names are relative to, at the time of the build.
        rows: The size of each file in bytes, its modification time in ns, and the end of its name among the names.
    """

    def __init__(self, base: str, rows: AnyArray, names: memoryview) -> None:
        self.base, self.rows, self._names = base, rows, names

    @staticmethod
    def of(reader: RecordReader) -> "MadeFrom":
        """Map the file; if it is missing or damaged, the base is "" and there are no files."""
        nothing = MadeFrom("", np.zeros(0, _ROW), memoryview(b""))
        try:
            with open(reader.open_file(MADE_FROM_FILE), "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, count, base_bytes, names_bytes = _HEADER.unpack_from(data)
        except (RecordError, ValueError, struct.error):  # ValueError: it is empty
            return nothing
        rows_at = _HEADER.size + base_bytes
        names_at = rows_at + count * _ROW.itemsize
        if magic != _MAGIC or base_bytes > _MAX_BASE_BYTES or names_at + names_bytes != len(data):
            return nothing
        rows = np.frombuffer(data, _ROW, count, rows_at)
        return MadeFrom(_text(data[_HEADER.size : rows_at]), rows, memoryview(data)[names_at:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> str:
        """Return the name of a file; "" if it is damaged: the file is optional."""
        start, end = int(self.rows["end"][number - 1]) if number else 0, int(self.rows["end"][number])
        name = _text(self._names[start:end]) if start <= end <= len(self._names) else ""
        return "" if "\0" in name else name


def encode_files(table: FileTable, root: Path) -> bytes:
    """Encode a table of files as `MADE_FROM_FILE`, with names relative to `root`: a directory, or the list."""
    rows = np.zeros(len(table), _ROW)
    rows["size"], rows["mtime"] = table.sizes, table.mtimes
    joined, ends = bytearray(), rows["end"]
    for number, name in enumerate(relative_names(table, root)):
        joined += name.encode("utf-8", "surrogateescape")
        ends[number] = len(joined)
    base = directory_of(root).encode("utf-8", "surrogateescape")
    return b"".join([_HEADER.pack(_MAGIC, len(rows), len(base), len(joined)), base, rows.tobytes(), joined])


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
