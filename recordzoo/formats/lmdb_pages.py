"""Read an untrusted LMDB file page by page, without LMDB: its keys and the place of each value.

`records/layout.py` says how the pages look. Here keys have any length, and each page is read with
`pread` on demand: truncation or damage is an error, never a SIGBUS as in LMDB's memory map. Neither a lock file nor any
other file beside the database is created or touched.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo.errors import ArchiveError, CorruptRecordError, SourceError
from recordzoo.formats.base import fault
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.records.layout import PAGE_HEADER, Meta, read_meta
from recordzoo.system.files import open_at_once, pread

DATA_FILE = "data.mdb"

_HEAD_BYTES = 2 << 16  # both meta pages, at LMDB's largest page size
_NODE = struct.Struct("<HHHH")  # low and high half of the size, or of the child's page; flags; key's length
_DB = struct.Struct("<IHHQQQQQ")  # MDB_db: pad, flags, depth; branch, leaf and overflow pages; entries, root
_BRANCH, _LEAF, _OVERFLOW = 0x01, 0x02, 0x04
_BIG, _SUB_DATABASE, _DUPLICATES = 0x01, 0x02, 0x04
_NO_ROOT = (1 << 64) - 1
_MAX_DEPTH = 32


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
        for page, node, _ in self._nodes(main):
            tree = self._named(page, node)
            if tree is None:
                if found:
                    raise self._foreign(found[0].name, "a named database beside plain values")
                return [main]
            found.append(tree)
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
        for page, node, number in self._nodes(tree):
            entry = self._entry(page, node, number)
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

    def _nodes(self, tree: PageTree) -> Iterator[tuple[bytes, int, int]]:
        """Yield each leaf's nodes in the order of their keys: the page, the node's place in it, the page's number."""
        if tree.root == _NO_ROOT:
            return
        stack = [(tree.root, 1)]
        visited = 0
        num_pages = self.status[0] // self.meta.page_size + 1
        while stack:
            number, depth = stack.pop()
            visited += 1
            if depth > _MAX_DEPTH or visited > num_pages:
                raise self._damaged("its tree is too deep or runs in a circle")
            flags, page, nodes = self._page(number)
            if flags & _BRANCH:
                for node in reversed(nodes):
                    low, high, top, _ = _NODE.unpack_from(page, node)
                    stack.append((low | high << 16 | top << 32, depth + 1))
            elif flags & _LEAF:
                for node in nodes:
                    yield page, node, number
            else:
                raise self._damaged(f"page {number} is neither branch nor leaf")

    def _page(self, number: int) -> tuple[int, bytes, tuple[int, ...]]:
        """Return a page's flags, the page, and where its nodes begin."""
        size = self.meta.page_size
        if not 2 <= number < self.status[0] // size:
            raise self._damaged(f"page {number} does not exist")
        page = self._read(number * size, size)
        found, _, flags, lower, _ = struct.unpack_from("<QHHHH", page)
        if found != number:
            raise self._damaged(f"page {number} carries another number")
        if not PAGE_HEADER <= lower <= size:
            raise self._damaged(f"page {number} has an impossible size")
        nodes = struct.unpack_from(f"<{(lower - PAGE_HEADER) // 2}H", page, PAGE_HEADER)
        if any(node < lower or node + _NODE.size > size for node in nodes):
            raise self._damaged(f"page {number} has a node outside itself")
        return flags, page, nodes

    def _named(self, page: bytes, node: int) -> PageTree | None:
        """Read a node's named database; None if it has a plain value."""
        low, high, flags, key_length = _NODE.unpack_from(page, node)
        start = node + _NODE.size + key_length
        if flags != _SUB_DATABASE:  # with the flag for duplicates, the key has several values
            return None
        key = page[node + _NODE.size : start]
        if low | high << 16 != _DB.size or start + _DB.size > self.meta.page_size:
            raise self._damaged(f"the named database {key!r} has an impossible size")
        _, order, _, _, _, _, entries, root = _DB.unpack_from(page, start)
        if order:
            raise self._foreign(key, "a named database with an order of its own")
        return PageTree(key, root, entries)

    def _entry(self, page: bytes, node: int, number: int) -> PageEntry:
        low, high, flags, key_length = _NODE.unpack_from(page, node)
        size = self.meta.page_size
        start = node + _NODE.size + key_length
        length = low | high << 16
        key = page[node + _NODE.size : start]
        if flags & (_SUB_DATABASE | _DUPLICATES):
            raise self._foreign(key, "a named database" if flags & _SUB_DATABASE else "several values")
        offset = number * size + start
        if flags & _BIG:
            if start + 8 > size:
                raise self._damaged(f"page {number} has a node outside itself")
            offset = int.from_bytes(page[start : start + 8], "little") * size + PAGE_HEADER
        elif start + length > size:
            raise self._damaged(f"page {number} has a node outside itself")
        if offset + length > self.status[0] or offset < 2 * size:
            raise self._damaged(f"the value of {key!r} lies outside the file, which may be cut")
        return PageEntry(key, offset, length)

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
