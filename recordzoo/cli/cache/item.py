"""One thing that recordzoo wrote, and how large and how old it is."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """What it is."""

    SET = "record set"
    RAW = "raw file"
    BUILD = "interrupted build"
    DOWNLOAD = "interrupted download"
    BAD = "rejected download"
    REMAINS = "remains of a record set"
    LOCK = "stale lock"


LEFTOVERS = (Kind.BUILD, Kind.DOWNLOAD, Kind.BAD, Kind.REMAINS, Kind.LOCK)
"""What interrupted work left."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something on the disk that recordzoo wrote.

    Attributes:
        kind: What it is.
        path: Where it is, absolute; no link.
        name: A record set's name, or the dataset that it belongs to.
        size_bytes: Its size, with that of all files in it.
        last_used: About when it was read or written last, in seconds since 1970.
        used_by: Who works on it; it is then not deleted. "" for nobody.
        kept: Why `prune` leaves it, and `rm` asks twice: it could not be made again. "" if it could.
        foreign: Files in it that recordzoo did not write; it is then not deleted.
    """

    kind: Kind
    path: Path
    name: str
    size_bytes: int
    last_used: float
    used_by: str = ""
    kept: str = ""
    foreign: Sequence[str] = ()

    @property
    def obstacle(self) -> str:
        """Why no command deletes it; "" if it may be deleted."""
        if self.used_by:
            return f"{self.used_by} works on it"
        if self.foreign:
            names = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
            return f"it holds files that recordzoo did not write ({names}); move them away"
        return ""


def measure(paths: Iterable[Path], not_read: Iterable[str] = ()) -> tuple[int, float]:
    """Return the size of some files together, and about when one of them was read or written last.

    The newer of the times of reading and writing counts. Most systems note the time of reading once a day at most, and
    some not at all.

    Args:
        paths: The files; those that are gone are left out.
        not_read: Names of files whose time of reading does not count: this command reads them.
    """
    size, last, unread = 0, 0.0, set(not_read)
    for path in paths:
        with contextlib.suppress(OSError):
            facts = path.lstat()
            size += facts.st_size
            last = max(last, facts.st_mtime, 0.0 if path.name in unread else facts.st_atime)
    return size, last


def files_below(folder: Path) -> list[Path]:
    """List all files in and below a directory; links are listed, not followed."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]
