"""The files of a tree or a list at the time of listing: columns of names, sizes, times and inodes."""

import functools
import hashlib
import os
from array import array
from collections.abc import Iterator
from pathlib import Path

from recordzoo.system.files import MOUNTS, file_system, inode

_NO_LASTING_INODES = ("fuse", "cifs", "smb3", "9p")
"""Prefixes of the types of file systems on which a file's inode number may change at each look."""


class FileTable:
    """The files of a source, in the order of reading.

    Attributes:
        base: The directory that the names are relative to; a name may also be absolute.
        names: The files' names.
        sizes: Their sizes in bytes.
        mtimes: Their modification times in ns.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self.names: list[str] = []
        self.sizes = array("q")
        self.mtimes = array("q")
        self._ctimes = array("q")
        self._inodes = array("Q")

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, status: os.stat_result) -> None:
        """Add a file with its present status."""
        self.names.append(name)
        self.sizes.append(status.st_size)
        self.mtimes.append(status.st_mtime_ns)
        self._ctimes.append(status.st_ctime_ns)
        self._inodes.append(inode(status) if has_lasting_inodes(status.st_dev) else 0)

    def fingerprint(self, start: bytes = b"") -> str:
        """Return a digest of `start` and the names, sizes and modification times of all files."""
        digest = hashlib.sha256(start)
        for name, size, mtime in zip(self.names, self.sizes, self.mtimes, strict=True):
            digest.update(f"{name}\0{size}\0{mtime}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def stamp(self, start: int, stop: int) -> str:
        """Return a digest of the files from `start` to before `stop`; it changes with every write to one of them.

        It includes the inode's change time: unlike the modification time, programs cannot set it.
        """
        digest = hashlib.sha256()
        digest.update("\0".join(self.names[start:stop]).encode("utf-8", "surrogateescape"))
        for column in (self.sizes, self.mtimes, self._ctimes, self._inodes):
            digest.update(column[start:stop].tobytes())
        return digest.hexdigest()

    def written_since(self, earlier: "FileTable") -> Iterator[str]:
        """Yield the names of files that were written or replaced since an earlier table."""
        before = dict(zip(earlier.names, earlier._states(), strict=True))
        for name, state in zip(self.names, self._states(), strict=True):
            if before.get(name) != state:
                yield name

    def _states(self) -> Iterator[tuple[int, ...]]:
        return zip(self.sizes, self.mtimes, self._ctimes, self._inodes, strict=True)

    def joined(self, other: "FileTable") -> "FileTable":
        """Return both tables as one, relative to their common directory."""
        both = FileTable(os.path.commonpath([self.base, other.base]))
        for table in (self, other):
            folder = os.path.relpath(table.base, both.base)
            both.names += [os.path.normpath(os.path.join(folder, name)) for name in table.names]
            for column in ("sizes", "mtimes", "_ctimes", "_inodes"):
                getattr(both, column).extend(getattr(table, column))
        return both


def stamp_of(status: os.stat_result) -> str:
    """Return the stamp of one file; see `FileTable.stamp`."""
    table = FileTable("")
    table.add("", status)
    return table.stamp(0, 1)


@functools.lru_cache(maxsize=64)
def has_lasting_inodes(device: int, mounts: Path = MOUNTS) -> bool:
    """Whether files on a device keep their inode numbers, as far as is known."""
    return not file_system(device, mounts).startswith(_NO_LASTING_INODES)
