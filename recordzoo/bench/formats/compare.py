"""The comparison: formats are written and read in turn, each time in a fresh process; no torch."""

import functools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.bench.formats.base import Format, Place, Reading, find_format
from recordzoo.bench.formats.measure import clear, measure, write
from recordzoo.bench.formats.pictures import gather
from recordzoo.bench.formats.results import Comparing, Result
from recordzoo.bench.measure import in_fresh_process
from recordzoo.bench.transform import DEFAULT
from recordzoo.errors import DiskSpaceError
from recordzoo.preparing.space import free_bytes
from recordzoo.progress import format_bytes
from recordzoo.system.page_cache import CAN_FORGET
from recordzoo.system.processes import cores
from recordzoo.system.usage import load_average

_COPIES_OF_PARQUET = 2  # its Arrow files, too


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes:
        path: A record set, or a tree of class folders.
        split: Only a split of the record set.
        names: Of the formats.
        work: Where a temporary folder for all formats is made.
        server: MongoDB's address; "" if there is none.
        workers: The numbers of workers.
        transform, batch_size: See `Reading`.
    """

    path: Path
    split: str | None
    names: Sequence[str]
    work: Path
    num_images: int
    workers: Sequence[int]
    repeats: int
    batch_size: int = 64
    transform: str | None = None
    server: str = ""


def compare(plan: Plan, tell: Callable[[str], None]) -> Comparing:
    """Write all formats and read them, in turn, so many times over; then remove them.

    Args:
        tell: Told each measurement in a line.

    Raises:
        RecordZooError: The images cannot be had, or there is too little room.
    """
    load = load_average()
    results = [_result(find_format(name), plan) for name in plan.names]
    with tempfile.TemporaryDirectory(prefix=".bench-formats-", dir=plan.work, ignore_cleanup_errors=True) as work:
        run = _Run(plan, Path(work), tell)
        try:
            for number in range(plan.repeats):
                run.round(number, results)
        finally:
            run.clear(results)
        return Comparing(
            source=plan.path.name,
            num_images=run.num_images,
            image_bytes=run.num_bytes,
            workers=plan.workers,
            repeats=plan.repeats,
            batch_size=plan.batch_size,
            transform=plan.transform or DEFAULT,
            can_be_cold=CAN_FORGET,
            load=load,
            cores=cores(),
            results=results,
        )


class _Run:
    """The measurements, in a folder of their own."""

    def __init__(self, plan: Plan, folder: Path, tell: Callable[[str], None]) -> None:
        self._plan, self._folder, self._tell = plan, folder, tell
        self._source = folder / "source"
        in_fresh_process(gather, plan.path, plan.split, plan.num_images, self._source)
        files = [path for path in self._source.rglob("*") if path.is_file()]
        self.num_images, self.num_bytes = len(files), sum(path.stat().st_size for path in files)
        _check_space(plan, self.num_bytes)

    def round(self, number: int, results: Sequence[Result]) -> None:
        """Write and read all formats once; every second time in reverse order."""
        for result in _in_turn(results, number):
            self._try(result, f"{number + 1}/{self._plan.repeats} {result.format.title}", self._write)
        for workers in self._plan.workers:
            for result in _in_turn(results, number):
                what = f"{number + 1}/{self._plan.repeats} {workers} workers, {result.format.title}"
                self._try(result, what, functools.partial(self._read, workers))

    def clear(self, results: Sequence[Result]) -> None:
        """Remove what does not lie in the folder."""
        for result in results:
            if result.format.remove is not None and not result.left_out:
                try:
                    in_fresh_process(clear, result.format, self._place(result))
                except Exception as err:  # noqa: BLE001 - as below
                    self._tell(f"{result.format.title} was not removed: {type(err).__name__}: {err}")

    def _write(self, result: Result) -> str:
        took, result.size_bytes = in_fresh_process(write, result.format, self._place(result), self._source)
        result.write_s.append(took)
        return f"written in {took:.2f} s"

    def _read(self, workers: int, result: Result) -> str:
        reading = Reading(workers=workers, batch_size=self._plan.batch_size, transform=self._plan.transform)
        measured = in_fresh_process(
            measure, result.format, self._place(result), reading, self.num_images, self.num_bytes
        )
        for task, speeds in measured.items():
            result.runs.setdefault((task, workers), []).append(speeds)
        return ", ".join(f"{task} {speeds.random:,.0f}/s" for task, speeds in measured.items())

    def _try(self, result: Result, what: str, work: Callable[[Result], str]) -> None:
        if not result.is_measured:
            return
        try:
            self._tell(f"{what}: {work(result)}")
        except Exception as err:  # noqa: BLE001 - other packages raise anything; the other formats go on
            result.problem = f"{type(err).__name__}: {err}".splitlines()[0]
            self._tell(f"{what}: {result.problem}")

    def _place(self, result: Result) -> Place:
        return Place(self._folder / result.format.name, self._plan.server)


def _result(made: Format, plan: Plan) -> Result:
    if made.name == "mongodb" and not plan.server:
        return Result(made, left_out="it needs a server: --mongo mongodb://HOST")
    missing = " and ".join(made.missing)
    return Result(made, left_out=f"{missing} is not installed. Run: {made.install}" if missing else "")


def _check_space(plan: Plan, num_bytes: int) -> None:
    needed, free = (len(plan.names) + _COPIES_OF_PARQUET) * num_bytes, free_bytes(plan.work)
    if needed > free:
        raise DiskSpaceError(
            f"{plan.work} has {format_bytes(free)} free; the formats need {format_bytes(needed)}. Measure fewer images "
            "(--images), or write them elsewhere: --work DIR.",
            path=str(plan.work),
            missing_bytes=needed - free,
        )


def _in_turn(results: Sequence[Result], number: int) -> Sequence[Result]:
    return results if number % 2 == 0 else results[::-1]
