"""A file that holds values between the moment in which they are found and that in which their shard is written."""

import tempfile
from pathlib import Path


class Spool:
    """Values by what they are known by, in a nameless file: those of a shard may be larger than the memory.

    Args:
        folder: Where the file lies; it has no name there, and is gone with the process.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it
        self._places: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._end = 0

    def __contains__(self, kind: tuple[str, int, int]) -> bool:
        return kind in self._places

    def __len__(self) -> int:
        return len(self._places)

    def put(self, kind: tuple[str, int, int], data: bytes) -> None:
        """Keep a value.

        Raises:
            OSError: The disk is full, or failed.
        """
        self._file.seek(self._end)
        self._file.write(data)
        self._places[kind] = self._end, len(data)
        self._end += len(data)

    def get(self, kind: tuple[str, int, int]) -> bytes:
        """Return a value that was put.

        Raises:
            KeyError: It was not.
        """
        offset, length = self._places[kind]
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        """Forget all of it."""
        self._file.close()
