"""Programs that tests run: the command line, in this process or in one of its own, scripts, forked functions."""

import contextlib
import io
import logging
import os
import shlex
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.cli.app import app
from recordzoo.cli.app import run as run_app
from tests.preparing import REPOSITORY


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


# Any: what the script prints, read from JSON.
def python(*words: object, cwd: Path = REPOSITORY, timeout_s: float = 120, **variables: str) -> Result:
    """Run Python in a process of its own, which finds this repository's packages.

    Args:
        *words: Its options and arguments: ``"-c"`` and a program, or a script's path.
        cwd: Where it runs.
        timeout_s: When it is killed; then this raises `subprocess.TimeoutExpired`.
        **variables: Environment variables besides those of this process.
    """
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=timeout_s,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def printed(code: str, *arguments: object, **options: Any) -> str:
    """Run a program that is given as text and must succeed; return what it prints. Options as for `python`."""
    done = python("-c", code, *arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fork(function: Callable[[], object]) -> int:
    """Run a function in a forked child, which never goes on as a second pytest; return the child's number.

    The child's exit code is the number that the function returns, 0 for anything else, and 99 for an error.
    """
    child = os.fork()
    if not child:
        signal.alarm(60)
        code = 99
        try:
            found = function()
            code = found if type(found) is int else 0
        finally:
            if code == 99:
                traceback.print_exc()
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """Wait for a child, and return how it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(*arguments: object, cwd: Path, apart: bool = False) -> Result:
    """Run a command in a directory.

    Args:
        apart: In a process of its own, in which a warning is an error.
    """
    words = [str(argument) for argument in arguments]
    if apart:
        return python("-W", "error", "-m", "recordzoo", *words, cwd=cwd)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _logger_as_it_was():
        code = run_app(app, words)
    out.flush()
    return Result(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]  # a BytesIO


@contextlib.contextmanager
def _logger_as_it_was() -> Iterator[None]:
    """Undo what a command does to the library's logger, of which a process has only one."""
    logger = logging.getLogger("recordzoo")
    level, propagate, handlers = logger.level, logger.propagate, list(logger.handlers)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, handlers


def run_advice(failed: Result, cwd: Path) -> str:
    """Run the command that an error ends with; return it, without the program's name."""
    _, _, line = failed.stderr.strip().rpartition(" run: recordzoo ")
    assert line, failed
    done = run(*shlex.split(line), cwd=cwd)
    assert done.returncode == 0, done
    return line
