"""Progress as the command line shows it: a bar on a terminal, a plain line now and then elsewhere."""

import logging
import os
import sys
from typing import Any

from recordzoo.cli.output import clean, is_terminal, say
from recordzoo.progress import LogProgress, Progress

PLAIN_INTERVAL_S = 15.0


class BarProgress:
    """A tqdm bar for each stage: bytes, images, rates and the time left."""

    def __init__(self) -> None:
        # Any: tqdm's own type is generic over what it iterates; this one iterates nothing.
        self._bar: Any = None
        self._images = 0

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """See `recordzoo.progress.Progress`."""
        from tqdm import tqdm

        self.end()
        self._images = 0
        sized = _knows_its_size()
        self._bar = tqdm(
            desc=clean(stage),
            total=total_bytes,
            initial=done_bytes,
            unit="B",
            unit_scale=True,
            dynamic_ncols=sized,
            ncols=None if sized else 79,
            nrows=None if sized else 24,
            file=sys.stderr,
            mininterval=0.2,
        )

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `recordzoo.progress.Progress`."""
        if self._bar is None:
            return
        self._images += num_images
        if self._images:
            elapsed = self._bar.format_dict["elapsed"]
            rate = f", {self._images / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            self._bar.set_postfix_str(f"{self._images:,} images{rate}", refresh=False)
        if num_bytes < 0:  # work is done again: tqdm smooths its rate over what it is told, so it is not told this
            self._bar.n = max(0, self._bar.n + num_bytes)
            self._bar.refresh()
        else:
            self._bar.update(num_bytes)

    def note(self, text: str) -> None:
        """See `recordzoo.progress.Progress`."""
        write_line(text)

    def end(self) -> None:
        """See `recordzoo.progress.Progress`."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _knows_its_size() -> bool:
    """Whether the terminal says how wide it is; where it says 0 (under `script`, in some CI), tqdm draws nothing."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except OSError:
        return False


def make_progress() -> Progress:
    """Choose what fits where stderr goes, and let the library's log lines appear there too."""
    show_log()
    return BarProgress() if is_terminal() else LogProgress(PLAIN_INTERVAL_S)


def write_line(text: str) -> None:
    """Print one line for people, above a bar if one is drawn."""
    if is_terminal() and "tqdm" in sys.modules:
        from tqdm import tqdm

        tqdm.write(clean(text), file=sys.stderr)
    else:
        say(clean(text))


class _LineHandler(logging.Handler):
    """Log records as plain lines; the message alone, as in the rest of what a command says."""

    def emit(self, record: logging.LogRecord) -> None:
        write_line(record.getMessage())


def show_log(level: int = logging.INFO) -> None:
    """Send what the library logs to stderr."""
    logger = logging.getLogger("recordzoo")
    logger.setLevel(level)
    logger.propagate = False
    if not any(isinstance(handler, _LineHandler) for handler in logger.handlers):
        logger.addHandler(_LineHandler())
