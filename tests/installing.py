"""The sdist and the wheel, built and installed in environments that have nothing of the clone."""

import contextlib
import os
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from hatchling import build

from tests.preparing import REPOSITORY


@dataclass(frozen=True)
class Built:
    sdist: Path
    unpacked: Path
    wheel: Path


def built(folder: Path) -> Built:
    """Build the sdist, unpack it, and build the wheel from that, as `python -m build` does."""
    with contextlib.chdir(REPOSITORY):
        sdist = folder / build.build_sdist(str(folder))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    with contextlib.chdir(unpacked):
        return Built(sdist, unpacked, folder / build.build_wheel(str(folder)))


def install(file: Path, folder: Path) -> Path:
    """Install a file into an empty environment, and return the folder of its commands.

    The environment sees the dependencies of this one, but not its recordzoo: a `.pth` names their folder, in which the
    `.pth` of an editable installation is not read.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(pytest.__file__).parent.parent))
    words = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index"]
    words += ["--no-build-isolation", "--disable-pip-version-check", "--quiet", "--force-reinstall", file]
    subprocess.run(words, env=outside(), check=True, timeout=120)
    assert (packages / "recordzoo" / "__init__.py").exists()
    return folder / "bin"


def outside() -> dict[str, str]:
    """The environment variables without a path to the clone."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def start(*words: str | Path, cwd: Path) -> str:
    """Run an installed program, and return what it printed."""
    result = subprocess.run(words, cwd=cwd, env=outside(), capture_output=True, text=True, check=False, timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
