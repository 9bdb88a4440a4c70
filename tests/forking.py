"""Processes of a module's program, forked from one that has imported what it needs: a start takes milliseconds. Linux.

Each has a session of its own, stops, dies and is waited for as others do. The program's module calls `serve` in its
``__main__``; `Forked` is what a test holds. See `tests.warm` for programs that are given as text.
"""

import array
import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
_STATUS_BYTES = 4


class Forked:
    """A process of a program, with what tests need of a `subprocess.Popen` whose output is read as text.

    Args:
        server: The module whose ``__main__`` calls `serve`, and options for the interpreter before it.
        arguments: The program's arguments.
        env: All environment variables.
        cwd: The directory in which it runs.
    """

    def __init__(
        self, server: tuple[str, ...], arguments: Sequence[str], env: Mapping[str, str], cwd: Path = REPOSITORY
    ) -> None:
        pipes = [os.pipe() for _ in range(3)]
        request = json.dumps([list(arguments), dict(env), str(cwd)]).encode()
        socket.send_fds(_server(*server), [request], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        self._out, self._err, self._statuses = (end for end, _ in pipes)
        self._read = {self._out: bytearray(), self._err: bytearray()}
        self._open = {self._out, self._err}
        self._command = [*server, *arguments]
        self.returncode: int | None = None
        (self.pid,) = array.array("i", os.read(self._statuses, _STATUS_BYTES))

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        for end in (self._out, self._err, self._statuses):
            os.close(end)

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return its exit code, if it has ended."""
        while self.returncode is None and select.select([self._statuses], [], [], 0)[0]:
            self._next_status()
        return self.returncode

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        while self.returncode is None:
            self._next_status()
        return self.returncode

    def wait_until_stopped(self) -> bool:
        """Wait until it is stopped, or has ended; whether it is stopped."""
        while self.returncode is None:
            if self._next_status():
                return True
        return False

    def lines(self, stream: str = "stderr") -> Iterator[str]:
        """Yield what it prints, line by line, up to its end."""
        place = self._err if stream == "stderr" else self._out
        have = self._read[place]
        while True:
            line, end, _ = have.partition(b"\n")
            if end:
                del have[: len(line) + 1]
                yield (line + end).decode()
            elif not self._fill([place], None):
                if line:
                    have.clear()
                    yield line.decode()
                return

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait until the process has ended; return the rest of its stdout and of its stderr.

        Raises:
            subprocess.TimeoutExpired: It goes on, or another process holds its output open.
        """
        deadline = time.monotonic() + timeout
        while self._open:
            self._fill(list(self._open), deadline)
        while self.returncode is None:
            self._wait_for([self._statuses], deadline)
            self._next_status()
        return self._read[self._out].decode(), self._read[self._err].decode()

    def _fill(self, ends: list[int], deadline: float | None) -> bool:
        """Read more of its output. Returns whether there was more."""
        found = False
        for end in self._wait_for([end for end in ends if end in self._open], deadline):
            data = os.read(end, 1 << 16)
            self._read[end] += data
            found = found or bool(data)
            if not data:
                self._open.discard(end)
        return found

    def _wait_for(self, ends: list[int], deadline: float | None) -> list[int]:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = select.select(ends, [], [], left)[0] if ends else []
        if ends and not ready:
            raise subprocess.TimeoutExpired(self._command, 0)
        return ready

    def _next_status(self) -> bool:
        """Read what became of it; whether it was stopped."""
        (status,) = array.array("i", os.read(self._statuses, _STATUS_BYTES))
        if not os.WIFSTOPPED(status):
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is None


class Started(subprocess.Popen[str]):
    """A process that imports what it needs by itself, with what `Forked` has besides."""

    def wait_until_stopped(self) -> bool:
        """Wait until it is stopped, or has ended; whether it is stopped."""
        ended = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return ended is not None and ended.si_code == os.CLD_STOPPED

    def lines(self, stream: str = "stderr") -> Iterator[str]:
        """Yield what it prints, line by line, up to its end."""
        return iter(getattr(self, stream))


def start(command: Sequence[str], env: Mapping[str, str], cwd: Path = REPOSITORY) -> Started:
    """Start a process as it is done everywhere, in a session of its own; see `Forked`."""
    pipe = subprocess.PIPE
    return Started(command, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def can_fork() -> bool:
    """Whether a forked process would be as one that this process starts: of the same limits and umask; on Linux."""
    return _AT_FIRST is not None and _inherited() == _AT_FIRST


# Any: only compared.
def _inherited() -> Any:
    import resource  # absent on Windows

    umask = os.umask(0)
    os.umask(umask)
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    return umask, limits


# Where a test plays Windows on Linux, `resource` is None.
_HAS_LIMITS = sys.platform == "linux" and sys.modules.get("resource", ...) is not None
_AT_FIRST = _inherited() if _HAS_LIMITS else None


@functools.cache
def _server(*words: str) -> socket.socket:
    """Start the process that forks; it ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        server = subprocess.Popen(
            [sys.executable, *words[1:], "-m", words[0], "--serve"],
            cwd=REPOSITORY,
            stdin=there,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def end() -> None:
        here.close()
        server.kill()
        server.wait()

    atexit.register(end)
    return here


def serve() -> list[str]:
    """Fork for each request, for ever; return its arguments in the forked process, which then is the program."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while True:
        data, ends, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not data:
            sys.exit()
        if not os.fork():
            requests.close()
            arguments, env, cwd = json.loads(data)
            _keep(*ends)
            os.environ.clear()
            os.environ.update(env)
            os.chdir(cwd)
            return [str(each) for each in arguments]
        for end in ends:
            os.close(end)


def _keep(out: int, err: int, statuses: int) -> None:
    """Fork once more: the child returns, in a session of its own, and this process tells what becomes of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        for end in (out, err, statuses):
            os.close(end)
        return
    os.close(out)
    os.close(err)
    with contextlib.suppress(BrokenPipeError):  # the test has ended
        os.write(statuses, array.array("i", [pid]))
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            os.write(statuses, array.array("i", [status]))
            if not os.WIFSTOPPED(status):
                break
    os._exit(0)
