"""The comparison: formats are written and read in turn, each time in a fresh process; no torch."""

import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.formats import NAMES
from benchmarks.formats.base import Format, Reading, find_format
from benchmarks.formats.measure import measure, write
from benchmarks.formats.pictures import gather
from benchmarks.formats.results import Comparing, Result
from benchmarks.usage import CAN_FORGET
from recordzoo.base.process import cores
from recordzoo.cli.bench import DEFAULT, in_fresh_process


def compare(
    tree: Path,
    work: Path,
    *,
    num_images: int,
    repeats: int,
    tell: Callable[[str], None],
    names: Sequence[str] = NAMES,
    workers: Sequence[int] | None = None,
) -> Comparing:
    """Write all formats and read them, in turn, so many times over; then remove them.

    Args:
        tree: Class folders with the images.
        work: Where a temporary folder for all formats is made.
        tell: Told each measurement in a line.
        workers: The numbers of workers. Default: 0, 2 and a worker for each core.
    """
    load, workers = os.getloadavg()[0], workers or sorted({0, 2, cores()})
    results = [_result(find_format(name)) for name in names]
    with tempfile.TemporaryDirectory(prefix="formats-", dir=work, ignore_cleanup_errors=True) as folder:
        run = _Run(tree, Path(folder), num_images, tell)
        for number in range(repeats):
            run.round(f"{number + 1}/{repeats}", results if number % 2 == 0 else results[::-1], workers)
        return Comparing(
            num_images=run.num_images,
            image_bytes=run.num_bytes,
            workers=workers,
            repeats=repeats,
            batch_size=Reading().batch_size,
            transform=DEFAULT,
            can_be_cold=CAN_FORGET,
            load=load,
            cores=cores(),
            results=results,
        )


class _Run:
    """The measurements, in a folder of their own."""

    def __init__(self, tree: Path, folder: Path, num_images: int, tell: Callable[[str], None]) -> None:
        self._folder, self._tell = folder, tell
        self._source = folder / "source"
        in_fresh_process(gather, tree, num_images, self._source)
        files = [path for path in self._source.rglob("*") if path.is_file()]
        self.num_images, self.num_bytes = len(files), sum(path.stat().st_size for path in files)

    def round(self, which: str, results: Sequence[Result], workers: Sequence[int]) -> None:
        """Write and read all formats once."""
        for result in results:
            self._try(result, f"{which} {result.format.title}", self._write)
        for number in workers:
            for result in results:
                what = f"{which} {number} workers, {result.format.title}"
                self._try(result, what, functools.partial(self._read, number))

    def _write(self, result: Result) -> str:
        took, result.size_bytes = in_fresh_process(write, result.format, self._place(result), self._source)
        result.write_s.append(took)
        return f"written in {took:.2f} s"

    def _read(self, workers: int, result: Result) -> str:
        reading = Reading(workers=workers)
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

    def _place(self, result: Result) -> Path:
        return self._folder / result.format.name


def _result(made: Format) -> Result:
    missing = " and ".join(made.missing)
    return Result(made, left_out=f"{missing} is not installed. Run: {made.install}" if missing else "")
