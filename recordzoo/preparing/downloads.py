"""Download several raw files at once, and mark them: only a marked file may be deleted."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.progress import Progress
from recordzoo.net.crew import Crew, Stop
from recordzoo.net.download import CHECKING, RemoteFile

MOST = 4
"""How many files are downloaded at once."""

MOST_PER_HOST = 2
"""How many of them from one host: more would be impolite, and some hosts refuse them."""

_GRACE_S = 5.0
"""How long an error waits for the other downloads to end. One that just connects ends later, by itself."""


@dataclass(frozen=True)
class Download:
    """A file to download.

    Attributes:
        remote: Which.
        host: The host that is asked first.
        there_bytes: How much of it is there already.
    """

    remote: RemoteFile
    host: str
    there_bytes: int


def download_all(
    wanted: Sequence[Download],
    fetch: Callable[[RemoteFile, Progress, Stop], Path],
    ended: Callable[[RemoteFile, Path | BaseException], None],
    progress: Progress,
) -> None:
    """Download several files at once.

    Args:
        wanted: The files.
        fetch: Downloads one, in a thread of its own.
        ended: Called for each with its path or its error; what it raises ends the other downloads.
        progress: Told of all together.

    Raises:
        BaseException: The first that `ended` or `progress` raised, or Ctrl-C. The other downloads have ended, and what
            they received is kept.
    """
    sizes = [each.remote.expected_bytes for each in wanted]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    progress.begin(f"downloading {len(wanted)} files", total, sum(each.there_bytes for each in wanted))
    crew = Crew(progress, MOST, grace_s=_GRACE_S)
    crew.run(
        lambda each: fetch(each.remote, _Share(crew, each.there_bytes), crew.stop),
        wanted,
        ended=lambda each, result: ended(each.remote, result),
        host=lambda each: each.host,
        per_host=MOST_PER_HOST,
    )
    progress.end()


class _Share:
    """One download's part of the progress of all; see `Progress`.

    Args:
        crew: Tells the progress of all.
        counted_bytes: How many bytes of this download the progress of all has counted already.
    """

    def __init__(self, crew: Crew, counted_bytes: int) -> None:
        self._crew, self._position = crew, counted_bytes
        self._counts = False

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """Count from `done_bytes` on; bytes of an earlier run are counted already, and are checked first."""
        self._counts = not stage.startswith(CHECKING)
        self.advance(done_bytes - self._position)

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""
        counted = num_bytes if self._counts else 0
        self._position += counted
        self._crew.advance(counted)

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._crew.note(text)

    def end(self) -> None:
        """Do nothing: only all downloads together have an end."""


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
