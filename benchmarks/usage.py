"""CPU time and memory of this process and its descendants, from Linux's /proc; the page cache."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from recordzoo.base.files import DONT_NEED, advise

_PROC = Path("/proc")


def cpu_seconds() -> float | None:
    """Return the CPU seconds of this process and its living descendants; None if there is no /proc."""
    if sys.platform == "win32" or not _PROC.joinpath("self/stat").exists():
        return None
    ticks = 0
    for text in _family_files("stat"):
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # utime and stime, proc_pid_stat(5)
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes() -> int | None:
    """Return the memory in bytes of this process and its descendants; shared pages count once in total (PSS).

    None if there is no /proc.
    """
    if not _PROC.joinpath("self/smaps_rollup").exists():
        return None
    lines = [line for text in _family_files("smaps_rollup") for line in text.splitlines()]
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _family_files(name: str) -> Iterator[str]:
    """Yield a file of /proc for this process and its descendants; processes that have ended are skipped."""
    for pid in _family(os.getpid()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            yield (_PROC / str(pid) / name).read_text(encoding="utf-8", errors="replace")


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in children.read_text(encoding="ascii").split():
                yield from _family(int(child))


CAN_FORGET = advise is not None
"""Whether `forget` has an effect; False on macOS and Windows."""


def forget(paths: Iterable[Path]) -> None:
    """Drop files from the kernel's page cache, where the system can.

    Names, unwritten pages and pages that a process has mapped stay cached.
    """
    if advise is None:
        return
    for path in paths:
        with path.open("rb") as file:
            advise(file.fileno(), 0, 0, DONT_NEED)
