"""`Output`: a file or directory to publish; and the build directories of all processes beside it."""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base import settings
from recordzoo.base.owner import Owner
from recordzoo.publish.heartbeat import silence_s
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import is_link

RECORDS_DIR = "pass another records_dir (--output)"
"""How to choose another place for a preparation, for messages."""

ANOTHER_PATH = "write to another path"
"""How to choose another place for a function that writes a record set, for messages."""

FREE = "free-"
"""Prefix of the owner in a build's name after its process released the build."""

SET = "set"
"""In a build: the unfinished output."""


@dataclass(frozen=True)
class Output:
    """A file or a directory that is published by one rename.

    Attributes:
        path: Its final path, absolute.
        is_whole: Returns whether a path is a complete output of this kind.
        marker: The file that identifies the directory as an output; written last, removed first.
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


@dataclass(frozen=True, slots=True)
class Found:
    """A build directory beside an output's path."""

    path: Path
    owner: Owner | None

    @property
    def age_s(self) -> float:
        """Seconds since its process last touched the heartbeat."""
        for name in ("heartbeat", ""):
            with contextlib.suppress(OSError):
                return silence_s(self.path / name, self.path.parent)
        return float("inf")

    @property
    def is_dead(self) -> bool:
        """Whether it may be taken over: released, its process provably gone, or silent for too long."""
        return self.owner is None or self.owner.is_gone() or self.age_s > settings.stale_s()

    @property
    def written_bytes(self) -> int:
        """The size of its files in bytes."""
        return written_bytes(self.path)


def written_bytes(build: Path) -> int:
    """Return the size of all files in a build directory, in bytes."""
    total = 0
    for folder, _, names in os.walk(build):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def find_builds(path: Path) -> list[Found]:
    """List the build directories of an output, of all processes."""
    prefix = f"{path.name}.build."
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(path.parent) as entries:
        for entry in entries:
            rest = entry.name.removeprefix(prefix)
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                owner = Owner.parse(rest)
                if owner is not None or rest.startswith(FREE):
                    found.append(Found(Path(entry.path), owner))
    return sorted(found, key=lambda build: build.path.name)


def dead_builds(path: Path) -> list[Found]:
    """List the builds that may be taken over, the largest first."""
    dead = [found for found in find_builds(path) if found.is_dead]
    return sorted(dead, key=lambda found: found.written_bytes, reverse=True)


def remove_dead(path: Path) -> None:
    """Remove the builds that may be taken over, once the output is published."""
    for found in find_builds(path):
        if found.is_dead:
            shutil.rmtree(found.path, ignore_errors=True)
