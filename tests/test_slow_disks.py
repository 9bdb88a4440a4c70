"""Progress is asked of a disk that answers slowly; small files are read in threads."""

import threading
from pathlib import Path
from typing import Any

import pytest

from recordzoo.base.progress import LogProgress
from recordzoo.preparing.assemble import in_threads
from recordzoo.preparing.workers import PoolProgress


class TestLooks:
    """Progress is asked of a disk that answers slowly."""

    def advanced(self, meter: PoolProgress, heard: list[int]) -> int:
        meter.look([(0, 1000)])
        return sum(heard)

    def test_the_next_look_waits_nineteen_times_as_long_as_the_last_one_took(self, tmp_path: Path) -> None:
        heard: list[int] = []
        progress: Any = LogProgress()
        progress.advance = lambda num_bytes=0, num_images=0: heard.append(num_bytes)
        # The clock at the beginning, before the file and at the end of each look; at the beginning alone where there is
        # none.
        times = iter([0.0, 0.0, 2.0, 39.9, 40.0, 40.0, 40.0, 40.2, 40.25, 40.25, 50.0])
        meter = PoolProgress(tmp_path, 1.0, progress, lambda: next(times))
        shard = tmp_path / "u00000-00000.abc.tmp"
        shard.write_bytes(bytes(10))
        assert self.advanced(meter, heard) == 10  # from 0 to 2 s
        shard.write_bytes(bytes(20))
        assert self.advanced(meter, heard) == 10  # at 39.9 s: too early
        assert self.advanced(meter, heard) == 20  # at 40 s, in no time
        shard.write_bytes(bytes(30))
        assert self.advanced(meter, heard) == 20  # at 40.2 s: the least pause is 0.25 s
        assert self.advanced(meter, heard) == 30

    def test_a_look_ends_when_its_time_is_up(self, tmp_path: Path) -> None:
        heard: list[int] = []
        progress: Any = LogProgress()
        progress.advance = lambda num_bytes=0, num_images=0: heard.append(num_bytes)
        for number in range(3):
            (tmp_path / f"u{number:05d}-00000.abc.tmp").write_bytes(bytes(10))
        times = iter([0.0, 0.4, 0.9, 1.1, 1.1])  # before the third file the second is over
        PoolProgress(tmp_path, 1.0, progress, lambda: next(times)).look([(number, 1000) for number in range(3)])
        assert sum(heard) == 20

    def test_only_running_units_are_looked_at(self, tmp_path: Path) -> None:
        heard: list[int] = []
        progress: Any = LogProgress()
        progress.advance = lambda num_bytes=0, num_images=0: heard.append(num_bytes)
        (tmp_path / "u00000-00000.lmdb").write_bytes(bytes(10))
        (tmp_path / "u00001-00000.lmdb").symlink_to(tmp_path / "nothing")
        PoolProgress(tmp_path, 1.0, progress).look([(0, 1000)])
        assert sum(heard) == 10


class TestThreads:
    def test_results_come_in_order(self) -> None:
        both = threading.Barrier(2, timeout=30)

        def double(number: int) -> int:
            if number < 2:
                both.wait()  # two are called at the same time, or this fails
            return 2 * number

        assert list(in_threads(double, range(1000))) == list(range(0, 2000, 2))
        assert list(in_threads(double, [])) == []
        assert list(in_threads(double, [7])) == [14]

    def test_an_error_comes_at_its_place(self) -> None:
        done = []

        def fail(number: int) -> int:
            done.append(number)
            if number == 3:
                raise OSError("three")
            return number

        results = in_threads(fail, range(600))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="three"):
            next(results)
        assert max(done) < 300  # what is far behind is not begun
