"""Detect raw files that changed since a record set was made from them.

Two optional files beside a set's manifest tell what it was made from. `tree.json` has the path of a tree and the time
of each of its directories. `made-from.bin` has the raw files with their sizes and times: a header, a row for each
file, and the names, so that single rows can be read.
"""

import bisect
import functools
import json
import mmap
import os
import random
import stat
import struct
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recordzoo.base.files import open_through_links
from recordzoo.base.progress import Progress, SilentProgress
from recordzoo.base.text import name_first
from recordzoo.errors import OtherSourceError, RecordError
from recordzoo.raw.member import FileTable
from recordzoo.recipes.declared import find_name, is_image, name_key
from recordzoo.recipes.folders import without_record_sets
from recordzoo.records.arrays import AnyArray, leads_out
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import NO_SHARD, ORIGINAL
from recordzoo.records.reader import RecordReader
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

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences between raw files and those that a record set was made from. False if there are none.

    Attributes:
        root: The directory of the raw files.
        made_in: Their directory when the records were made; "" if unknown.
        found: The differences: "dog/1.jpg has another size".
        num_compared: Number of files compared.
        num_files: Number of files in total.
    """

    root: str
    made_in: str = ""
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
    root: Path,
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
        root: The tree or the list. Missing files count as changes only in a tree of class folders: other raw files may
            be deleted after conversion.
        full: Compare all files, and the content of each with another time. Default: some hundred random files,
            including files of modified directories, and the content of up to 16.
        now: The current files, to detect new ones. Without it, new files are detected only in trees of class folders.
        new_names: Whether files missing from the set are changes.
        progress: Receives the progress of a full comparison.
    """
    base, tree, made_from = directory_of(root), KnownTree.of(reader), MadeFrom.of(reader)
    before = made_from.base if made_from is not None else tree.root if tree is not None else ""
    if tree is not None and not tree.is_anything_in(base):
        return Changes(base, before)
    written, found = ([], []) if tree is None else tree.differences(reader, base, new_names=new_names)
    if made_from is None:
        return Changes(base, before, found)
    count, num_compared, contents_left = len(made_from), 0, _CONTENTS
    if now is not None and new_names:
        stored = set(map(made_from.name, range(count)))
        found += [f"{name} is new" for name in relative_names(now, root) if name not in stored]
    is_list = reader.manifest.kind is SetKind.LIST  # its files may be anywhere
    position_of = _positions(reader)
    shown = progress if progress is not None and full and count >= _FILES_OF_A_SECOND else SilentProgress()
    shown.begin(f"comparing {count:,} files with their records")
    for name, size, mtime in made_from.files(range(count) if full else _some_files(made_from, written)):
        shown.advance(0, 1)
        if not name or "\0" in name or not (is_list or is_inside(name)):
            continue
        num_compared += 1
        path = os.path.join(base, name)
        difference = _difference(path, size, mtime)
        if difference == _WRITTEN:
            contents_left -= 1
            if contents_left < 0 and not full:
                continue
            is_same = _is_stored(reader, position_of(name), path)
            if is_same or (is_same is None and before != base):  # a copied tree has other times
                continue
        if difference and not (difference == _GONE and tree is None):
            found.append(f"{name} {difference}")
    shown.end()
    return Changes(base, before, tuple(dict.fromkeys(found)), num_compared, count)


def recorded_changes(reader: RecordReader, *, full: bool = False, progress: Progress | None = None) -> Changes:
    """Compare the raw files that a record set says it was made from; see `find_changes`."""
    made_from = MadeFrom.of(reader)
    root = made_from.base if made_from is not None else ""
    if not os.path.isabs(root) or not os.path.isdir(root):
        return Changes(root)
    return find_changes(reader, Path(root), full=full, progress=progress)


def made_in(reader: RecordReader) -> str:
    """Return the directory of the raw files that a record set was made from; "" if it is unknown."""
    tree, made_from = KnownTree.of(reader), MadeFrom.of(reader)
    return tree.root if tree is not None else made_from.base if made_from is not None else ""


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
    if changes and changes.made_in != changes.root:
        raise OtherSourceError(
            f"{reader.path} holds the records of {changes.made_in}, not of {changes.root}: {changes.summary}. "
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
    beside = [number for directory in written for number in _inside(made_from.name, count, directory)]
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


def _is_stored(reader: RecordReader, position: int | None, path: str) -> bool | None:
    """Whether a file equals the stored image at a position; None if the set does not store the file's bytes."""
    image = reader.manifest.blobs.get("image")
    if position is None or image is None or image.encoding != "image" or reader.manifest.variant != ORIGINAL:
        return None
    row = reader.array("image.index")[position]
    if row["shard"] == NO_SHARD:
        return None
    try:
        with open(open_through_links(path), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            data = file.read(int(row["length"]) + 1)
    except OSError:
        return False
    return bool(len(data) == row["length"] and crc32(data) == row["crc32"])


def _positions(reader: RecordReader) -> Callable[[str], int | None]:
    """Return a function that finds the record of a raw file, by its name, perhaps without its first folders."""
    names = reader.names
    listed = functools.cache(lambda: {name: position for position, name in enumerate(names)})

    def find(name: str) -> int | None:
        if reader.manifest.is_listed:
            return listed().get(name)
        position = None
        while name and position is None:  # in ImageFolder's order
            position, name = find_name(names, name), name.partition("/")[2]
        return position

    return find


@dataclass(frozen=True, slots=True)
class KnownTree:
    """The content of `TREE_FILE`: the tree's path and the modification time of each directory, in ns."""

    root: str
    times: Mapping[str, int]

    @staticmethod
    def of(reader: RecordReader) -> "KnownTree | None":
        """Read `TREE_FILE`; None if it is missing or invalid: it is only an aid."""
        try:
            document = json.loads(reader.extra(TREE_FILE) or b"")
            root, directories = document["root"], document["directories"]
            times = {str(name): int(time) for name, time in directories.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        known = {name: time for name, time in times.items() if is_inside(name)}
        return KnownTree(root, known) if isinstance(root, str) else None

    def is_anything_in(self, base: str) -> bool:
        """Whether any directory of the tree exists; an empty mount point has none."""
        return any(os.path.isdir(os.path.join(base, name)) for name in self.times if name and "/" not in name)

    def differences(self, reader: RecordReader, base: str, *, new_names: bool) -> tuple[list[str], list[str]]:
        """Return the modified directories and the differences of names in them."""
        written, found = list[str](), list[str]()
        for directory, time in self.times.items():
            path = os.path.join(base, directory)
            try:
                if os.stat(path).st_mtime_ns == time:
                    continue
                folders, files = _list_directory(path, directory)
            except OSError:
                found.append(f"{directory}/ is gone")
                continue
            written.append(directory)
            if new_names:
                found += [f"{name}/ is new" for name in sorted(folders - self.times.keys())]
            if directory:
                names = reader.names
                stored = {names[position] for position in _inside(names.__getitem__, len(names), directory)}
                stored |= {name for name in reader.manifest.skipped if name.rpartition("/")[0] == directory}
                found += [f"{name} is new" for name in sorted(files - stored)] if new_names else []
                found += [f"{name} is gone" for name in sorted(stored - files)]
        return written, found


def is_inside(name: str) -> bool:
    """Whether a name stays inside the tree; it may come from an untrusted file."""
    return not leads_out(name) and "\0" not in name


def _inside(name_of: Callable[[int], str], count: int, directory: str) -> range:
    """Return the range of one directory's files among names in ImageFolder's order."""
    first = name_key(f"{directory}/")
    start = stop = bisect.bisect_left(range(count), first, key=lambda position: name_key(name_of(position)))
    while stop < count and name_of(stop).rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


def _list_directory(path: str, directory: str) -> tuple[set[str], set[str]]:
    """List a directory's folders (except record sets) and images, as names relative to the tree."""
    start = f"{directory}/" if directory else ""
    with os.scandir(path) as entries:
        is_folder = {entry.name: entry.is_dir() for entry in entries}
    folders = without_record_sets(Path(path), [name for name, is_dir in is_folder.items() if is_dir])
    files = {start + name for name, is_dir in is_folder.items() if not is_dir and is_image(name)}
    return {start + name for name in folders}, files


class MadeFrom:
    """The content of `MADE_FROM_FILE`: the raw files of a record set, in the order of reading.

    Attributes:
        base: The directory that the names are relative to, at the time of the build.
    """

    def __init__(self, base: str, rows: AnyArray, names: memoryview) -> None:
        self.base, self._rows, self._names = base, rows, names

    @staticmethod
    def of(reader: RecordReader) -> "MadeFrom | None":
        """Map the file; None if it is missing or damaged."""
        try:
            with open(reader.open_file(MADE_FROM_FILE), "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, count, base_bytes, names_bytes = _HEADER.unpack_from(data)
        except (RecordError, ValueError, struct.error):  # ValueError: it is empty
            return None
        rows_at = _HEADER.size + base_bytes
        names_at = rows_at + count * _ROW.itemsize
        if magic != _MAGIC or base_bytes > _MAX_BASE_BYTES or names_at + names_bytes != len(data):
            return None
        rows = np.frombuffer(data, _ROW, count, rows_at)
        return MadeFrom(_text(data[_HEADER.size : rows_at]), rows, memoryview(data)[names_at:])

    def __len__(self) -> int:
        return len(self._rows)

    def name(self, number: int) -> str:
        """Return the name of a file; "" if it is damaged: the file is optional."""
        start, end = int(self._rows["end"][number - 1]) if number else 0, int(self._rows["end"][number])
        return _text(self._names[start:end]) if start <= end <= len(self._names) else ""

    def files(self, numbers: Iterable[int]) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes and modification time in ns of some files."""
        for number in numbers:
            size, mtime, _ = self._rows[number].tolist()
            yield self.name(number), size, mtime


def _text(data: bytes | memoryview) -> str:
    return str(data, "utf-8", "surrogateescape")


def encode_files(table: FileTable, root: Path) -> bytes:
    """Encode a table of files as `MADE_FROM_FILE`, with names relative to `root`: a directory, or the list."""
    rows = np.zeros(len(table), _ROW)
    rows["size"], rows["mtime"] = table.sizes, table.mtimes
    joined, ends = bytearray(), array("Q")
    for name in relative_names(table, root):
        joined += name.encode("utf-8", "surrogateescape")
        ends.append(len(joined))
    rows["end"] = ends
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
