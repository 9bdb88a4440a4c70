"""The directories in which record sets were prepared: a small file in the user's home, read by `recordzoo cache`.

Each line is a JSON string, an absolute path. The list is optional: a failure to write it is ignored.
"""

import contextlib
import json
import os
from pathlib import Path

from recordzoo.base import settings

_NAME = "roots.jsonl"
_MAX_BYTES = 1 << 20


def list_path() -> Path | None:
    """Return the path of the list; None if no list is kept (``RECORDZOO_STATE=off``)."""
    with contextlib.suppress(RuntimeError):  # there is no home directory
        folder = settings.state_folder()
        return None if folder is None else folder / _NAME
    return None


def known() -> list[Path]:
    """Return the directories that still exist, in the order of their first use."""
    return [Path(text) for text in dict.fromkeys(_lines()) if os.path.isabs(text) and os.path.isdir(text)]


def remember(folder: Path) -> None:
    """Add a directory to the list, unless it is listed; a failure is ignored."""
    with contextlib.suppress(OSError, ValueError):  # includes ArgumentError: the finished work must not fail here
        path, text = list_path(), os.path.abspath(folder)
        if path is None:
            return
        if text in _lines() or (path.exists() and path.stat().st_size > _MAX_BYTES // 2):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(text).encode() + b"\n"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(fd, "ab", buffering=0) as file:  # one write: lines of several processes do not mix
            file.write(line)


def _lines() -> list[str]:
    """Read the list; damaged lines are skipped."""
    path = list_path()
    found = []
    with contextlib.suppress(OSError):
        if path is not None and path.is_file():
            with path.open("rb") as file:
                lines = file.read(_MAX_BYTES).splitlines()
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):
                    text = json.loads(line)
                    if isinstance(text, str) and "\0" not in text:
                        found.append(text)
    return found
