"""Files compared with what a record set says and stores of them."""

import functools
import os
import stat
from collections.abc import Iterable, Iterator

from recordzoo.preparing.directories import is_inside
from recordzoo.recipes.class_folders import find_name
from recordzoo.records.crc import crc32
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import NO_SHARD, ORIGINAL
from recordzoo.records.reader import RecordReader
from recordzoo.system.files import open_through_links


class Comparison:
    """Compares raw files with those that a record set was made from.

    Args:
        reader: The record set.
        base: The directory that the files' names are relative to.
        is_moved: Whether the files were elsewhere when the records were made.
        counts_gone: Whether a file that is gone is a change.
        contents: How many files with another time to read; None for all.

    Attributes:
        num_compared: How many files were looked at.
    """

    def __init__(
        self, reader: RecordReader, base: str, *, is_moved: bool, counts_gone: bool, contents: int | None
    ) -> None:
        self.num_compared = 0
        self._reader, self._base = reader, base
        self._is_moved, self._counts_gone, self._contents = is_moved, counts_gone, contents
        # The files of a list may be anywhere; other names lead out of the tree only if they are forged.
        self._is_list = reader.manifest.kind is SetKind.LIST
        image = reader.manifest.blobs.get("image")
        self._is_original = image is not None and image.encoding == "image" and reader.manifest.variant == ORIGINAL

    def differences(self, files: Iterable[tuple[str, int, int]]) -> Iterator[str]:
        """Yield what differs of files given as name, size and time."""
        for name, size, mtime in files:
            if "\0" in name or not (self._is_list or is_inside(name)):
                continue
            self.num_compared += 1
            path = os.path.join(self._base, name)
            try:
                status = os.stat(path)
            except OSError:
                if self._counts_gone:
                    yield f"{name} is gone"
                continue
            if status.st_size != size or not stat.S_ISREG(status.st_mode):
                yield f"{name} has another size"
            elif status.st_mtime_ns != mtime and not self._is_same(name, path):
                yield f"{name} was written to"

    def _is_same(self, name: str, path: str) -> bool:
        """Whether a file with another time holds what is stored of it; assumed after `contents` files."""
        if self._contents is not None:
            if not self._contents:
                return True
            self._contents -= 1
        position = self._position(name) if self._is_original else None
        row = None if position is None else self._reader.array("image.index")[position]
        if row is None or row["shard"] == NO_SHARD:
            return self._is_moved  # the set does not have the file's bytes
        try:
            data = _read(path, int(row["length"]))
        except OSError:
            return False
        return data is not None and len(data) == row["length"] and crc32(data) == row["crc32"]

    def _position(self, name: str) -> int | None:
        """Return the position of a raw file: its record's name is the file's, or the file's without some folders."""
        if self._reader.manifest.is_listed:
            return self._positions.get(name)
        names = self._reader.names  # in ImageFolder's order
        while name:
            position = find_name(names, name)
            if position is not None:
                return position
            name = name.partition("/")[2]
        return None

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self._reader.names)}


def _read(path: str, num_bytes: int) -> bytes | None:
    """Read a regular file, a byte more than it should have; None for anything else, such as a FIFO."""
    fd = open_through_links(path)
    with open(fd, "rb") as file:
        return file.read(num_bytes + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None
