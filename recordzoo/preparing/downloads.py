"""Download several raw files at once and mark them: only marked files may be deleted."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base import durable
from recordzoo.base.progress import Progress
from recordzoo.net.crew import Crew, Stop
from recordzoo.net.download import RemoteFile
from recordzoo.net.partial import CHECKING

MOST = 4
"""Maximum number of parallel downloads."""

MOST_PER_HOST = 2
"""Maximum number of parallel downloads per host: more would be impolite, and some hosts refuse them."""

_GRACE_S = 5.0
"""Time that an error waits for the other downloads to stop. A connecting download stops later by itself."""


@dataclass(frozen=True)
class Download:
    """A file to download.

    Attributes:
        remote: The raw file.
        host: The host to try first.
        there_bytes: Bytes already present.
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
        fetch: Downloads one, in a thread of its own.
        ended: Called for each file with its path or its error; an exception from it stops the other downloads.
        progress: Receives the combined progress.

    Raises:
        BaseException: The first error of `ended` or `progress`, or Ctrl-C. The other downloads have stopped; their
            partial files are kept.
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
    """Adds one download to the combined progress; see `Progress`.

    Args:
        crew: Reports the combined progress.
        counted_bytes: Bytes of this download that the combined progress has already counted.
    """

    def __init__(self, crew: Crew, counted_bytes: int) -> None:
        self._crew, self._position = crew, counted_bytes
        self._counts = False

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """Count from `done_bytes`; bytes of an earlier run are already counted and are checked first."""
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
        """Do nothing: only the combined progress ends."""


def mark_path(path: Path) -> Path:
    """Return the path of a raw file's mark."""
    return path.with_name(f".{path.name}.recordzoo")


def write_mark(path: Path) -> None:
    """Mark a downloaded raw file. Failures are ignored: a file without a mark is just kept."""
    with contextlib.suppress(OSError):  # the file itself may be gone by now
        durable.write_text_here(mark_path(path), _identity(path))


def is_marked(path: Path) -> bool:
    """Whether a raw file is still the file that recordzoo downloaded and marked."""
    return mark_path(path).read_text(encoding="utf-8", errors="replace") == _identity(path)


def remove_marked(path: Path) -> None:
    """Delete a raw file and its mark."""
    durable.remove(path)
    durable.remove(mark_path(path))


def _identity(path: Path) -> str:
    """Fingerprint a downloaded file, to detect a replacement."""
    status = path.stat()
    return f"downloaded by recordzoo: {status.st_size} {status.st_mtime_ns} {status.st_ino}\n"
