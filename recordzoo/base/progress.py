"""Progress: the protocol, log lines, and on a terminal or in a notebook one bar per stage."""

import contextlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from typing_extensions import override

from recordzoo.base import settings
from recordzoo.base.text import clean, counted, shorten

logger = logging.getLogger("recordzoo")

LOG_INTERVAL_S = 30.0


class Progress(Protocol):
    """Receives progress and draws, logs or ignores it. All sizes are bytes. Called from one thread at a time."""

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """Start a stage ("downloading CUB_200_2011.tgz"); `done_bytes` were already there (a resumed download)."""

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """Add work that was done; negative when work is repeated from the start."""

    def note(self, text: str) -> None:
        """Show a message once: a wait, or a resumed download."""

    def end(self) -> None:
        """Finish the stage; not called when it fails."""


class LogProgress(Progress):
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

    @override
    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self._stage, self._total = stage, total_bytes
        self._start_bytes = self._bytes = done_bytes
        self._images = 0
        self._began = self._said = time.monotonic()
        self._say(stage + (f", from {format_bytes(done_bytes)} on" if done_bytes else ""))

    @override
    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        self._bytes += num_bytes
        self._images += num_images
        now = time.monotonic()
        if now - self._said >= self._interval_s:
            self._said = now
            self._say(self._line(now))

    @override
    def note(self, text: str) -> None:
        self._say(text)

    @override
    def end(self) -> None:
        if self._bytes != self._total:  # the total was an estimate, or the work ended early
            self._total = None
        self._say(f"{self._line(time.monotonic())}: done")

    def _say(self, text: str) -> None:
        logger.info("%s", text)

    def _line(self, now: float) -> str:
        """Format the state of the stage: bytes, images, rates and, if the total is known, the time left."""
        parts, elapsed_s, fresh_bytes = [format_bytes(self._bytes)], now - self._began, self._bytes - self._start_bytes
        if self._total:
            share = min(100, 100 * self._bytes // self._total)
            parts[0] += f" of {format_bytes(self._total)} ({share}%)"
        if self._images:
            parts.append(counted(self._images, "image"))
        if elapsed_s > 0.5 and fresh_bytes > 0:
            rate = fresh_bytes / elapsed_s
            parts.append(f"{format_bytes(rate)}/s")
            if self._images:
                parts.append(f"{self._images / elapsed_s:,.0f} images/s")
            if self._total and self._bytes < self._total:
                parts.append(f"{format_seconds((self._total - self._bytes) / rate)} left")
        return f"{self._stage}: {', '.join(parts)}"


class SilentProgress(LogProgress):
    """Ignores everything."""

    @override
    def _say(self, text: str) -> None:
        pass


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


_COLUMNS = 79  # if the terminal does not report its width
_BESIDE_STAGE = 57  # columns of a bar of 10 and the text after it; the rest is for the stage's name


def default_progress(interval_s: float = LOG_INTERVAL_S) -> Progress:
    """Choose the progress for stderr: bars on a terminal or in a notebook, lines elsewhere.

    A notebook shows log lines only if the user set up `logging`: without a bar, a conversion would be a silent cell.

    Args:
        interval_s: Seconds between two lines.
    """
    if settings.quiet():
        return LogProgress(interval_s)
    return BarProgress() if is_terminal() or is_notebook() else LineProgress(interval_s)


def is_notebook() -> bool:
    """Whether this process is a notebook's kernel, which shows what goes to stderr below the cell.

    A notebook's client imports ipykernel too; only a kernel has a shell with a kernel.
    """
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return sys.stderr is not None and hasattr(shell, "kernel")


def is_terminal() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class LineProgress(LogProgress):
    """Prints the lines of `LogProgress` on stderr: without configuration, `logging` drops them."""

    @override
    def _say(self, text: str) -> None:
        if logger.hasHandlers() or sys.stderr is None:
            super()._say(text)
        else:
            print(f"recordzoo: {clean(text)}", file=sys.stderr, flush=True)  # noqa: T201 - the only visible output


def close_bars() -> None:
    """End the line of a bar that an error left open, so that the error's message starts on a new line."""
    if "tqdm" in sys.modules:
        from tqdm import tqdm

        for bar in list(getattr(tqdm, "_instances", ())):
            bar.close()


@contextlib.contextmanager
def closed_on_error(progress: Progress) -> Iterator[None]:
    """End the line of an open bar when the block raises, so that the traceback starts on a new line."""
    try:
        yield
    except BaseException:
        if isinstance(progress, BarProgress):
            progress.close()
        raise


class BarProgress(Progress):
    """Draws a tqdm bar for each stage: the share done, the rate and the time left, in 80 columns.

    The bar measures bytes. If images are counted, it shows images instead: a line has no room for both.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._has_total = False
        self._images = 0

    @override
    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self.close()
        self._images, self._has_total = 0, bool(total_bytes)
        kind, is_widget = _bar_class()
        columns = 0 if is_widget else _columns()
        is_wide = bool(columns) or is_widget
        self._bar = kind(
            desc=shorten(clean(stage), max(12, (columns or _COLUMNS) - _BESIDE_STAGE)),
            total=total_bytes or None,
            initial=done_bytes,
            unit="B",
            unit_scale=True,
            dynamic_ncols=is_wide,
            ncols=None if is_wide else _COLUMNS,
            nrows=None if is_wide else 24,
            file=sys.stderr,
            mininterval=0.2,
            bar_format=self._layout("{remaining} left"),
        )

    @override
    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        if self._bar is None:
            return
        self._images += num_images
        self._bar.bar_format = self._layout("{remaining} left")
        if num_bytes < 0:  # work is repeated; hidden from tqdm, which would include it in its smoothed rate
            self._bar.n = max(0, self._bar.n + num_bytes)
            self._bar.refresh()
        else:
            self._bar.update(num_bytes)

    @override
    def note(self, text: str) -> None:
        from tqdm import tqdm

        tqdm.write(clean(text), file=sys.stderr)

    @override
    def end(self) -> None:
        if self._bar is not None:
            if self._has_total:  # the total was an estimate, or the work ended early
                self._bar.total = self._bar.n
                if hasattr(self._bar, "container"):  # a notebook's widget has its own total
                    self._bar.container.children[1].max = max(1, self._bar.n)
            self._bar.bar_format = self._layout("{elapsed}")
        self.close()

    def close(self) -> None:
        """End the line of the bar, if one is open, for example after an error."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _layout(self, time: str) -> str:
        """Return tqdm's format: the bar fills the columns that the other parts leave."""
        done, rate = "{n_fmt}B/{total_fmt}B" if self._has_total else "{n_fmt}B", "{rate_fmt}"
        if self._images:
            elapsed = self._bar.format_dict["elapsed"]
            done = counted(self._images, "image")
            rate = f"{self._images / elapsed:,.0f}/s" if elapsed > 0.5 else "-/s"
        if not self._has_total:
            return f"{{desc}}: {done}, {rate}, {{elapsed}}"
        return f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {done}, {rate}, {time}"


def _bar_class() -> tuple[Any, bool]:
    """Return the bar class that tqdm chooses here, and whether it is a notebook's widget."""
    if not is_notebook():
        from tqdm import tqdm

        return tqdm, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing ipywidgets: the text bar is as good
        from tqdm.auto import tqdm as found
        from tqdm.notebook import tqdm_notebook
    return found, issubclass(found, tqdm_notebook)


def _columns() -> int:
    """Return the terminal's width. A reported 0 (under `script`, in some CI) is ignored: tqdm would draw nothing."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 0
