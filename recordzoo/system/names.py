"""File names and quoting of command lines for the current system."""

import os
import re
import shlex
import sys
from pathlib import Path

WINDOWS: bool = sys.platform == "win32"

PLATFORM: str = sys.platform

_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(\..*)?", re.IGNORECASE | re.DOTALL)
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
_PLAIN_WORD = re.compile(r"[\w@+=:,./\\-]+")


def is_device(name: str, *, windows: bool = WINDOWS) -> bool:
    """Whether Windows treats a path as a device: a part is CON, NUL, COM1, ..., with any extension."""
    return windows and any(map(_DEVICE.fullmatch, re.split(r"[/\\]", name)))


def as_file_name(name: str, *, windows: bool = WINDOWS) -> str:
    """Return a valid file name that resembles `name`. POSIX allows any name without "/"."""
    if not windows:
        return name
    name = _FORBIDDEN.sub("_", name).rstrip(". ") or "_"
    return f"_{name}" if is_device(name, windows=True) else name


def quote(word: str, *, windows: bool = WINDOWS) -> str:
    """Quote a word of a command line: for a POSIX shell, or for both shells of Windows."""
    if not windows:
        return shlex.quote(word)
    return word if _PLAIN_WORD.fullmatch(word) else f'"{word}"'


def user_state(platform: str = PLATFORM) -> Path:
    """Return the system's folder for program state: on Linux ~/.local/state, or XDG_STATE_HOME."""
    return _user_folder(platform, "Application Support", "XDG_STATE_HOME", ".local/state")


def user_cache(platform: str = PLATFORM) -> Path:
    """Return the system's folder for caches: on Linux ~/.cache, or XDG_CACHE_HOME."""
    return _user_folder(platform, "Caches", "XDG_CACHE_HOME", ".cache")


def _user_folder(platform: str, in_library: str, variable: str, in_home: str) -> Path:
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / in_library
    folder = os.environ.get(variable, "")
    return Path(folder) if os.path.isabs(folder) else Path.home() / in_home
