"""Progress as the command line shows it: a bar on a terminal, a plain line now and then elsewhere."""

import logging
import sys

from recordzoo.base.bars import default_progress, is_terminal
from recordzoo.base.progress import Progress
from recordzoo.base.text import clean
from recordzoo.cli.output import say

PLAIN_INTERVAL_S = 15.0


def make_progress() -> Progress:
    """Choose what fits where stderr goes, and let the library's log lines appear there too."""
    show_log()
    return default_progress(PLAIN_INTERVAL_S)


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
