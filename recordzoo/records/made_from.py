"""The files beside a manifest that tell the source of a record set; `MadeFrom` reads `made-from.bin`.

They are not part of the format, and the manifest does not name them: they contain times and places, and every build of
a record set must give the same bytes. `made-from.bin` has the raw files with their sizes and times: a header, a row for
each file, and the names, so that single rows can be read.
"""

import os
import re
import struct
import weakref
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from recordzoo.base.npy import AnyArray
from recordzoo.errors import RecordError
from recordzoo.raw.member import FileTable
from recordzoo.records.arrays import file_name, marks_name
from recordzoo.records.files import pread
from recordzoo.records.manifest import MANIFEST_NAME, Manifest, parse_manifest
from recordzoo.records.reader import RecordReader

MADE_FROM_FILE = "made-from.bin"

TREE_FILE = "tree.json"
"""The path of a tree of images and the modification time of each of its directories."""

LIST_FILE = "list.json"
"""The places of a list of files."""

COMBINED_FILE = "combined.json"
"""The places of the record sets that a set was combined from. Earlier versions wrote it; nothing reads it."""

LAYOUT_FILE = "layout.json"
"""``shard_bytes`` or ``num_shards`` of the preparation, if one was given."""

COPIED_FILE = "copied.json"
"""The path or URL, without a login, from which a record set was copied or pulled, and its digest."""

BESIDE = (TREE_FILE, LIST_FILE, MADE_FROM_FILE, COMBINED_FILE, LAYOUT_FILE, COPIED_FILE)

MAX_EXTRA_BYTES = 1 << 30
"""A larger file beside a record set is not copied: it is optional."""

_LIKE_OURS = re.compile(r"shard-[0-9]{5,7}\.lmdb|[a-z0-9_.-]+\.npy|.+\.marks")

_MAGIC = b"rzfiles1"
_HEADER = struct.Struct("<8sQQQ")  # magic, number of files, bytes of the base, bytes of the names
_ROW = np.dtype([("size", "<i8"), ("mtime", "<i8"), ("end", "<u8")])  # end: end of its name in the names
_MAX_BASE_BYTES = 1 << 16


def own_files(manifest: Manifest) -> set[str]:
    """Return the names of all files that recordzoo writes into a record set, whether they are there or not."""
    arrays, marks = map(file_name, manifest.arrays), map(marks_name, manifest.blobs)
    return {MANIFEST_NAME, *(shard.name for shard in manifest.shards), *arrays, *marks, *BESIDE}


def strangers(folder: Path) -> list[str]:
    """Return the names in a record set's directory that recordzoo did not write; without a manifest, none.

    If the manifest is damaged or cannot be read, the names of shards, arrays and marks count as recordzoo's.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    if MANIFEST_NAME not in names:
        return []
    try:
        own = own_files(parse_manifest((folder / MANIFEST_NAME).read_bytes(), str(folder)))
    except OSError:  # includes RecordError
        own = {MANIFEST_NAME, *BESIDE, *filter(_LIKE_OURS.fullmatch, names)}
    return [name for name in names if name not in own]


def encode_files(table: FileTable, root: Path) -> bytes:
    """Encode a table of files, with names relative to `root`.

    Args:
        table: The files.
        root: The root of the raw data: a directory, or the list.
    """
    base = directory_of(root)
    rows = np.zeros(len(table), _ROW)
    rows["size"], rows["mtime"] = table.sizes, table.mtimes
    joined, ends = bytearray(), array("Q")
    for name in relative_names(table, root):
        joined += _bytes(name)
        ends.append(len(joined))
    rows["end"] = ends
    base_bytes = _bytes(base)
    return b"".join([_HEADER.pack(_MAGIC, len(rows), len(base_bytes), len(joined)), base_bytes, rows.tobytes(), joined])


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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class MadeFrom(Sequence[str]):
    """The raw files of a record set: a sequence of their names, in the order of reading.

    Attributes:
        base: The directory that the names are relative to, at the time of the build.
    """

    def __init__(self, fd: int, base: str, count: int, rows_at: int, names_bytes: int) -> None:
        self.base = base
        self._fd, self._count, self._rows_at, self._names_bytes = fd, count, rows_at, names_bytes
        self._names_at = rows_at + count * _ROW.itemsize
        weakref.finalize(self, os.close, fd)

    @staticmethod
    def of(reader: RecordReader) -> "MadeFrom | None":
        """Open the file beside a record set; None if it is missing or damaged."""
        try:
            fd = reader.open_extra(MADE_FROM_FILE)
        except RecordError:
            return None
        head = pread(fd, _HEADER.size, 0)
        if len(head) == _HEADER.size:
            magic, count, base_bytes, names_bytes = _HEADER.unpack(head)
            rows_at = _HEADER.size + base_bytes
            whole = rows_at + count * _ROW.itemsize + names_bytes
            if magic == _MAGIC and base_bytes <= _MAX_BASE_BYTES and whole == os.fstat(fd).st_size:
                base = _text(pread(fd, base_bytes, _HEADER.size))
                return MadeFrom(fd, base, count, rows_at, names_bytes)
        os.close(fd)
        return None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            return [name for name, _, _ in self.files(start, stop)][::step]
        if not 0 <= index < self._count:
            raise IndexError(f"file {index} of {self._count}")
        return next(self.files(index, index + 1))[0]

    def files(self, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
        """Yield name, size in bytes and modification time in ns of consecutive files.

        Files with damaged names are skipped: the file is optional.
        """
        first = max(start - 1, 0)
        rows = self._rows(first, stop)
        ends = rows["end"].tolist()
        begins = [0, *ends] if start == 0 else ends
        begin, end = begins[0] if begins else 0, ends[-1] if ends else 0
        if not begin <= end <= self._names_bytes:
            return
        names = pread(self._fd, end - begin, self._names_at + begin)
        facts = rows[start - first :]
        for low, high, size, mtime in zip(
            begins, begins[1:], facts["size"].tolist(), facts["mtime"].tolist(), strict=False
        ):
            if begin <= low <= high <= end:
                yield _text(names[low - begin : high - begin]), size, mtime

    def _rows(self, start: int, stop: int) -> AnyArray:
        data = pread(self._fd, (stop - start) * _ROW.itemsize, self._rows_at + start * _ROW.itemsize)
        return np.frombuffer(data[: len(data) - len(data) % _ROW.itemsize], _ROW)
