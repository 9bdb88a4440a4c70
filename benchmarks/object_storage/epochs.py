"""One measurement: an epoch with an empty cache, and the next one, in a process that did nothing before."""

import importlib
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.common import drop_caches
from benchmarks.object_storage.contestants import Contestant
from benchmarks.object_storage.work import Work
from benchmarks.usage import cpu_seconds

_CONNECTIONS = 4
_PIECE = 1 << 20


@dataclass(frozen=True)
class Epochs:
    """What one contestant took.

    Attributes:
        cold_s: The first epoch, from making the loader on, when nothing is on this machine.
        cached_s: The second epoch.
        first_batch_s: From making the loader to the first batch.
        cold_cpu_s: CPU time of the first epoch, of all processes but the server's and the link's.
    """

    cold_s: float
    cached_s: float
    first_batch_s: float
    cold_cpu_s: float


def measure(contestant: Contestant, work: Work, source: str | Path, cache: Path, tree: Path) -> Epochs:
    """Run through two epochs; each must give all photographs of the tree, with all of their bytes.

    Raises:
        AssertionError: Something is missing.
    """
    module = importlib.import_module(f"benchmarks.object_storage.{contestant.module}")
    files = [path.stat().st_size for path in tree.rglob("*.jpg")]
    expected = (len(files), sum(files) if not work.is_decoded else 0)
    if hasattr(module, "warm_up"):
        module.warm_up(next(tree.parent.glob("few")))
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    start, cpu_before = time.perf_counter(), cpu_seconds() or 0.0
    loader = module.loader(source, cache, work, **contestant.options)
    first_batch_s = _run(loader, work, expected, lambda: time.perf_counter() - start)
    cold_s, cold_cpu_s = time.perf_counter() - start, (cpu_seconds() or 0.0) - cpu_before
    start = time.perf_counter()
    _run(loader, work, expected, lambda: 0.0)
    return Epochs(cold_s, time.perf_counter() - start, first_batch_s, cold_cpu_s)


def _run(loader: Iterable[Any], work: Work, expected: tuple[int, int], clock: Callable[[], float]) -> float:
    """Take an epoch's batches; returns what the clock said at the first one."""
    first, count, num_bytes = 0.0, 0, 0
    for samples, _ in loader:
        first = first or clock()
        count += len(samples)
        num_bytes += 0 if work.is_decoded else int(sum(samples))
    if (count, num_bytes) != expected:
        raise AssertionError(f"an epoch gave {count} photographs of {num_bytes} bytes, not {expected}")
    return first


def forget_all_but(folder: Path | None) -> None:
    """Drop the kernel's caches, but for the server's own files: its disk is not measured."""
    drop_caches()
    for path in folder.rglob("*") if folder else ():
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(_PIECE):
                    pass


def link_speed(host: str, port: int, paths: Iterable[str]) -> float:
    """Fetch objects, a few at a time, and throw them away; returns bytes a second."""

    def fetch(path: str) -> int:
        connection = HTTPConnection(host, port)
        connection.request("GET", path)
        answer, total = connection.getresponse(), 0
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status} {answer.reason}")
        buffer = bytearray(_PIECE)
        while length := answer.readinto(buffer):
            total += length
        connection.close()
        return total

    start = time.perf_counter()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        total = sum(pool.map(fetch, paths))
    return total / (time.perf_counter() - start)
