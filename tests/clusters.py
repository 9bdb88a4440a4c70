"""Real Dask clusters on the loopback: a scheduler and worker processes, started by Dask's own commands."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.preparing import REPOSITORY, wait_for


class Cluster:
    """A scheduler, and workers that a test starts and kills; all of it is killed at the end of the block.

    Attributes:
        file: The scheduler's file, by which clients and workers find it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[str]] = []
        self.scheduler = self.start_scheduler()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass

    def start_scheduler(self) -> subprocess.Popen[str]:
        self.file.unlink(missing_ok=True)
        options = ["--scheduler-file", str(self.file), "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        process = self._start("scheduler", *options)
        wait_for(self.file.exists, "the scheduler's file")
        return process

    def start_worker(self, **environment: str) -> subprocess.Popen[str]:
        """Start a worker of one process, which nobody starts again, and one thread."""
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "0"]
        local = ["--local-directory", str(self.folder)]
        return self._start("worker", "--scheduler-file", str(self.file), *options, *local, **environment)

    def _start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            cwd=self.folder,  # not where the program runs that prepares
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a cluster with some workers."""
    with Cluster(folder) as started:
        for _ in range(workers):
            started.start_worker()
        yield started
