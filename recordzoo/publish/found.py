"""Build directories beside an output, whoever they belong to: found, judged dead or alive, removed."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo import settings
from recordzoo.owner import Owner
from recordzoo.publish.plan import plan_digest, read_plan

FREE = "free-"
"""How the owner's part of a build's name begins if the build belongs to nobody."""

SET = "set"
"""In a build: the output, while it is put together."""


@dataclass(frozen=True, slots=True)
class Found:
    """A build directory beside the place of an output."""

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
        """How much is written."""
        return written_bytes(self.path)


def written_bytes(build: Path) -> int:
    """Return the size of all files in a build directory."""
    total = 0
    for folder, _, names in os.walk(build):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def silence_s(path: Path, folder: Path) -> float:
    """Return how many seconds ago a living process last touched a file.

    A time in the future (the server's clock was put back, a copy kept its times) says as little as one equally far in
    the past: a living process touches the file again within seconds.

    Args:
        path: The file.
        folder: Where `server_time` may be asked for.

    Raises:
        OSError: It is not there.
    """
    return abs(server_time(folder) - path.stat().st_mtime)


def server_time(folder: Path) -> float:
    """Return what time it is by the clock that stamps the files of a folder; on a network drive, the server's.

    In a folder that may not be written to it is the time of this machine.
    """
    with contextlib.suppress(OSError), tempfile.TemporaryFile(prefix=".recordzoo-clock-", dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
    return time.time()


def find_builds(path: Path) -> list[Found]:
    """List the build directories of an output, whoever they belong to."""
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


def resumable_bytes(path: Path, plan: Mapping[str, Any]) -> int:
    """Return how much is written of the dead build that has this plan; 0 if there is none."""
    for found in dead_builds(path):
        known = read_plan(found.path)
        if known is not None and plan_digest(known) == plan_digest(plan):
            return found.written_bytes
    return 0


def remove_dead(path: Path) -> None:
    """Remove the builds that may be taken over: the output is published, and nobody needs them."""
    for found in find_builds(path):
        if found.is_dead:
            shutil.rmtree(found.path, ignore_errors=True)
