"""Environment variables; the program's name; which packages are there; the list of prepared directories."""

import contextlib
import importlib.util
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from recordzoo.base.text import public_url, quote, user_folder
from recordzoo.errors import ArgumentError, PrepareError

_PROGRAM = "recordzoo"
_program = _PROGRAM


def command(*words: str | os.PathLike[str]) -> str:
    """Format a command line of recordzoo, quoted for a shell.

    >>> command("prepare", "my photos")
    "recordzoo prepare 'my photos'"
    """
    return " ".join([_program, *(quote(os.fspath(word)) for word in words)])


def set_program(started_as: str, python: str) -> None:
    """Set the program that `command` writes: "recordzoo" if a shell finds this very program, else the Python with -m.

    Args:
        started_as: ``sys.argv[0]``.
        python: ``sys.executable``.
    """
    global _program
    found = shutil.which(_PROGRAM) or ""
    is_this = os.path.exists(started_as) and os.path.exists(found) and os.path.samefile(found, started_as)
    is_found = is_this or os.path.dirname(found) == os.path.dirname(python)
    _program = _PROGRAM if is_found else f"{quote(python)} -m {_PROGRAM}"


_YES = ("1", "yes", "true", "on")
_NO = ("", "0", "no", "false", "off")


def mirror(given: str | None = None) -> str | None:
    """Base URL tried before the official hosts, as ``<mirror>/<dataset>/<file>`` (``RECORDZOO_MIRROR``)."""
    text = given or os.environ.get("RECORDZOO_MIRROR", "")
    if text and not text.lower().startswith(("https://", "http://")):
        what = "Argument mirror (--mirror)" if given else "The environment variable RECORDZOO_MIRROR"
        raise ArgumentError(f"{what} is {public_url(text)!r}; it must be an https:// or http:// address.")
    return text.rstrip("/") or None


def auto_prepare_bytes() -> float:
    """Limit on the raw bytes that a constructor converts unasked (``RECORDZOO_AUTO_PREPARE_GB``, 20; 0 = never)."""
    return _number("RECORDZOO_AUTO_PREPARE_GB", 20.0) * 1e9


def timeout_s() -> float:
    """Seconds that a server may be silent, or take to send its headers (``RECORDZOO_TIMEOUT``, 30)."""
    return _number("RECORDZOO_TIMEOUT", 30.0)


def min_bytes_per_s() -> float:
    """Minimum speed of a server, in bytes per second over `timeout_s` (``RECORDZOO_MIN_SPEED``, 100; 0 = any)."""
    return _number("RECORDZOO_MIN_SPEED", 100.0)


def roots_file() -> Path | None:
    """List of prepared directories, for `cache` (``RECORDZOO_STATE``, in the user's folder; off = no list)."""
    if os.environ.get("RECORDZOO_STATE", "").lower() in _NO[1:]:  # not "", the default
        return None
    with contextlib.suppress(RuntimeError):  # there is no home directory
        return _folder("RECORDZOO_STATE", "state", "") / "roots.jsonl"
    return None


def cache_folder() -> Path:
    """Cache folder for record sets at URLs (``RECORDZOO_CACHE_DIR``, recordzoo/sets in the user's cache)."""
    return _folder("RECORDZOO_CACHE_DIR", "cache", "sets")


def cache_bytes() -> int | None:
    """Size limit of the cache in bytes, such as 200e9 (``RECORDZOO_CACHE_BYTES``, half of the volume's free space)."""
    return int(_number("RECORDZOO_CACHE_BYTES", 0)) if os.environ.get("RECORDZOO_CACHE_BYTES") else None


def ranks_here() -> int:
    """Number of training processes on this machine (``LOCAL_WORLD_SIZE``, which torchrun sets; 1)."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else 1


def offline() -> bool:
    """Whether downloads are forbidden (``RECORDZOO_OFFLINE``)."""
    return _is_on("RECORDZOO_OFFLINE")


def compile_mode() -> str:
    """When image code is compiled: ``background``, ``wait`` or ``off`` (``RECORDZOO_COMPILE``, background)."""
    text = os.environ.get("RECORDZOO_COMPILE") or "background"
    if text not in ("background", "wait", "off"):
        raise ArgumentError(
            f"The environment variable RECORDZOO_COMPILE is {text!r}; it must be background, wait or off."
        )
    return text


def quiet() -> bool:
    """Whether a constructor shows no progress on stderr while it downloads and converts (``RECORDZOO_QUIET``)."""
    return _is_on("RECORDZOO_QUIET")


def _folder(variable: str, kind: Literal["state", "cache"], name: str) -> Path:
    text = os.environ.get(variable, "")
    folder = Path(text).expanduser() if text else user_folder(kind) / "recordzoo" / name
    if not folder.is_absolute():
        raise ArgumentError(f"The environment variable {variable} is {text!r}; it must be an absolute path.")
    return folder


def _is_on(variable: str) -> bool:
    text = os.environ.get(variable, "")
    if text.lower() not in (*_YES, *_NO):
        raise ArgumentError(f"The environment variable {variable} is {text!r}; it must be 1 or 0.")
    return text.lower() in _YES


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentError(f"The environment variable {variable} is {text!r}; it must be a number, 0 or more.")
    return value


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def need(package: str, use: str, extra: str = "formats") -> None:
    """Raise before any work if a package is not installed.

    Args:
        package: The package.
        use: The purpose, for the message: "TFRecord is read".
        extra: The extra of recordzoo that installs it.

    Raises:
        PrepareError: It is not installed.
    """
    if not is_installed(package):
        raise PrepareError(
            f"{use} with {package}, which is not installed. Run: pip install 'recordzoo[{extra}]'", package=package
        )


_MAX_BYTES = 1 << 20


def known_roots() -> list[Path]:
    """Return the listed directories that still exist, in the order of their first use."""
    return [Path(text) for text in dict.fromkeys(_lines()) if os.path.isabs(text) and os.path.isdir(text)]


def remember_root(folder: Path) -> None:
    """Add a directory to the list, unless it is listed; a failure is ignored."""
    with contextlib.suppress(OSError, ValueError):  # includes ArgumentError: the finished work must not fail here
        path, text = roots_file(), os.path.abspath(folder)
        if path is None or text in _lines() or (path.exists() and path.stat().st_size > _MAX_BYTES // 2):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(text).encode() + b"\n"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(fd, "ab", buffering=0) as file:  # one write: lines of several processes do not mix
            file.write(line)


def _lines() -> list[str]:
    """Read the list; damaged lines are skipped."""
    path, found = roots_file(), list[str]()
    if path is None or not path.is_file():
        return []
    with contextlib.suppress(OSError), path.open("rb") as file:
        for line in file.read(_MAX_BYTES).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                text = json.loads(line)
                if isinstance(text, str) and "\0" not in text:
                    found.append(text)
    return found


_PIP = "pip install --upgrade "


def how_to_install(package: str) -> str:
    """Return the command that installs or repairs a package."""
    return _PIP + package


def together(ways: Iterable[str]) -> str:
    """Join results of `how_to_install` and others: one pip command for all its packages."""
    ways = list(dict.fromkeys(ways))
    packages = [way.removeprefix(_PIP) for way in ways if way.startswith(_PIP)]
    others = [way for way in ways if not way.startswith(_PIP)]
    return ", and ".join([_PIP + " ".join(packages), *others] if packages else others)
