"""`Output`: a record set to publish, and where it is built."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

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
    """A directory that is published by one rename.

    Attributes:
        path: Its final path, absolute.
        elsewhere: How to choose another place, as part of a sentence.
        is_resumable: Whether the same command resumes an interrupted build.
    """

    path: Path
    elsewhere: str = RECORDS_DIR
    is_resumable: bool = True


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
