"""Packages that make recordzoo faster: the Pythons and machines with wheels, and how to install them."""

import platform
import sys
from collections.abc import Iterable
from typing import NamedTuple

_PIP = "pip install --upgrade "

_ELSEWHERE = {"turbojpeg": "the system's package of libjpeg-turbo 3"}

_ALL = ("linux x86_64", "linux aarch64", "darwin x86_64", "darwin arm64", "win32 AMD64")

_BEFORE: dict[str, dict[str, tuple[int, int]]] = {
    "numba": dict.fromkeys((name for name in _ALL if name != "darwin x86_64"), (3, 16)),
    "turbojpeg": {"darwin arm64": (3, 13)} | dict.fromkeys(("linux x86_64", "darwin x86_64", "win32 AMD64"), (3, 14)),
    "simplejpeg": dict.fromkeys(_ALL, (3, 15)),
    "isal": dict.fromkeys(_ALL, (3, 16)),
}
"""Package -> system and machine -> the first Python without a wheel, as in the markers of pyproject.toml."""


class Interpreter(NamedTuple):
    """A Python and its machine, as values of environment markers."""

    implementation: str
    system: str
    machine: str
    version: tuple[int, int]


def has_wheel(package: str, interpreter: Interpreter) -> bool:
    """Whether recordzoo, or its extra `fast`, installs a package of `_BEFORE` there."""
    before = _BEFORE[package].get(f"{interpreter.system} {interpreter.machine}")
    return interpreter.implementation == "cpython" and before is not None and interpreter.version < before


def how_to_install(package: str) -> str:
    """Return the command that installs or repairs a package here; without a wheel, where to look for it."""
    here = Interpreter(sys.implementation.name, sys.platform, platform.machine(), sys.version_info[:2])
    if has_wheel(package, here):
        return _PIP + package
    return _ELSEWHERE.get(
        package, f"{package} from conda-forge or its source (it has no wheel for this Python and machine)"
    )


def together(ways: Iterable[str]) -> str:
    """Join results of `how_to_install` and others: one pip command for all packages that have wheels."""
    ways = list(dict.fromkeys(ways))
    packages = [way.removeprefix(_PIP) for way in ways if way.startswith(_PIP)]
    others = [way for way in ways if not way.startswith(_PIP)]
    return ", and ".join([_PIP + " ".join(packages), *others] if packages else others)
