"""Read an untrusted LMDB file page by page, without LMDB: its keys and the place of each value.

`records/layout.py` says how the pages look. Here keys have any length, and each page is read with
`pread` on demand: truncation or damage is an error, never a SIGBUS as in LMDB's memory map. Neither a lock file nor any
other file beside the database is created or touched.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo.errors import ArchiveError, CorruptRecordError, SourceError
from recordzoo.formats.base import fault
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.records.layout import BIG, DB, NODE, PAGE_HEADER, Meta, leaves, read_meta
from recordzoo.system.files import open_at_once, pread

DATA_FILE = "data.mdb"

_HEAD_BYTES = 2 << 16  # both meta pages, at LMDB's largest page size
_OVERFLOW = 0x04
_SUB_DATABASE, _DUPLICATES = 0x02, 0x04


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A key and the place of its value in the file."""

    key: bytes
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class PageTree:
    """One database of a file: the unnamed one, whose name is empty, or a named one.

    Attributes:
        name: Its key in the unnamed database.
        root: The number of its first page.
        entries: The number of keys according to its header.
    """

    name: bytes
    root: int
    entries: int


class Database:
    """An LMDB file, opened; as a context manager it is closed at the end.

    Args:
        path: The file.
        status: Its size and modification time in ns at the first opening; None at the first opening.

    Attributes:
        meta: The newer of its meta pages.
        status: Its size and its time of change.

    Raises:
        SourceError: The file cannot be opened, or has changed since the first opening.
        ArchiveError: The file is not an LMDB database.
    """

    def __init__(self, path: Path, status: tuple[int, int] | None = None) -> None:
        self.path = path
        try:
            self._file = open(path, "rb", buffering=0, opener=open_at_once)  # noqa: SIM115 - closed by `__exit__`
        except OSError as err:
            raise fault(path, f" cannot be read ({err.strerror}).") from err
        try:
            found = os.fstat(self._file.fileno())
            self.status = (found.st_size, found.st_mtime_ns)
            if status is not None and self.status != status:
                raise SourceError(
                    f"{path} changed while it was read. Wait until nothing writes to it, then run the same again.",
                    path=str(path),
                    worthless=True,
                )
            try:
                self.meta: Meta = read_meta(self._read(0, min(_HEAD_BYTES, found.st_size)), str(path))
            except CorruptRecordError as err:
                raise ArchiveError(f"{path} is no LMDB database (version 0.9), or its head is damaged.") from err
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def trees(self) -> list[PageTree]:
        """Return the named databases in LMDB's order, or the unnamed one if it has none.

        Raises:
            ArchiveError: The file is cut or damaged.
            SourceError: It holds both named databases and values, or named databases with an order of their own.
        """
        main = PageTree(b"", self.meta.root, self.meta.entries)
        found: list[PageTree] = []
        for flags, entry in self._nodes(main):
            if flags != _SUB_DATABASE:  # with the flag for duplicates, the key has several values
                if found:
                    raise self._foreign(found[0].name, "a named database beside plain values")
                return [main]
            if entry.length != DB.size:
                raise self._damaged(f"the named database {entry.key!r} has an impossible size")
            _, order, _, _, _, _, entries, root = DB.unpack(self._read(entry.offset, DB.size))
            if order:
                raise self._foreign(entry.key, "a named database with an order of its own")
            found.append(PageTree(entry.key, root, entries))
        return found or [main]

    def entries(self, tree: PageTree | None = None) -> Iterator[PageEntry]:
        """Yield every key of a database, in LMDB's order, with the place of its value.

        Args:
            tree: One of `trees`. Default: the unnamed database.

        Raises:
            ArchiveError: The file is cut or damaged: a page is invalid, or points outside the file.
            SourceError: It holds named databases, or several values for a key.
        """
        tree = tree or PageTree(b"", self.meta.root, self.meta.entries)
        before: bytes | None = None
        count = 0
        for flags, entry in self._nodes(tree):
            if flags & (_SUB_DATABASE | _DUPLICATES):
                raise self._foreign(entry.key, "a named database" if flags & _SUB_DATABASE else "several values")
            if before is not None and entry.key <= before:
                raise self._damaged(f"key {entry.key!r} stands behind {before!r}")
            before = entry.key
            count += 1
            yield entry
        if count != tree.entries:
            raise self._damaged(f"its tree has {count:,} keys, its head says {tree.entries:,}")

    def value(self, entry: PageEntry) -> bytes:
        """Read a value.

        Raises:
            ArchiveError: The value has an invalid place, or is larger than any image.
        """
        if entry.length > MAX_MEMBER_BYTES:
            raise self._damaged(f"the value of {entry.key!r} has {entry.length:,} bytes")
        size = self.meta.page_size
        if entry.offset % size != PAGE_HEADER:  # inside its leaf, which was checked
            return self._read(entry.offset, entry.length)
        data = self._read(entry.offset - PAGE_HEADER, PAGE_HEADER + entry.length)
        number, flags = entry.offset // size, int.from_bytes(data[10:12], "little")
        if int.from_bytes(data[:8], "little") != number or not flags & _OVERFLOW:
            raise self._damaged(f"page {number} is not the value of {entry.key!r}")
        return data[PAGE_HEADER:]

    def _nodes(self, tree: PageTree) -> Iterator[tuple[int, PageEntry]]:
        """Yield the flags of each key, and the key."""
        size = self.meta.page_size
        num_pages = self.status[0] // size
        for number, page, nodes in leaves(self._page, tree.root, num_pages, self._damaged):
            for node in nodes:
                low, high, flags, key_length = NODE.unpack_from(page, node)
                start = node + NODE.size + key_length
                key, offset, length = page[node + NODE.size : start], number * size + start, low | high << 16
                if start + (8 if flags & BIG else length) > size:
                    raise self._damaged(f"page {number} has a node outside itself")
                if flags & BIG:
                    offset = int.from_bytes(page[start : start + 8], "little") * size + PAGE_HEADER
                if offset + length > self.status[0] or offset < 2 * size:
                    raise self._damaged(f"the value of {key!r} lies outside the file, which may be cut")
                yield flags, PageEntry(key, offset, length)

    def _page(self, number: int) -> bytes:
        return self._read(number * self.meta.page_size, self.meta.page_size)

    def _read(self, offset: int, length: int) -> bytes:
        parts = []
        try:
            while length > 0 and (part := pread(self._file.fileno(), length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        except OSError as err:
            raise fault(self.path, f" cannot be read ({err.strerror}).") from err
        if length > 0:
            raise self._damaged("it ends too early")
        return b"".join(parts)

    def _foreign(self, key: bytes, kind: str) -> SourceError:
        return fault(
            self.path,
            f": key {key!r} has {kind}; none of the known tools writes that. Read it with Python's lmdb "
            "and store it with recordzoo.convert.",
        )

    def _damaged(self, problem: str) -> ArchiveError:
        return ArchiveError(f"{self.path} is damaged: {problem}. Copy it again.", path=str(self.path))
