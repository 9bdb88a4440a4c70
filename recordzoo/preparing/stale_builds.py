"""Build directories that are there, whoever they belong to: found, judged dead or alive, tidied away."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo import durable, settings
from recordzoo.owner import Owner
from recordzoo.preparing.journal import JOURNAL_NAME, plan_digest, read_plan
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import rename

FREE = "free-"
"""How the name of a build begins, behind the set's, that is nobody's."""

SET = "set"
"""In a build: the record set, while it is put together; whole as soon as it has a manifest."""

REPLACING = "replacing"
"""In a build: the published set is being removed, to be replaced by this build's."""

OLD = "old"
"""In a build: the published set, in the moment in which it is exchanged without a system call for that."""


@dataclass(frozen=True, slots=True)
class Found:
    """Somebody's build directory beside the place where the record set will be."""

    path: Path
    owner: Owner | None

    @property
    def age_s(self) -> float:
        """Seconds since its builder last said that it lives."""
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
        """How much of the record set is written."""
        return sum(_size(path) for path in self.path.rglob("*") if path.suffix in (".lmdb", ".tmp"))

    @property
    def description(self) -> str:
        """Who builds and when they last said so."""
        who = self.owner.description if self.owner else "nobody"
        return f"{who} (heard {self.age_s:.0f} s ago)"


def silence_s(path: Path, folder: Path) -> float:
    """Return for how long a file that is touched while somebody lives was not.

    A time that lies in the future (the server's clock was put back, a copy kept its times) says as little as one as
    far in the past: whoever lives touches the file again within seconds.

    Args:
        path: The file.
        folder: Where `server_time` may be asked for.

    Raises:
        OSError: It is not there.
    """
    return abs(server_time(folder) - path.stat().st_mtime)


def server_time(folder: Path) -> float:
    """Return what time it is by the clock that stamps the files of a folder; on a network drive that is not ours.

    Where nothing may be written there, it is the time of this machine.
    """
    with contextlib.suppress(OSError), tempfile.TemporaryFile(prefix=".recordzoo-clock-", dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
    return time.time()


def find_builds(target: Path) -> list[Found]:
    """List the build directories for a record set, whoever they belong to."""
    prefix = f"{target.name}.build."
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        for entry in entries:
            rest = entry.name.removeprefix(prefix)
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                owner = Owner.parse(rest)
                if owner is not None or rest.startswith(FREE):
                    found.append(Found(Path(entry.path), owner))
    return sorted(found, key=lambda build: build.path.name)


def remove_dead(target: Path) -> None:
    """Remove builds that nobody needs any more because the set is published."""
    for found in find_builds(target):
        if found.is_dead:
            shutil.rmtree(found.path, ignore_errors=True)


def put_back(target: Path) -> None:
    """End or undo an exchange of two sets that was interrupted, so that there is one."""
    for found in find_builds(target):
        if not found.is_dead or is_record_set(target):
            continue
        with contextlib.suppress(OSError):
            if (found.path / REPLACING).exists():
                remove_set(target)
                rename(found.path / SET, target)
            elif not target.exists():
                rename(found.path / OLD, target)


def is_half_removed(target: Path) -> bool:
    """Whether what lies at a record set's place is one whose removal was interrupted: `put_back` helps."""
    return any((found.path / REPLACING).exists() for found in find_builds(target))


def remove_set(path: Path) -> None:
    """Remove a record set, its manifest first: what is left is none for anybody.

    Raises:
        OSError: It cannot be removed.
    """
    durable.remove(path / MANIFEST_NAME)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def resumable_bytes(target: Path, plan: Mapping[str, Any]) -> int:
    """Return the size of the shards that a dead build with this plan has already."""
    for found in sorted(find_builds(target), key=journal_bytes, reverse=True):
        known = read_plan(found.path) if found.is_dead else None
        if known is not None and plan_digest(known) == plan_digest(plan):
            return sum(_size(path) for path in found.path.rglob("*.lmdb"))
    return 0


def journal_bytes(found: Found) -> int:
    """Return how long its journal is: how far it came."""
    return _size(found.path / JOURNAL_NAME)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
