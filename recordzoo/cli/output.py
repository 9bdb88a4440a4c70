"""What is printed: data on stdout, people's text on stderr, and nothing that a stranger's file name smuggles in."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from recordzoo.bars import clean

SCHEMA_VERSION = 1
"""Of every JSON document that the command line prints; it grows when a key changes its meaning or goes away."""


def clean_lines(text: str) -> str:
    """Like `clean`, but keep the line breaks of a message that we wrote ourselves: no other than the plain one."""
    return "\n".join(map(clean, text.split("\n")))


def say(text: str) -> None:
    """Print one line for people."""
    print(clean_lines(text), file=sys.stderr, flush=True)  # noqa: T201 - the command line is where printing happens


def put(text: str) -> None:
    """Print data, line by line."""
    print(clean_lines(text))  # noqa: T201 - as above


# Any: JSON values.
def put_json(document: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Print one JSON document: ASCII, so that it survives any terminal and any pipe."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, default=str)
    print(text, file=stream or sys.stdout)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay rows out in columns under a head; the last column is as wide as it wants."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    )


def make_safe() -> None:
    """Let a name that the terminal's encoding does not have be escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # absent where a test replaced the stream
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write out what is buffered, so that a broken pipe is met here and not while Python exits."""
    if sys.stdout is not None:  # None where the shell closed it: >&-
        sys.stdout.flush()


def forget_stdout() -> None:
    """After a reader went away (``recordzoo list | head``): let nothing be flushed into the broken pipe at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(null, stream.fileno())
    os.close(null)
