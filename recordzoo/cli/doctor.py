"""`recordzoo doctor`: versions, missing packages, the disk, and what would help."""

import contextlib
import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from recordzoo.base.files import SHARED_MEMORY
from recordzoo.base.progress import format_bytes
from recordzoo.base.settings import how_to_install, together
from recordzoo.base.text import PLATFORM, clean
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.errors import NotPreparedError


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check: facts to print, a reason why recordzoo does not work here, and remedies."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def doctor(
    root: Annotated[
        Path,
        options.directory_option(
            "Where record sets are, or would be; default: the current directory.", show_default=False
        ),
    ] = Path(),
    as_json: options.Json = False,
) -> int:
    """Check the installation and the disk, and say what would help.

    Packages with their versions and the commands that add missing ones; the file system of ROOT and its free space. The
    exit code is 0 unless recordzoo cannot work.
    """
    if not root.is_dir():
        raise NotPreparedError(f"--root {root} is not there.", path=str(root))
    checks = {"versions": versions, "optional packages": optional_packages, "disk": disk}
    found = {name: check(root) for name, check in checks.items()}
    problems = [text for each in found.values() for text in each.problems]
    advice = [text for each in found.values() for text in each.advice]
    if as_json:
        facts = {name: each.facts for name, each in found.items()}
        options.put_json({"ok": not problems, "checks": facts, "problems": problems, "advice": advice})
    else:
        lines = []
        for name, each in found.items():
            lines += [f"{name}:", *(f"  {key + ':':<14} {clean(text)}" for key, text in each.facts.items()), ""]
        lines += [f"broken: {clean(text)}" for text in problems] + [f"advice: {clean(text)}" for text in advice]
        lines += [] if problems else ["recordzoo works here."]
        options.put_text("\n".join(lines))
    return Exit.FAILED if problems else Exit.OK


class Package(NamedTuple):
    """A package, its module and purpose, and its install command. Default: that of `how_to_install`."""

    name: str
    module: str
    purpose: str = ""
    install: str = ""


ESSENTIAL = (*(Package(name, name) for name in ("torch", "torchvision", "lmdb", "numpy")), Package("pillow", "PIL"))
OPTIONAL = (
    Package("numba", "numba", "RecordLoader: decodes and resizes in compiled code"),
    Package("isal", "isal.isal_zlib", "checksums of values, 13 times as fast as zlib"),
    Package("simplejpeg", "simplejpeg", "whole JPEGs"),
    Package("pycocotools", "pycocotools.coco", "annotations of COCO", "pip install 'recordzoo[formats]'"),
    Package("distributed", "distributed", "conversion on a Dask cluster", "pip install 'recordzoo[dask]'"),
    Package("pyarrow", "pyarrow.parquet", "Hugging Face's datasets, Parquet", "pip install 'recordzoo[formats]'"),
)
_SPEED = ("libjpeg-turbo", "numba", "isal")


def versions(_: Path) -> Found:
    """Import the essential packages. Takes seconds, because of torch."""
    from recordzoo import __version__

    python = f"{platform.python_version()} ({PLATFORM}, {platform.machine()})"
    found = Found({"recordzoo": __version__, "Python": python})
    for package in ESSENTIAL:
        version, problem = _imported(package)
        found.facts[package.name] = version or "missing"
        if version is None:
            found.problems.append(f"{package.name} is not installed: pip install {package.name}")
        elif problem:
            found.problems.append(f"{package.name} {version} cannot be imported: {problem}")
    return found


def optional_packages(_: Path) -> Found:
    """Import the optional packages, and look for libjpeg-turbo."""
    turbo, there = _turbojpeg()
    missing, found = {}, Found()
    for package in (turbo, *OPTIONAL):
        version, problem = _imported(package) if package is not turbo else (there, "")
        is_there = version and not problem
        install = "" if is_there else package.install or how_to_install(package.name)
        found.facts[package.name] = f"{version if is_there else f'missing: {install}'} ({package.purpose})"
        if problem:
            found.advice.append(f"{package.name} {version} cannot be imported: {problem}")
        if install and package.name in _SPEED:
            missing[package.name] = install
    if missing:
        found.advice.insert(0, f"For faster reading add {', '.join(missing)}: {together(missing.values())}")
    return found


def _imported(package: Package) -> tuple[str | None, str]:
    """Return a package's version, None if it is not installed; and why it cannot be imported, "" if it can."""
    try:
        version = importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        return None, ""
    try:
        importlib.import_module(package.module)
    except Exception as err:  # noqa: BLE001 - a broken package may raise anything
        return version, f"{type(err).__name__}: {err}".split("\n")[0]
    return version, ""


def _turbojpeg() -> tuple[Package, str]:
    """Look for the library libjpeg-turbo 3; return its version and origin, too, "" if it is missing."""
    version, install = "", ""
    try:
        from recordzoo.images.turbojpeg import how_to_install_library, library

        version = str(library() or "").removeprefix("libjpeg-turbo ")
        install = "" if version else how_to_install_library()
    except Exception as err:  # noqa: BLE001 - NumPy is missing or broken, which is said elsewhere
        install = f"not looked for: {err}"
    return Package("libjpeg-turbo", "", "RecordLoader: decodes only the part of a JPEG that is used", install), version


_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_LOW_FREE = 5 << 30
_LOW_SHARED = 1 << 30
_LMDB_ROOM = 16 << 20
_LMDB_TIMEOUT_S = 20
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
_CAVEATS = {
    "nfs nfs4 cifs smb3 smbfs": "a network file system: prepare once, on one machine; copy record sets to a local disk "
    "for training if reading is slow",
    "lustre gpfs beegfs ceph glusterfs panfs wekafs": "a file system of a cluster: few large files suit it; prepare "
    "once, in one job",
    "overlay aufs overlayfs": "the file system of a container: what is written is lost with it; mount a volume for the "
    "data",
    "fuse": "a file system of a program: mapping files into memory may be slow, or fail",
    "tmpfs ramfs": "kept in memory: record sets take memory here, count against the container's limit, and are gone "
    "after a restart",
    "drvfs 9p v9fs": "a disk of Windows seen from Linux: slow for many small files; keep raw trees and record sets in "
    "the Linux file system",
    "vfat exfat msdos": "without permissions and links; FAT32 has no files of 4 GB or more, so pass --shard-size 1G",
}
"""Remarks on types of file systems."""


def disk(root: Path) -> Found:
    """Look at the file system of a directory (type, free space, whether LMDB works on it) and at the shared memory."""
    path = Path(os.path.realpath(root))
    kind, mounted_at = find_mount(path)
    room, is_writable = shutil.disk_usage(path), _is_writable(path)
    found = Found(
        {
            "root": f"{path}{'' if is_writable else ' (may not be written to)'}",
            "file system": "not known" if kind is None else f"{kind}, mounted at {mounted_at}",
            "free": f"{format_bytes(room.free)} of {format_bytes(room.total)}",
        }
    )
    if is_writable and room.free >= _LMDB_ROOM and (problem := lmdb_problem(path)):
        found.problems.append(f"{path}: {problem}. Keep record sets on another volume.")
    if special := caveat(kind):
        found.advice.append(f"{path} is on {kind}: {special}.")
    if not is_writable:
        found.advice.append(f"{path} may not be written to: pass --root with a directory that may.")
    elif room.free < _LOW_FREE:
        found.advice.append(
            f"{path} has {format_bytes(room.free)} free; `recordzoo cache ls` shows what can be deleted."
        )
    if SHARED_MEMORY.exists():
        shared = shutil.disk_usage(SHARED_MEMORY).total
        found.facts["shared memory"] = format_bytes(shared)
        if shared < _LOW_SHARED:
            found.advice.append(
                f"The shared memory has {format_bytes(shared)}: workers of DataLoader may die of a bus error. "
                "Start the container with --shm-size 8g, or use RecordLoader, which has threads."
            )
    return found


def find_mount(path: Path, mounts: Path = _MOUNTS) -> tuple[str | None, str | None]:
    """Return the type and mount point of a path's file system; None if unknown, as on other systems than Linux."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None, None
    best: tuple[str | None, str | None] = (None, None)
    for line in lines:  # proc_pid_mountinfo(5); if two volumes have one mount point, the later one is visible
        mount, _, volume = line.partition(" - ")
        columns = mount.split(" ")
        if len(columns) >= 5 and volume:
            place = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), columns[4])
            if path.is_relative_to(place) and len(place) >= len(best[1] or ""):
                best = volume.partition(" ")[0], place
    return best


def caveat(kind: str | None) -> str:
    """Return the remark on a type of file system; "" for none."""
    known = "fuse" if kind and kind.startswith("fuse") else kind
    return next((text for kinds, text in _CAVEATS.items() if known in kinds.split()), "")


def _is_writable(path: Path) -> bool:
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=path):
        return True
    return False


def lmdb_problem(path: Path) -> str:
    """Write and read a small database in a child process, which the file system may kill; "" if that works."""
    try:
        with tempfile.TemporaryDirectory(prefix=".recordzoo-doctor-", dir=path) as folder:
            words = [sys.executable, "-c", _LMDB_TEST, os.path.join(folder, "test.lmdb")]
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_LMDB_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"LMDB did not write here within {_LMDB_TIMEOUT_S} seconds"
    except OSError as err:
        return f"LMDB cannot be tried here ({err.strerror})"
    if done.returncode in (0, _NO_LMDB):  # a missing package is said elsewhere
        return ""
    last = (done.stderr.strip() or f"signal {-done.returncode}").splitlines()[-1]
    return f"LMDB cannot write here ({last})"
