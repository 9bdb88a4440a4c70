"""LMDB's child processes for tests that need thousands: forked from one process that has imported what they need.

`verify` starts a Python for each, which imports for a quarter of a second. A forked child runs the same `main` and dies
the same deaths.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from recordzoo.records import verify as lmdb_walk

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tests.fakes.walks import serve; serve()"


class Walks:
    """Starts children one after another, in place of `lmdb_walk._start`; they have the limits of this process."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps(sys.path)],
                stdin=there,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )

    def start(self, path: Path, digest: str) -> "Walk":
        """Fork a child that walks the shards of a set; the one before must have ended."""
        questions, answers, status = os.pipe(), os.pipe(), os.pipe()
        theirs = [questions[0], answers[1], status[1]]
        socket.send_fds(self._here, [json.dumps([os.fspath(path), digest]).encode()], theirs)
        for descriptor in theirs:
            os.close(descriptor)
        return Walk(questions[1], answers[0], status[0])


class Walk:
    """A child, with what `LmdbWalk` needs of a `subprocess.Popen`."""

    def __init__(self, questions: int, answers: int, status: int) -> None:
        self.stdin = os.fdopen(questions, "w", encoding="utf-8")
        self.stdout = os.fdopen(answers, encoding="utf-8")
        self._status = os.fdopen(status, "rb")
        (self._pid,) = struct.unpack("i", self._status.read(4))
        self.returncode: int | None = None

    def kill(self) -> None:
        """Kill it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for its end, however long that takes."""
        if self.returncode is None:
            with self._status:
                (self.returncode,) = struct.unpack("i", self._status.read(4))
        return self.returncode


def serve() -> None:
    """Fork a child for each request; tell its process number, and how it ended."""
    with socket.socket(fileno=0) as requests:
        while True:
            data, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 3)
            if not data:  # the process that asks has ended
                return
            questions, answers, status = descriptors
            pid = os.fork()
            if not pid:
                _be_a_child(questions, answers, *json.loads(data))
            os.close(questions)
            os.close(answers)
            os.write(status, struct.pack("i", pid))
            _, ended = os.waitpid(pid, 0)
            os.write(status, struct.pack("i", os.waitstatus_to_exitcode(ended)))
            os.close(status)


# Any: path and digest, as `main` takes them from the command line.
def _be_a_child(questions: int, answers: int, *arguments: Any) -> None:
    code = 1
    try:
        os.dup2(questions, 0)
        os.dup2(answers, 1)
        os.close(questions)
        os.close(answers)
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.argv[1:] = ["", *arguments]
        lmdb_walk.main()
        code = 0
    finally:
        os._exit(code)
