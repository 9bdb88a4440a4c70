"""Ask before something is deleted."""

import sys

from recordzoo.cli import output
from recordzoo.errors import ArgumentError


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on the terminal; return whether the answer is yes.

    Args:
        question: Ends with a question mark.
        yes: Whether ``--yes`` was given: nothing is asked.

    Raises:
        ArgumentError: There is no terminal to ask on, and no ``--yes``.
    """
    if yes:
        return True
    if not _can_ask():
        raise ArgumentError(f"{question} There is no terminal to ask on: pass --yes, or --dry-run to only look.")
    output.ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _can_ask() -> bool:
    streams = (sys.stdin, sys.stderr)  # None where the shell closed one
    return all(stream is not None and stream.isatty() for stream in streams)
