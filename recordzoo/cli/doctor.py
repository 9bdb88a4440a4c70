"""`recordzoo doctor`: versions, missing packages, the disk, and what would help."""

import contextlib
import importlib
import importlib.metadata
import os
import platform
import shutil
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

    Packages with their versions and the commands that add missing ones; the free space of ROOT. The exit code is 0
    unless recordzoo cannot work.
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
        options.put("\n".join(lines))
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


_LOW_FREE = 5 << 30
_LOW_SHARED = 1 << 30


def disk(root: Path) -> Found:
    """Look at the free space of a directory's volume, and at the shared memory."""
    path = Path(os.path.realpath(root))
    room, is_writable = shutil.disk_usage(path), _is_writable(path)
    found = Found(
        {
            "root": f"{path}{'' if is_writable else ' (may not be written to)'}",
            "free": f"{format_bytes(room.free)} of {format_bytes(room.total)}",
        }
    )
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


def _is_writable(path: Path) -> bool:
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=path):
        return True
    return False
