"""Cores, memory and limits: of the machine, of the process, and of the container around it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo.system import processes, usage

_UNLIMITED = 1 << 60
"""A limit of memory of this or more is none: the first version of cgroups writes a huge number."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process may use; None is what is not limited, or not known here.

    Attributes:
        cores: Cores of the machine.
        usable_cores: Those that this process may run on.
        quota_cores: How many cores' time the container gives it.
        memory_bytes: Memory of the machine.
        memory_limit_bytes: How much of it the container gives.
        shared_memory_bytes: Size of /dev/shm, through which DataLoader's workers send batches.
        open_files: How many files a process may have open.
    """

    cores: int | None
    usable_cores: int
    quota_cores: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    shared_memory_bytes: int | None
    open_files: int | None


def machine(root: Path = Path("/")) -> Machine:
    """Ask the system.

    Args:
        root: Where /proc, /sys and /dev are, for tests.
    """
    shared = root / "dev/shm"
    return Machine(
        cores=os.cpu_count(),
        usable_cores=processes.cores(),
        quota_cores=_quota_cores(root),
        memory_bytes=usage.machine_memory_bytes(),
        memory_limit_bytes=_memory_limit(root),
        shared_memory_bytes=shutil.disk_usage(shared).total if shared.is_dir() else None,
        open_files=processes.max_open_files(),
    )


def _quota_cores(root: Path) -> float | None:
    found = []
    for folder in _groups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            if quota != "max" and int(quota) > 0:
                found.append(int(quota) / int(period))
    return min(found, default=None)


def _memory_limit(root: Path) -> int | None:
    found = []
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                found.append(int((folder / name).read_text()))
    return min((limit for limit in found if limit < _UNLIMITED), default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups, from its own up: the smallest limit of them counts."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names and controller not in names.split(","):
                continue
            top = root / "sys/fs/cgroup" / names
            group = top / path.lstrip("/")
            yield group
            while group != top and top in group.parents:  # in a container the path may be that of the host
                group = group.parent
                yield group
