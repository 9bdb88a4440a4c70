"""Does a raw file hold what a record set has stored of it?"""

import functools
import os
import stat

from recordzoo.recipes.class_folders import find_name
from recordzoo.records.crc import crc32
from recordzoo.records.manifest import NO_SHARD, ORIGINAL
from recordzoo.records.reader import RecordReader
from recordzoo.system.files import open_through_links


class StoredContent:
    """The stored images of a record set, to be compared with files."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        image = reader.manifest.blobs.get("image")
        self._is_original = image is not None and image.encoding == "image" and reader.manifest.variant == ORIGINAL

    def is_content(self, name: str, path: str) -> bool | None:
        """Whether a file holds exactly what is stored of it; None if the set does not have it untouched.

        Args:
            name: Its name among the raw files: the record's own, or that behind some folders.
            path: Where it is.
        """
        position = self._position(name) if self._is_original else None
        if position is None:
            return None
        row = self._reader.array("image.index")[position]
        if row["shard"] == NO_SHARD:
            return None
        try:
            data = _read(path, int(row["length"]))
        except OSError:
            return False
        return data is not None and len(data) == row["length"] and crc32(data) == row["crc32"]

    def _position(self, name: str) -> int | None:
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
    """Read a regular file, a byte more than it should have; None for anything else, a FIFO among it."""
    fd = open_through_links(path)
    with open(fd, "rb") as file:
        return file.read(num_bytes + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else None
