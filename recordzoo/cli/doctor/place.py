"""The file system below a directory: its kind, what is special about it, how much room there is."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from recordzoo.system.files import MOUNTS, list_mounts

CAVEATS: dict[str, str] = {
    "nfs": "a network file system: prepare once, on one node; copy record sets to a local disk for training if reading "
    "is slow",
    "smb": "a network file system: prepare once, on one machine; copy record sets to a local disk for training",
    "cluster": "a file system of a cluster: few large files suit it; prepare once, in one job",
    "overlay": "the file system of a container: what is written is lost with it; mount a volume for the data",
    "fuse": "a file system of a program: mapping files into memory may be slow, or fail",
    "memory": "kept in memory: record sets take memory here, count against the container's limit, and are gone after a "
    "restart",
    "windows": "a disk of Windows seen from Linux: slow for many small files; keep raw trees and record sets in the "
    "Linux file system",
    "fat": "without permissions and links; FAT32 has no files of 4 GB or more, so pass --shard-size 1G",
}
_KINDS = {
    "nfs": ("nfs", "nfs4"),
    "smb": ("cifs", "smb3", "smbfs"),
    "cluster": ("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "panfs", "wekafs"),
    "overlay": ("overlay", "aufs", "overlayfs"),
    "memory": ("tmpfs", "ramfs"),
    "windows": ("drvfs", "9p", "v9fs"),
    "fat": ("vfat", "exfat", "msdos"),
}
_LMDB_ROOM = 16 << 20
_PATIENCE_S = 20
_NO_LMDB = 9
_LMDB_TEST = f"""
import sys
try:
    import lmdb
except Exception:
    sys.exit({_NO_LMDB})
with lmdb.open(sys.argv[1], map_size=1 << 20, subdir=False) as database:
    with database.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
    with database.begin() as transaction:
        if transaction.get(b"key") != b"value":
            sys.exit("it reads other bytes than it wrote")
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory and the volume that it is on.

    Attributes:
        path: The directory, absolute.
        file_system: Its kind, as the system calls it: "ext4"; None where it does not tell.
        mounted_at: Where the volume is mounted; None as above.
        caveat: What is special about it; "" for nothing.
        total_bytes: Size of the volume.
        free_bytes: How much of it is free for this user.
        is_writable: Whether files can be made in the directory.
        problem: Why LMDB does not work in it; "" if it does, or there is no room to try.
    """

    path: Path
    file_system: str | None
    mounted_at: str | None
    caveat: str
    total_bytes: int
    free_bytes: int
    is_writable: bool
    problem: str = ""


def place(folder: Path, mounts: Path = MOUNTS) -> Place:
    """Look at a directory that exists.

    Args:
        folder: The directory.
        mounts: Linux's list of mounted volumes.

    Raises:
        OSError: It is gone.
    """
    path = Path(os.path.realpath(folder))
    kind, mounted_at = find_mount(path, mounts)
    room = shutil.disk_usage(path)
    is_writable = _is_writable(path)
    problem = _lmdb_problem(path) if is_writable and room.free >= _LMDB_ROOM else ""
    return Place(path, kind, mounted_at, caveat(kind), room.total, room.free, is_writable, problem)


def find_mount(path: Path, mounts: Path) -> tuple[str | None, str | None]:
    """Return the kind of file system on which a path is, and where it is mounted; None where that is not known."""
    best: tuple[str | None, str | None] = (None, None)
    for mount in list_mounts(mounts):  # of two volumes at one place the later lies over the earlier
        if path.is_relative_to(mount.place) and len(mount.place) >= len(best[1] or ""):
            best = mount.kind, mount.place
    return best


def caveat(kind: str | None) -> str:
    """Say what is special about a kind of file system; "" for nothing."""
    if kind is None:
        return ""
    if kind.startswith("fuse"):
        return CAVEATS["fuse"]
    return next((CAVEATS[group] for group, kinds in _KINDS.items() if kind in kinds), "")


def _is_writable(path: Path) -> bool:
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=path):
        return True
    return False


def _lmdb_problem(path: Path) -> str:
    """Write and read a small database: mapping files into memory does not work on every file system.

    It is done in a process of its own, which a fault of the file system may kill.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".recordzoo-doctor-", dir=path) as folder:
            words = [sys.executable, "-c", _LMDB_TEST, os.path.join(folder, "test.lmdb")]
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"LMDB did not write here within {_PATIENCE_S} seconds"
    except OSError as err:
        return f"LMDB cannot be tried here ({err.strerror})"
    if done.returncode == _NO_LMDB:  # said elsewhere
        return ""
    last = (done.stderr.strip() or f"signal {-done.returncode}").splitlines()[-1]
    return f"LMDB cannot write here ({last})" if done.returncode else ""
