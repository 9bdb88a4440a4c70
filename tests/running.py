"""The command line in this process, which is fast, or in one of its own, as a shell runs it."""

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recordzoo.cli.app import app
from recordzoo.cli.run import run as run_app


@dataclass(frozen=True)
class Result:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, cwd: Path, apart: bool = False) -> Result:
    """Run a command in a directory.

    Args:
        apart: In a process of its own, in which a warning is an error.
    """
    words = [str(argument) for argument in arguments]
    if apart:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "recordzoo", *words],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=120,
        )
        return Result(done.returncode, done.stdout, done.stderr)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _logger_as_it_was(),
    ):
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
