"""Programs that tests run: the command line, in this process or in one of its own, and scripts on two ranks."""

import contextlib
import io
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
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
def on_two_ranks(script: str, folder: Path) -> list[Any]:
    """Run a script in two processes at once, and return the JSON that each prints in its last line.

    The script's arguments are the number of its rank and a folder, where both can meet in a `FileStore`.
    """
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(REPOSITORY)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(folder)], stdout=subprocess.PIPE, env=environment, text=True
        )
        for rank in range(2)
    ]
    try:
        printed = [process.communicate(timeout=120)[0] for process in processes]
    finally:  # one that fails leaves the other waiting
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], printed
    return [json.loads(text.splitlines()[-1]) for text in printed]


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


def run_advice(failed: Result, cwd: Path) -> str:
    """Run the command that an error ends with; return it, without the program's name."""
    _, _, line = failed.stderr.strip().rpartition(" run: recordzoo ")
    assert line, failed
    done = run(*shlex.split(line), cwd=cwd)
    assert done.returncode == 0, done
    return line
