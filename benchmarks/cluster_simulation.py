"""How 10,000 units on 1,000 workers would go: the coordinator is real, the cluster and its file system are simulated.

    python -m benchmarks.cluster_simulation

The coordinator's own code runs, with a journal on a real disk. Workers are numbers in a heap, which end their units by
a clock. It advances by the CPU time that the coordinator's code really takes, and by a latency for each call of the
file system, as on a network drive.
"""

import argparse
import builtins
import contextlib
import heapq
import os
import pickle
import queue
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import fresh_folder, machine
from benchmarks.pages import table, write_section
from recordzoo.preparing import run
from recordzoo.preparing.assemble import assemble
from recordzoo.preparing.convert import Task
from recordzoo.preparing.journal import Journal
from recordzoo.preparing.rows import ShardDone, ShardRows, UnitDone, save_rows, save_sidecars
from recordzoo.preparing.run import PoolProgress
from recordzoo.publish.build import Build
from recordzoo.publish.output import Output
from recordzoo.raw.tree import TreeUnit
from recordzoo.recipes.folder import FolderRecipe

SECTION = "simulated cluster"
UNITS, WORKERS, UNIT_S = 10_000, 1_000, 10.0
LATENCIES_MS = (0, 1, 5, 20)
SATURATED = 4_000
"""So many units that take no time tell how many the coordinator can take in a second."""

SUBMIT_S = 0.001
"""What handing a task to a scheduler takes the coordinator."""

TASK_FILES = 9000
_ENTRIES_AT_ONCE = 100  # of a directory, in one answer of the server

_HEAD = (
    "latency",
    "time",
    "syncs",
    "a unit alone",
    "units a second, at most",
    f"workers with units of {UNIT_S:.0f} s",
    "putting the set together",
)
_TEXT = """\
{table}

One step of the coordinator, without latency, with the files of {units:,} units in the build directory:

{steps}

{machine}

```
python -m benchmarks.cluster_simulation
```
"""


class Clock:
    """The CPU time of this thread, which other programs do not change, and what the simulation waits for."""

    def __init__(self) -> None:
        self._skipped, self._start, self.waited_s = 0.0, time.thread_time(), 0.0

    def now(self) -> float:
        return time.thread_time() - self._start + self._skipped

    def advance(self, seconds: float) -> None:
        self._skipped += seconds

    def idle(self, seconds: float) -> None:
        """Advance while the coordinator has nothing to do."""
        self.waited_s += seconds
        self.advance(seconds)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Do what the cluster would do, in no time."""
        before = time.thread_time()
        yield
        self._skipped -= time.thread_time() - before


class Cluster:
    """A `Pool`: workers that end their units by the clock, and leave the files that real ones would."""

    def __init__(self, clock: Clock, num_workers: int, unit_s: float) -> None:
        self._clock, self._unit_s, self._num_workers = clock, unit_s, num_workers
        self._free = [0.0] * num_workers  # when each worker is free
        self._ends: list[tuple[float, int, Future[UnitDone], Task]] = []
        self._random = random.Random(0)

    shares_cache = False

    def places(self) -> int:
        return 2 * self._num_workers  # as `ExecutorPool` does

    def result(self, future: Future[UnitDone]) -> UnitDone:
        return future.result()

    def submit(self, task: Task) -> Future[UnitDone]:
        self._clock.advance(SUBMIT_S)
        with self._clock.stopped():
            begin = max(self._clock.now(), heapq.heappop(self._free))
            end = begin + self._unit_s * self._random.uniform(0.7, 1.3)
            heapq.heappush(self._free, end)
            future: Future[UnitDone] = Future()
            heapq.heappush(self._ends, (end, task.number, future, task))
            (task.folder / f"u{task.number:05d}-s0000.0123abcd.tmp").touch()
        return future

    def collected(self, ended: "queue.SimpleQueue[Future[UnitDone]]") -> Iterator[Future[UnitDone]]:
        """Stand for the wait until a unit ends."""
        self._end_units()
        if ended.empty():
            until = min(self._ends[0][0] if self._ends else float("inf"), self._clock.now() + run._POLL_S)
            self._clock.idle(max(0.0, until - self._clock.now()))
            self._end_units()
        while not ended.empty():
            yield ended.get()

    def _end_units(self) -> None:
        with self._clock.stopped():
            now = self._clock.now()
            while self._ends and self._ends[0][0] <= now:
                _, number, future, task = heapq.heappop(self._ends)
                name = str(task.folder / f"u{number:05d}")
                _rename(f"{name}-s0000.0123abcd.tmp", f"{name}-s0000.lmdb")
                for ending in ("-s0000.rows.npz", ".sidecars.npz"):
                    os.close(os.open(name + ending, os.O_CREAT | os.O_WRONLY))
                future.set_result(_unit(number, "0" * 64, "0" * 64))


_collected, _rename = run._collected, os.rename


class Slow:
    """A file system each of whose calls takes a latency: a context manager.

    Args:
        wait: Waits for so many seconds, or says that it did.
        latency_s: How many.
    """

    def __init__(self, wait: Callable[[float], None], latency_s: float) -> None:
        self._wait, self._latency_s, self._stack = wait, latency_s, contextlib.ExitStack()
        self.num_syncs = 0

    def __enter__(self) -> "Slow":
        for module, name in ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "stat"), (builtins, "open")):
            self._patch(module, name, self._slowed(getattr(module, name), is_sync=name == "fsync"))
        original = os.scandir
        self._patch(os, "scandir", lambda path: _Listing(original(path), self))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _patch(self, module: Any, name: str, value: Any) -> None:
        self._stack.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def _slowed(self, function: Any, *, is_sync: bool) -> Any:
        def slowed(*arguments: Any, **named: Any) -> Any:
            self.num_syncs += is_sync
            self._wait(self._latency_s)
            return function(*arguments, **named)

        return slowed

    def round_trip(self) -> None:
        self._wait(self._latency_s)


class _Listing:
    """What `os.scandir` returns; a round trip for every 100 entries."""

    def __init__(self, entries: Any, slow: Slow) -> None:
        self._entries, self._slow = entries, slow

    def __enter__(self) -> "_Listing":
        return self

    def __exit__(self, *error: object) -> None:
        self._entries.close()

    def __iter__(self) -> Iterator[Any]:
        for number, entry in enumerate(self._entries):
            if number % _ENTRIES_AT_ONCE == 0:
                self._slow.round_trip()
            yield _Entry(entry, self._slow)


class _Entry:
    """An entry of a directory whose size costs a round trip."""

    def __init__(self, entry: Any, slow: Slow) -> None:
        self._entry, self._slow = entry, slow
        self.name, self.path, self.is_dir = entry.name, entry.path, entry.is_dir

    def stat(self) -> Any:
        self._slow.round_trip()
        return self._entry.stat()


class _Quiet:
    """Progress that nobody sees."""

    def begin(self, *arguments: object) -> None: ...
    def advance(self, *arguments: object) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


class _Unit:
    """A unit of 1 GB whose files nobody reads."""

    size_bytes, stamp = 1 << 30, ""

    def members(self) -> Iterator[Any]:
        return iter(())


def _unit(number: int, rows: str, sidecars: str, count: int = 9000) -> UnitDone:
    shard = ShardDone(number, 0, count, 1 << 30, 4096, 1 << 18, "0" * 64, rows)
    return UnitDone(number, (shard,), sidecars, {}, {})


@contextlib.contextmanager
def journal_in(folder: Path) -> Iterator[Journal]:
    """The journal of a build that is removed at the end."""
    build = Build(Output(folder / "simulated.records"))
    build.claim({"units": UNITS}, 0)
    try:
        yield Journal(build, _Quiet())  # type: ignore[arg-type]
    finally:
        build.remove()


def simulate(latency_s: float, num_units: int, num_workers: int, unit_s: float) -> dict[str, float]:
    """Convert so many units on so many workers; return how long it took by the clock, and the coordinator alone."""
    clock = Clock()
    cluster = Cluster(clock, num_workers, unit_s)
    recipe = FolderRecipe()
    with journal_in(fresh_folder("simulated")) as journal:
        tasks = [Task(number, _Unit(), recipe, journal.path, None, "keep") for number in range(num_units)]
        meter = PoolProgress(journal.path, 1.0, _Quiet(), clock.now)  # type: ignore[arg-type]
        try:
            run._collected = cluster.collected
            with Slow(clock.advance, latency_s) as slow:
                begin = clock.now()
                run._run_pool(journal, cluster, tasks, (), meter)
                took = clock.now() - begin
            assert len(journal.units) == num_units
        finally:
            run._collected = _collected
    return {"took_s": took, "busy_s": took - clock.waited_s, "syncs": slow.num_syncs}


def put_together(latency_s: float, num_units: int) -> float:
    """Assemble a set of so many shards, each call of the file system really waiting; return the seconds."""
    with journal_in(fresh_folder("simulated")) as journal:
        for number in range(num_units):
            names = [f"c/{number:05d}-{place:03d}.jpg" for place in range(100)]
            rows = ShardRows(["image"] * 100, names, [9] * 100, [0] * 100, [1] * 100)
            digest = save_rows(journal.path, f"u{number:05d}-s0000", rows, np.arange(100, dtype=np.uint64))
            unit = _unit(number, digest, save_sidecars(journal.path, number, {}), 100)
            journal.shards[number], journal.units[number] = list(unit.shards), unit
            (journal.path / f"u{number:05d}-s0000.lmdb").touch()
        with Slow(time.sleep, latency_s):
            begin = time.perf_counter()
            assemble(journal, FolderRecipe(), "tree", ())
            return time.perf_counter() - begin


def steps() -> list[tuple[str, str, float]]:
    """Measure the steps of the coordinator, for real and without latency."""
    with journal_in(fresh_folder("simulated")) as journal:
        for number in range(UNITS):
            for ending in ("-s0000.lmdb", "-s0000.rows.npz", ".sidecars.npz"):
                (journal.path / f"u{number:05d}{ending}").touch()
        running = [(UNITS + number, 1 << 30) for number in range(WORKERS)]
        for number, _ in running:
            (journal.path / f"u{number:05d}-s0000.0123abcd.tmp").touch()
        ended: queue.SimpleQueue[Future[UnitDone]] = queue.SimpleQueue()

        def take() -> None:
            ended.put(Future())
            next(run._collected(ended))

        units = [_unit(number, "0" * 64, "0" * 64) for number in range(400)]

        def look() -> None:
            PoolProgress(journal.path, 1.0, _Quiet()).look(running)  # type: ignore[arg-type]

        alone = [lambda unit=unit: journal.add_units([unit]) for unit in units[:50]]
        many = [lambda start=start: journal.add_units(units[start : start + 100]) for start in range(0, 400, 100)]
        found = [
            ("journal: one unit, with its sync", "each unit", _least(alone)),
            ("journal: 100 units, with their sync", "where 100 ended together", _least(many)),
            ("`Build.check`: is the build still ours?", "each turn", _least([journal.check] * 50)),
            ("taking a finished unit from the queue", "each unit", _least([take] * 50)),
            (
                f"progress: the shards of {WORKERS:,} units",
                "at most every 0.25 s",
                _least([look] * 5),
            ),
        ]
    return found


def _least(calls: list[Any]) -> float:
    """Return the time of the fastest call: what other programs do not slow down."""
    times = []
    for call in calls:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def task_bytes(num_files: int) -> int:
    """Return the size of a pickled task for so many files of a tree."""
    names = tuple(f"n{number // 1000:08d}/n{number // 1000:08d}_{number:09d}.JPEG" for number in range(num_files))
    sizes = memoryview(np.full(num_files, 110_000)).tolist()
    unit = TreeUnit(Path("/data/imagenet/train"), names, sizes, "0" * 32)
    return len(pickle.dumps(Task(7, unit, FolderRecipe(), Path("/data/x.records.build.owner"), 1 << 30, "keep")))


def section() -> str:
    """Measure all of it and make the section."""
    rows = []
    for latency_ms in LATENCIES_MS:
        latency_s = latency_ms / 1000
        full = simulate(latency_s, UNITS, WORKERS, UNIT_S)
        alone = simulate(latency_s, 500, 1, 0.0)["took_s"] / 500
        most = SATURATED / simulate(latency_s, SATURATED, WORKERS, 0.0)["took_s"]
        together = put_together(latency_s, 1000) / 1000 * UNITS
        rows.append((latency_ms, full["took_s"], int(full["syncs"]), alone, most, together))
        print(rows[-1], file=sys.stderr, flush=True)
    return made(rows, steps())


def made(rows: list[tuple[int, float, int, float, float, float]], found: list[tuple[str, str, float]]) -> str:
    """Make the section: of each latency in ms the time, syncs, a unit's cost, most units a second, time at the end."""
    lines = [
        (
            f"{latency_ms} ms",
            f"{took:.0f} s",
            f"{syncs:,}",
            f"{1000 * alone:.1f} ms",
            f"{most:,.0f}",
            f"{most * UNIT_S:,.0f}",
            f"{together:.0f} s",
        )
        for latency_ms, took, syncs, alone, most, together in rows
    ]
    times = [(what, when, f"{1000 * value:.3g} ms") for what, when, value in found]
    task_kb = f"{task_bytes(TASK_FILES) / 1000:.0f} KB"
    times.append((f"a task with the names of {TASK_FILES:,} files: its size", "each unit", task_kb))
    return _TEXT.format(
        units=UNITS,
        machine=machine(),
        table=table(_HEAD, lines, numbers=True),
        steps=table(("step", "when", "cost"), times),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="print the section, write nothing")
    options = parser.parse_args()
    text = section()
    shutil.rmtree(fresh_folder("simulated"))
    if options.print:
        print(text)
        return
    write_section(SECTION, text)


if __name__ == "__main__":
    main()
