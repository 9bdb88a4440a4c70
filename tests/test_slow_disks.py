"""Progress is asked of a disk that answers slowly; small files are read in threads."""

import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from recordzoo.preparing.assemble import in_threads
from recordzoo.preparing.workers import PoolProgress


@pytest.mark.parametrize(("look_s", "pause_s"), [(0.001, 0.25), (2.0, 38.0)])
def test_looks_at_a_slow_disk_are_rare(
    look_s: float, pause_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look waits nineteen times as long as the last one took, and at least a quarter of a second."""
    progress = Mock()
    shard = tmp_path / "u00000-00000.abc.tmp"
    (tmp_path / "u00001-00000.lmdb").symlink_to(tmp_path / "nothing")  # of a unit that does not run
    meter = PoolProgress(tmp_path, 1.0, progress)
    times = iter([100.0, 100.0 + look_s, 100.0 + look_s + 0.9 * pause_s, *[100.0 + look_s + 1.1 * pause_s] * 2])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    for size, reported in ((10, 10), (20, 0), (30, 20)):
        shard.write_bytes(bytes(size))
        progress.advance.reset_mock()
        meter.look({0: 1000})
        assert sum(call.args[0] for call in progress.advance.call_args_list) == reported


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
