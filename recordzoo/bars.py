"""Progress on a terminal: a bar for each stage, as torchvision draws one for a download."""

import os
import sys
from typing import Any

from recordzoo import settings
from recordzoo.progress import LOG_INTERVAL_S, LogProgress, Progress, logger


def default_progress(interval_s: float = LOG_INTERVAL_S) -> Progress:
    """Choose what fits where stderr goes: bars on a terminal or in a notebook, lines elsewhere.

    In a notebook nobody sees a log line unless they set up `logging`, and a conversion would be a silent cell.

    Args:
        interval_s: Between two lines.
    """
    if settings.quiet():
        return LogProgress(interval_s)
    return BarProgress() if is_terminal() or is_notebook() else LineProgress(interval_s)


def is_notebook() -> bool:
    """Whether this process is a notebook's kernel, which shows what goes to stderr below the cell."""
    return sys.stderr is not None and "ipykernel" in sys.modules


def is_terminal() -> bool:
    """Whether people's text goes to a terminal that can redraw a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def clean(text: str) -> str:
    """Escape what would not show or would act on a terminal: control and direction characters, lone surrogates.

    >>> clean("bird\\x1b[2J.jpg")
    'bird\\\\x1b[2J.jpg'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class LineProgress(LogProgress):
    """The lines of `LogProgress` on stderr, where nobody has configured `logging`, which would drop them."""

    def _say(self, text: str) -> None:
        if logger.hasHandlers() or sys.stderr is None:
            super()._say(text)
        else:
            print(f"recordzoo: {clean(text)}", file=sys.stderr, flush=True)  # noqa: T201 - people see nothing else


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
        from tqdm import tqdm

        tqdm.write(clean(text), file=sys.stderr)

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
