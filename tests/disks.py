"""Disks that fail: volumes of their own, small or read-only, and system calls that give an error."""

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.preparing import REPOSITORY


@dataclass(frozen=True)
class Volume:
    """A volume that only processes of one mount namespace see.

    Attributes:
        path: Where everybody finds it, also from outside of the namespace.
        mounted_at: Where it is for processes inside.
        enter: A command that runs another one inside.
    """

    path: Path
    mounted_at: Path
    enter: tuple[str, ...]

    def fill(self, leave: int) -> Path:
        """Let another file take all room but so much, and return it."""
        ballast = self.path / "ballast"
        with open(ballast, "wb") as file:
            while (free := shutil.disk_usage(self.path).free) > leave:
                with contextlib.suppress(OSError):  # others took some of it meanwhile
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free - leave)
        return ballast

    def remount(self, options: str) -> None:
        """Change how it is mounted: "ro", "rw"."""
        subprocess.run([*self.enter, "mount", "-o", f"remount,{options}", self.mounted_at], check=True)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Volume]:
    """Mount a tmpfs at a new folder, as root or in a user namespace; a process holds it, and it goes with that one."""
    with _held(folder, f"mount -t tmpfs -o {options} none {folder}") as volume:
        yield volume


@contextlib.contextmanager
def overlaid(folder: Path, lower: Path) -> Iterator[Volume]:
    """Mount an overlay at a new folder, as Docker does for a container: what is in `lower` is its image's layer."""
    upper, work = (folder.with_name(f"{folder.name}.{name}") for name in ("upper", "work"))
    upper.mkdir()
    work.mkdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounts = [f"mount -t overlay -o {options},userxattr none {folder}", f"mount -t overlay -o {options} none {folder}"]
    with _held(folder, " || ".join(mounts)) as volume:
        yield volume


@contextlib.contextmanager
def _held(folder: Path, mount: str) -> Iterator[Volume]:
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("unshare and nsenter are not installed")
    folder.mkdir()
    script = f"{mount} && echo mounted && exec cat"
    for unshare, enter in ((["unshare", "-rm"], ("-U", "--preserve-credentials", "-m")), (["unshare", "-m"], ("-m",))):
        with subprocess.Popen(
            [*unshare, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            if holder.stdout.readline() == b"mounted\n":
                inside = Path(f"/proc/{holder.pid}/root{folder}")
                if not os.path.ismount(inside):
                    holder.kill()
                    pytest.skip("the mount namespace of another process cannot be looked into here")
                yield Volume(inside, folder, ("nsenter", "-t", str(holder.pid), *enter, f"--wdns={REPOSITORY}"))
                holder.stdin.close()
                return
            holder.kill()
    pytest.skip("no volume can be mounted here, neither as root nor in a user namespace")


@functools.cache
def strace() -> str:
    """Return where strace is; a test that needs it is skipped where there is none."""
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed")
    if subprocess.run([path, "-qq", "-o", os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    return path


def failing(calls: str, error: str, when: str = "1+", path: Path | None = None) -> tuple[str, ...]:
    """Return a command that runs another one, in which system calls fail.

    Args:
        calls: Their names, with commas between.
        error: The name of the error.
        when: Which of them, counted in each process: "2", "3+".
        path: Only those of this file or directory.
    """
    only = ("-P", str(path)) if path else ()
    return (strace(), "-f", "-qq", "-o", os.devnull, *only, "-e", f"inject={calls}:error={error}:when={when}")
