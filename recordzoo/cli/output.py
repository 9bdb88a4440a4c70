"""Print: data on stdout, text for people on stderr; control characters in file names are escaped."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from recordzoo.base.bars import default_progress, is_terminal
from recordzoo.base.progress import Progress
from recordzoo.base.text import clean
from recordzoo.base.types import JSON

PLAIN_INTERVAL_S = 15.0

SCHEMA_VERSION = 1
"""The version of the JSON documents that commands print: raised when a key is removed or changes its meaning."""


def clean_lines(text: str) -> str:
    """Like `clean`, but keep the plain line breaks of our own messages."""
    return "\n".join(map(clean, text.split("\n")))


def say(text: str) -> None:
    """Print one line for people; if stderr is closed or its disk is full, go on silently."""
    if sys.stderr is None:  # the shell closed it: 2>&-; `print` would take stdout
        return
    try:
        print(clean_lines(text), file=sys.stderr, flush=True)  # noqa: T201 - the command line is where printing happens
    except BrokenPipeError:
        raise
    except OSError:
        _forget(sys.stderr)


def put(text: str) -> None:
    """Print data, line by line."""
    print(clean_lines(text))  # noqa: T201 - as above


def put_json(document: Mapping[str, JSON]) -> None:
    """Print one JSON document: ASCII, so that it survives any terminal and any pipe."""
    print(_json(document))  # noqa: T201 - as above


def say_json(document: Mapping[str, JSON]) -> None:
    """Print one JSON document on stderr: an error."""
    say(_json(document))


def _json(document: Mapping[str, JSON]) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, default=str)


def make_safe() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # absent if a test replaced the stream
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush the output, so that a broken pipe is noticed here and not while Python exits."""
    if sys.stdout is not None:  # None where the shell closed it: >&-
        sys.stdout.flush()


def forget_unwritable() -> None:
    """Drop output that cannot be written: at exit Python would try again, print a traceback and change the exit code.

    A reader went away (``recordzoo list | head``), or the disk is full.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None where the shell closed it
                stream.flush()
        except OSError:
            _forget(stream)


def _forget(stream: TextIO) -> None:
    """Discard the rest of a stream that cannot be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def make_progress() -> Progress:
    """Choose the progress: a bar on a terminal, occasional lines elsewhere; also print the library's log lines."""
    logger = logging.getLogger("recordzoo")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if not any(isinstance(handler, _LineHandler) for handler in logger.handlers):
        logger.addHandler(_LineHandler())
    return default_progress(PLAIN_INTERVAL_S)


class _LineHandler(logging.Handler):
    """Prints the message of a log record for people, above a bar if one is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        text = clean(record.getMessage())
        if is_terminal() and "tqdm" in sys.modules:
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)
        else:
            say(text)
