"""The mark beside a raw file that recordzoo downloaded: only a file that carries it may be deleted."""

import contextlib
from pathlib import Path

from recordzoo.base import durable


def mark_path(path: Path) -> Path:
    """Return where the mark of a raw file is."""
    return path.with_name(f".{path.name}.recordzoo")


def write_mark(path: Path) -> None:
    """Mark a raw file that was just downloaded; a failure is ignored, because a file without a mark is only kept."""
    with contextlib.suppress(OSError):  # the file itself may be gone by now
        durable.write_text_here(mark_path(path), _identity(path))


def is_marked(path: Path) -> bool:
    """Whether a raw file is the one that its mark says recordzoo downloaded.

    Raises:
        OSError: There is no mark, or no file.
    """
    return mark_path(path).read_text(encoding="utf-8", errors="replace") == _identity(path)


def remove_marked(path: Path) -> None:
    """Delete a raw file and its mark.

    Raises:
        OSError: One of them cannot be deleted.
    """
    durable.remove(path)
    durable.remove(mark_path(path))


def _identity(path: Path) -> str:
    """Return what distinguishes a downloaded file from another one in its place."""
    status = path.stat()
    return f"downloaded by recordzoo: {status.st_size} {status.st_mtime_ns} {status.st_ino}\n"
