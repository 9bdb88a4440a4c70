"""`Output`: a file or directory to publish, and where it is built."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import is_link

RECORDS_DIR = "pass another records_dir (--output)"
"""How to choose another place for a preparation, for messages."""

ANOTHER_PATH = "write to another path"
"""How to choose another place for a function that writes a record set, for messages."""

SET = "set"
"""In a build: the unfinished output."""

PLAN_NAME = "plan.json"
"""In a build: the description of the output. A build is continued only with the same plan."""

LOCK = "lock"
"""In a build: the file that the process that builds holds."""


@dataclass(frozen=True)
class Output:
    """A file or a directory that is published by one rename.

    Attributes:
        path: Its final path, absolute.
        is_whole: Returns whether a path is a complete output of this kind.
        marker: The file that identifies the directory as an output; written last.
        file: If the output is one file, its name in the build.
        elsewhere: How to choose another place, as part of a sentence.
        is_resumable: Whether the same command resumes an interrupted build.
    """

    path: Path
    is_whole: Callable[[Path], bool] = is_record_set
    marker: str = MANIFEST_NAME
    file: str = ""
    elsewhere: str = RECORDS_DIR
    is_resumable: bool = True

    @property
    def is_there(self) -> bool:
        """Whether it is published."""
        return self.is_whole(self.path)


def behind_links(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of an output. Links are resolved: renaming a link does not move its directory."""
    place = Path(path).expanduser().absolute()
    return Path(os.path.realpath(place)) if is_link(place) else place


def build_path(path: Path) -> Path:
    """Return the build directory of an output, `NAME.build`. It may not exist."""
    return path.with_name(f"{path.name}.build")


def written_bytes(build: Path) -> int:
    """Return the size of all files in a build directory, in bytes."""
    total = 0
    for folder, _, names in os.walk(build):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
