"""What a coordinator of many workers does: one sync for many units, few looks at a slow disk; and its simulation."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cluster_simulation
from benchmarks.cluster_simulation import journal_in
from recordzoo.base.progress import LogProgress
from recordzoo.preparing.journal import JOURNAL_NAME, in_threads, read_lines
from recordzoo.preparing.rows import ShardDone, UnitDone
from recordzoo.preparing.run import PoolProgress


def unit(number: int, num_shards: int = 2) -> UnitDone:
    shards = tuple(
        ShardDone(number, place, 20, 100, 4096, 7, "0" * 64, "1" * 64, num_images=10 + place)
        for place in range(num_shards)
    )
    return UnitDone(number, shards, "2" * 64, {}, {})


class TestJournal:
    def test_many_units_take_one_sync(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with journal_in(tmp_path) as journal:
            journal.add_shard(unit(2).shards[0])
            syncs: list[int] = []
            original = os.fsync
            monkeypatch.setattr(os, "fsync", lambda fd: (syncs.append(fd), original(fd))[1])
            assert journal.add_units([unit(number) for number in range(1, 9)]) == [21, 11, *[21] * 6]
            assert len(syncs) == 1
            lines = list(read_lines(journal.path / JOURNAL_NAME))
        shards = [(line["shard"]["unit"], line["shard"]["number"]) for line in lines if "shard" in line]
        assert sorted(shards) == [(number, place) for number in range(1, 9) for place in range(2)]
        assert [line["unit"]["unit"] for line in lines if "unit" in line] == list(range(1, 9))
        assert journal.shards == {number: list(unit(number).shards) for number in range(1, 9)}
        assert journal.units == {number: unit(number) for number in range(1, 9)}

    def test_of_a_torn_write_each_line_is_true(self, tmp_path: Path) -> None:
        """However much of it is on the disk: a unit that is there has all of its shards there, too."""
        with journal_in(tmp_path) as journal:
            journal.add_units([unit(number, number) for number in range(4)])
            data = (journal.path / JOURNAL_NAME).read_bytes()
        torn = tmp_path / "torn"
        for length in range(0, len(data) + 1, 7):
            torn.write_bytes(data[:length])
            shards: dict[int, int] = {}
            for line in read_lines(torn):
                if "shard" in line:
                    shards[line["shard"]["unit"]] = shards.get(line["shard"]["unit"], 0) + 1
                else:
                    assert line["unit"]["shards"] == shards.get(line["unit"]["unit"], 0)


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
        shard = tmp_path / "u00000-s0000.abc.tmp"
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
            (tmp_path / f"u{number:05d}-s0000.abc.tmp").write_bytes(bytes(10))
        times = iter([0.0, 0.4, 0.9, 1.1, 1.1])  # before the third file the second is over
        PoolProgress(tmp_path, 1.0, progress, lambda: next(times)).look([(number, 1000) for number in range(3)])
        assert sum(heard) == 20

    def test_only_running_units_are_looked_at(self, tmp_path: Path) -> None:
        heard: list[int] = []
        progress: Any = LogProgress()
        progress.advance = lambda num_bytes=0, num_images=0: heard.append(num_bytes)
        (tmp_path / "u00000-s0000.lmdb").write_bytes(bytes(10))
        (tmp_path / "u00001-s0000.lmdb").symlink_to(tmp_path / "nothing")
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


class TestSimulation:
    def test_a_slow_file_system_makes_fewer_syncs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cluster_simulation, "fresh_folder", lambda name: tmp_path)
        found = [cluster_simulation.simulate(latency_s, 60, 20, 0.5) for latency_s in (0.0, 0.5)]
        assert found[1]["syncs"] < found[0]["syncs"] <= 60 + 5
        assert found[1]["took_s"] > found[0]["took_s"] >= 60 / 20 * 0.5 * 0.7
        assert found[1]["busy_s"] <= found[1]["took_s"]
