"""Progress of long work: one small interface; the library logs it, the command line draws it."""

import logging
import time
from typing import Protocol

logger = logging.getLogger("recordzoo")

LOG_INTERVAL_S = 30.0


class Progress(Protocol):
    """Receives progress and draws, logs or ignores it. All sizes are bytes. Called from one thread at a time."""

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """Start a stage ("downloading CUB_200_2011.tgz"); `done_bytes` were already there (a resumed download)."""
        ...

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """Add work that was done; negative when work is repeated from the start."""
        ...

    def note(self, text: str) -> None:
        """Show a message once: a wait, or a resumed download."""
        ...

    def end(self) -> None:
        """Finish the stage; not called when it fails."""
        ...


class SilentProgress:
    """Ignores everything; see `Progress`."""

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """See `Progress`."""

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""

    def note(self, text: str) -> None:
        """See `Progress`."""

    def end(self) -> None:
        """See `Progress`."""


class LogProgress:
    """Logs one line at the start and the end of a stage, and at intervals in between.

    Args:
        interval_s: Seconds between two lines of a stage.
    """

    def __init__(self, interval_s: float = LOG_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._stage = ""
        self._total: int | None = None
        self._start_bytes = self._bytes = self._images = 0
        self._began = self._said = 0.0

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """See `Progress`."""
        self._stage, self._total = stage, total_bytes
        self._start_bytes = self._bytes = done_bytes
        self._images = 0
        self._began = self._said = time.monotonic()
        self._say(stage + (f", resuming at {format_bytes(done_bytes)}" if done_bytes else ""))

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""
        self._bytes += num_bytes
        self._images += num_images
        now = time.monotonic()
        if now - self._said >= self._interval_s:
            self._said = now
            self._say(self._line(now))

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._say(text)

    def end(self) -> None:
        """See `Progress`."""
        if self._bytes != self._total:  # the total was an estimate, or the work ended early
            self._total = None
        self._say(f"{self._line(time.monotonic())}: done")

    def _say(self, text: str) -> None:
        logger.info("%s", text)

    def _line(self, now: float) -> str:
        return progress_line(
            self._stage, self._bytes, self._total, self._images, now - self._began, self._bytes - self._start_bytes
        )


def format_bytes(num_bytes: float) -> str:
    """Format a size in powers of ten: ``1.2 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(num_bytes) < 999.5:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.3g} TB"


def format_seconds(seconds: float) -> str:
    """Format a duration: ``42 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def progress_line(
    stage: str, done_bytes: int, total_bytes: int | None, num_images: int, elapsed_s: float, fresh_bytes: int
) -> str:
    """Format the state of a stage: bytes, images, rates and, if the total is known, the time left."""
    parts = [format_bytes(done_bytes)]
    if total_bytes:
        parts[0] += f" of {format_bytes(total_bytes)} ({min(100, 100 * done_bytes // total_bytes)}%)"
    if num_images:
        parts.append(f"{num_images:,} images")
    if elapsed_s > 0.5 and fresh_bytes > 0:
        rate = fresh_bytes / elapsed_s
        rates = f"{format_bytes(rate)}/s"
        if num_images:
            rates += f", {num_images / elapsed_s:,.0f} images/s"
        parts.append(rates)
        if total_bytes and done_bytes < total_bytes:
            parts.append(f"{format_seconds((total_bytes - done_bytes) / rate)} left")
    return f"{stage}: {', '.join(parts)}"
