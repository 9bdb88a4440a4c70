"""The command line's own name, so that a command in a message can be pasted into the shell that shows it."""

import os
import shutil
from pathlib import Path

from recordzoo.system.names import quote

_NAME = "recordzoo"
_program = _NAME


def command(*words: str | os.PathLike[str]) -> str:
    """Format a command line of recordzoo, quoted for a shell.

    >>> command("prepare", "my photos")
    "recordzoo prepare 'my photos'"
    """
    return " ".join([_program, *(quote(os.fspath(word)) for word in words)])


def set_program(started_as: str, python: str) -> None:
    """Set the program that `command` writes, so that its lines work where "recordzoo" is not on the PATH.

    Args:
        started_as: ``sys.argv[0]``.
        python: ``sys.executable``.
    """
    global _program
    _program = find_program(started_as, python)


def find_program(started_as: str, python: str) -> str:
    """Return "recordzoo" if a shell finds this very program, else its path or ``python -m recordzoo``."""
    found = shutil.which(_NAME)
    if found is not None and (_is_same(found, started_as) or Path(found).parent == Path(python).parent):
        return _NAME
    if Path(started_as).stem == _NAME and Path(started_as).is_file():
        return _shown(started_as)
    return f"{_shown(python)} -m {_NAME}"


def _is_same(one: str, other: str) -> bool:
    return os.path.exists(other) and os.path.samefile(one, other)


def _shown(path: str) -> str:
    """Quote a path, relative to the current directory if it is below it."""
    absolute, here = Path(path).absolute(), Path.cwd()
    below = absolute.is_relative_to(here)
    return quote(str(absolute.relative_to(here) if below else absolute))
