import contextlib
import functools
import itertools
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from recordzoo.base.owner import Owner
from recordzoo.base.progress import LogProgress
from recordzoo.publish import heartbeat
from recordzoo.publish import lock as build_lock
from recordzoo.publish.lock import lock_path, my_turn
from recordzoo.publish.output import find_builds, remove_dead
from tests import preparing
from tests.disks import failing
from tests.fakes import simple
from tests.fakes.server import FileServer
from tests.fakes.simple import FORMS
from tests.faults import fault
from tests.preparing import Ended, Notes, Process, again, assert_made, beside, builds, contents, served, wait_for

RANKS = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The files of a set in each form that was made without any trouble."""
    found = {}
    for form in FORMS:
        root = tmp_path_factory.mktemp(form)
        simple.write(root, form)
        found[form] = contents(again(root, form))
    return found


@contextlib.contextmanager
def several(count: int, start: Callable[[], Process]) -> Iterator[list[Process]]:
    with ExitStack() as stack:
        yield [stack.enter_context(start()) for _ in range(count)]


def converted(ended: list[Ended]) -> int:
    """How many of the processes began to convert."""
    return sum("Preparing simple:" in each.log for each in ended)


class TestAllAtOnce:
    @pytest.mark.slow
    @fault(
        "P1",
        "all ranks of a job ask for the same dataset at once, with download=True",
        "one downloads and converts, the others wait and open the same set; no process group is needed",
    )
    def test_one_download_and_one_conversion(self, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        with FileServer(tmp_path / "server") as server:
            options = {**served(archive, server.url), "check": True}
            with several(RANKS, lambda: Process(root, "stream", **options)) as processes:
                ended = [process.end() for process in processes]
            assert len({each.digest for each in ended}) == 1
            assert server.sent(archive.name) == archive.stat().st_size
            assert len(server.log) == 1
        assert converted(ended) == 1
        assert beside(root, "stream") == ["simple.records"]

    @pytest.mark.slow
    @fault(
        "P2",
        "they do so where file locks do not work",
        "perhaps work is done twice, but there is one set: the first to finish publishes",
    )
    @pytest.mark.parametrize("form", ["stream", "tree"])
    def test_without_locks(self, form: str, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        """File locks that do nothing: perhaps work is done twice, but there is one set, right for every process."""
        simple.write(tmp_path, form)
        with several(RANKS, lambda: Process(tmp_path, form, locks=False, check=True, workers=1)) as processes:
            ended = [process.end() for process in processes]
        assert_made(tmp_path, form, whole[form], ended)

    @fault("P2")
    @pytest.mark.parametrize("error", ["ENOLCK", pytest.param("ENOSYS", marks=pytest.mark.slow)])
    def test_where_the_system_has_no_locks(self, error: str, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        start = functools.partial(Process, tmp_path, "stream", prefix=failing("flock", error), check=True, workers=1)
        with several(4, start) as processes:
            ended = [process.end() for process in processes]
        assert_made(tmp_path, "stream", whole["stream"], ended)

    @fault(
        "P6",
        "each node of a job has a disk of its own, or all share one",
        "one conversion for each place, whatever the ranks are called; the sets are the same, byte for byte",
    )
    @pytest.mark.parametrize("nodes", [1, 2])
    def test_nodes_with_disks_of_their_own(self, nodes: int, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        roots = [tmp_path / f"node{number % nodes}" for number in range(4)]
        for root in set(roots):
            simple.write(root, "stream")
        with ExitStack() as stack:
            processes = []
            for rank, root in enumerate(roots):
                env = {"RANK": str(rank), "LOCAL_RANK": str(rank // nodes), "WORLD_SIZE": "4"}
                processes.append(stack.enter_context(Process(root, "stream", env=env, workers=1)))
            ended = [process.end() for process in processes]
        assert len({each.digest for each in ended}) == 1
        assert converted(ended) == nodes
        for root in set(roots):
            assert_made(root, "stream", whole["stream"])

    @pytest.mark.slow
    @fault(
        "P15",
        "many ranks write to one log",
        "only who works tells of it, the others one line a minute while they wait; nothing once the records are there",
    )
    def test_who_says_what(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        with Process(tmp_path, "stream", workers=1, stop_at="shard.done") as builder:
            builder.wait_until_stopped()
            waiting = f"Waiting for process {builder.pid} on "
            with several(4, lambda: Process(tmp_path, "stream", workers=1)) as others:
                for process in others:
                    assert process.saw(waiting)
                builder.signal(signal.SIGCONT)
                assert [process.end().log for process in others] == [""] * 4  # after that line
            log = builder.end().log
        assert "Preparing simple: " in log
        assert "Waiting" not in log
        with several(4, lambda: Process(tmp_path, "stream", workers=1)) as processes:
            ended = [process.end() for process in processes]
        assert [(each.out, each.log) for each in ended] == [(f"{ended[0].digest}\n", "")] * 4

    @pytest.mark.slow
    def test_downloads_without_locks(self, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        with FileServer(tmp_path / "server") as server:
            options = {**served(archive, server.url), "check": True}
            with several(4, lambda: Process(root, "stream", locks=False, discard_raw=True, **options)) as processes:
                ended = [process.end() for process in processes]
            assert len({each.digest for each in ended}) == 1
        assert beside(root, "stream") == ["simple.records"]

    def test_after_a_crash_still_only_one_converts(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        """A dead build must not tempt all of those that restart at once."""
        simple.write(tmp_path, "stream")
        preparing.run(tmp_path, "stream", env={"RECORDZOO_KILL_AT": "shard.done:2"}, workers=1)
        with several(RANKS, lambda: Process(tmp_path, "stream", workers=1)) as processes:
            ended = [process.end() for process in processes]
        assert len({each.digest for each in ended}) == 1
        assert converted(ended) == 1
        assert sum("are already converted" in each.log for each in ended) == 1
        assert_made(tmp_path, "stream", whole["stream"])

    @pytest.mark.slow
    def test_a_dead_build_does_not_tempt_those_who_wait(self, tmp_path: Path) -> None:
        """Whoever has the lock may need hours of download before it takes the build over."""
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        simple.write(root, "stream")
        preparing.run(root, "stream", env={"RECORDZOO_KILL_AT": "shard.done:2"}, workers=1)
        (root / archive.name).unlink()
        with FileServer(tmp_path / "server") as server:
            options = served(archive, server.url)
            with Process(root, "stream", stop_at="download.received", **options) as first:
                first.wait_until_stopped()
                with Process(root, "stream", **options) as second:
                    assert second.saw(f"Waiting for process {first.pid} on ")
                    first.signal(signal.SIGCONT)
                    assert first.end().digest == second.end().digest
            assert len(server.log) == 1
        assert beside(root, "stream") == ["simple.records"]

    def test_after_a_crash_without_locks(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        preparing.run(tmp_path, "stream", env={"RECORDZOO_KILL_AT": "shard.done:2"}, workers=1)
        with several(RANKS, lambda: Process(tmp_path, "stream", locks=False, workers=1)) as processes:
            ended = [process.end() for process in processes]
            assert_made(tmp_path, "stream", whole["stream"], ended)

    def test_two_that_refresh(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        again(tmp_path, "stream")
        with several(3, lambda: Process(tmp_path, "stream", refresh=True, workers=1)) as processes:
            ended = [process.end() for process in processes]
            assert_made(tmp_path, "stream", whole["stream"], ended)


class TestTakingOver:
    @fault(
        "P3",
        "the process that prepares dies while others wait for it",
        "one of them takes over and goes on with what is finished",
    )
    def test_the_waiting_say_for_whom_and_go_on_with_it(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        with Process(tmp_path, "stream", workers=1, stop_at="shard.done:3") as builder:
            builder.wait_until_stopped()
            (build,) = builds(tmp_path)
            finished = {path.stat().st_ino for path in build.glob("*.lmdb")}
            with several(3, lambda: Process(tmp_path, "stream", workers=1)) as waiting:
                for process in waiting:
                    assert process.saw(f"Waiting for process {builder.pid} on ")
                assert not (tmp_path / "simple.records").exists()
                builder.signal(signal.SIGKILL)
                ended = [process.end() for process in waiting]
        assert len({each.digest for each in ended}) == 1
        assert converted(ended) == 1
        (worked,) = [each for each in ended if "Preparing simple:" in each.log]
        assert "are already converted" in worked.log
        kept = {path.stat().st_ino for path in (tmp_path / "simple.records").iterdir()}
        assert len(finished) >= 3
        assert len(finished & kept) >= 3
        assert_made(tmp_path, "stream", whole["stream"])

    @fault(
        "P4",
        "the process that prepares is stopped for minutes, another takes over, and then it wakes up",
        "it finds that out, publishes nothing over the other's set, and returns that one",
    )
    @pytest.mark.parametrize("locks", [True, False])
    @pytest.mark.parametrize("step", ["build.planned", "shard.sealed:2", "shard.done", "set.arrays_written"])
    @pytest.mark.slow
    def test_one_that_is_stopped_is_taken_over_and_does_no_harm(
        self, step: str, locks: bool, whole: dict[str, dict[str, str]], tmp_path: Path
    ) -> None:
        """Like a machine that sleeps: its process looks dead, and comes back when others have done its work."""
        simple.write(tmp_path, "stream")
        with Process(tmp_path, "stream", workers=1, stop_at=step, check=True, locks=locks) as sleeper:
            sleeper.wait_until_stopped()
            second = preparing.run(tmp_path, "stream", env={"RECORDZOO_STALE_S": "0.5"}, workers=1, locks=locks)
            assert contents(tmp_path / "simple.records") == whole["stream"]
            sleeper.signal(signal.SIGCONT)
            first = sleeper.end()
        assert first.digest == second.digest
        assert_made(tmp_path, "stream", whole["stream"])

    @fault("P4")
    def test_one_that_comes_back_while_the_other_works(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        with Process(tmp_path, "stream", workers=1, stop_at="shard.sealed:2") as sleeper:
            sleeper.wait_until_stopped()
            stale = {"RECORDZOO_STALE_S": "0.5"}
            with Process(tmp_path, "stream", env=stale, workers=1, stop_at="shard.sealed:4") as second:
                second.wait_until_stopped()
                sleeper.signal(signal.SIGCONT)
                assert sleeper.saw("was taken over by another process")
                assert sleeper.saw(f"Waiting for process {second.pid} on ")
                second.signal(signal.SIGCONT)
                assert second.end().digest == sleeper.end().digest
        assert_made(tmp_path, "stream", whole["stream"])

    @pytest.mark.slow
    def test_one_that_is_stopped_while_it_downloads(self, tmp_path: Path) -> None:
        """It has a lock and no build: the lock file's age is what shows that it is silent."""
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        with FileServer(tmp_path / "server") as server:
            options = served(archive, server.url)
            with Process(root, "stream", stop_at="download.received", **options) as sleeper:
                sleeper.wait_until_stopped()
                second = preparing.run(root, "stream", env={"RECORDZOO_STALE_S": "0.5"}, **options)
                sleeper.signal(signal.SIGCONT)
                assert sleeper.end().digest == second.digest
        assert [name for name in beside(root, "stream") if ".part" not in name] == ["simple.records"]

    @pytest.mark.slow
    def test_a_pool_whose_builder_is_stopped(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        """Its workers go on by themselves for a while; what they write is nobody's any more."""
        simple.write(tmp_path, "tree")
        with Process(tmp_path, "tree", workers=2, stop_at="shard.done") as sleeper:
            sleeper.wait_until_stopped()
            second = preparing.run(tmp_path, "tree", env={"RECORDZOO_STALE_S": "0.5"}, workers=2)
            sleeper.signal(signal.SIGCONT)
            assert sleeper.end().digest == second.digest
        assert_made(tmp_path, "tree", whole["tree"])

    def test_a_build_of_another_host_is_waited_for_until_it_is_silent(
        self, whole: dict[str, dict[str, str]], tmp_path: Path
    ) -> None:
        simple.write(tmp_path, "stream")
        preparing.run(tmp_path, "stream", env={"RECORDZOO_KILL_AT": "shard.done:2"}, workers=1)
        (build,) = builds(tmp_path)
        far = Owner("node07_0123abcd", 4123, 77, "00")
        build = build.rename(tmp_path / f"simple.records.build.{far}")
        (tmp_path / ".simple.records.lock").unlink()
        with Process(tmp_path, "stream", workers=1) as process:
            assert process.saw("Waiting for process 4123 on node07, which prepares")
            os.utime(build / "heartbeat", (1, 1))
            assert process.end().digest
        assert_made(tmp_path, "stream", whole["stream"])


class TestTurns:
    def test_remove_dead_leaves_the_living_alone(self, tmp_path: Path) -> None:
        target = tmp_path / "x.records"
        mine = Owner.current()
        gone = Owner(mine.host, mine.pid, mine.start + 1, "00")  # the number is ours, but another process's
        far = Owner("node07_0123abcd", 1, 1, "00")
        for owner in (mine, gone, far, "free-1234"):
            (tmp_path / f"x.records.build.{owner}").mkdir()
        remove_dead(target)
        assert {found.owner for found in find_builds(target)} == {mine, far}

    @pytest.mark.parametrize("wrong_by_s", [-7200, 7200])
    def test_a_clock_that_is_wrong_makes_no_build_dead(
        self, wrong_by_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a network drive the server's clock stamps a heartbeat, so it tells how old that is."""
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + wrong_by_s)
        for host, age_s in (("node07_0123abcd", 0), ("node08_0123abcd", 3600)):
            heartbeat_file = tmp_path / f"x.records.build.{Owner(host, 1, 1, '00')}" / "heartbeat"
            heartbeat_file.parent.mkdir()
            heartbeat_file.touch()
            os.utime(heartbeat_file, (now - age_s, now - age_s))
        path = lock_path(tmp_path / "x.records")
        path.touch()
        build_lock._break_if_silent(path)
        assert path.exists()
        os.utime(path, (now - 3600, now - 3600))
        build_lock._break_if_silent(path)
        assert not path.exists()
        assert [found.is_dead for found in find_builds(tmp_path / "x.records")] == [False, True]
        assert len(list(tmp_path.iterdir())) == 2

    def test_a_lock_file_that_another_broke_is_not_removed(self, tmp_path: Path) -> None:
        target, other = tmp_path / "x.records", Owner("node07_0123abcd", 1, 1, "00")
        with contextlib.suppress(ZeroDivisionError), my_turn(target, lambda: False, LogProgress()) as build_it:
            assert build_it
            assert Owner.parse(lock_path(target).read_text()) is not None
            lock_path(target).write_text(f"{other}")
            raise ZeroDivisionError
        assert lock_path(target).read_text() == f"{other}"

    def test_after_a_failure_with_a_build_the_next_need_not_wait(self, tmp_path: Path) -> None:
        """The process that failed goes on living, and its lock file must not stay."""
        (tmp_path / "x.build.free-12").mkdir()
        for _ in range(2):
            with contextlib.suppress(ZeroDivisionError), my_turn(tmp_path / "x", lambda: False, LogProgress()):
                raise ZeroDivisionError
        assert not lock_path(tmp_path / "x").exists()

    def test_after_a_failure_without_a_build_nothing_is_left(self, tmp_path: Path) -> None:
        with contextlib.suppress(ZeroDivisionError), my_turn(tmp_path / "x", lambda: False, LogProgress()):
            raise ZeroDivisionError
        assert list(tmp_path.iterdir()) == []

    def test_the_longer_they_wait_the_more_rarely_they_look(self) -> None:
        naps = list(itertools.islice(build_lock._naps(), 100))
        assert 0.1 < naps[0] <= 0.2
        assert all(3.5 <= nap <= 5 for nap in naps[30:])
        assert len(set(naps)) == 100

    @fault(
        "P5",
        "a preparation takes hours, longer than any barrier of a process group would wait",
        "there is no barrier: the others look at files, and say every half minute for whom they wait and how far it is",
    )
    def test_a_wait_of_hours(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [0.0]
        monkeypatch.setattr(build_lock, "_POLL_S", (20.0, 20.0))  # 5 s take a thousand looks
        monkeypatch.setattr(build_lock, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=passes(clock)))
        build = tmp_path / f"x.records.build.{Owner('node07_0123abcd', 4123, 77, '00')}"
        (build / "set").mkdir(parents=True)
        (build / "heartbeat").touch()

        def published() -> bool:
            (build / "u00000-s0000.lmdb").write_bytes(bytes(int(clock[0])))
            return clock[0] > 7200

        told = Notes()
        with my_turn(tmp_path / "x.records", published, told) as build_it:
            assert not build_it
        assert 200 < len(told.notes) <= 240
        waiting = f"Waiting for process 4123 on node07, which prepares {tmp_path / 'x.records'}"
        assert told.notes[0] == f"{waiting}."
        assert re.fullmatch(rf"{re.escape(waiting)} \(7\.\d+ kB are written\)\.", told.notes[-1])

    def test_threads_take_turns(self, tmp_path: Path) -> None:
        done, inside, most = threading.Event(), [0], [0]

        def work() -> None:
            with my_turn(tmp_path / "x", done.is_set, LogProgress()) as build_it:
                if build_it:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    done.set()
                    inside[0] -= 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == [1]
        assert list(tmp_path.iterdir()) == []

    def test_the_living_say_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(heartbeat, "_INTERVAL_S", 0.01)
        path = lock_path(tmp_path / "x")
        with contextlib.suppress(ZeroDivisionError), my_turn(tmp_path / "x", lambda: False, LogProgress()):
            os.utime(path, (1, 1))
            wait_for(lambda: time.time() - path.stat().st_mtime < 100, "a heartbeat")
            raise ZeroDivisionError


def passes(clock: list[float]) -> Callable[[float], None]:
    """A sleep that takes no time but that of a clock."""

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    return sleep


@fault(
    "P14",
    "locks, builds and unfinished files of jobs that crashed lie around",
    "nothing blocks the next run; what belonged to the dead goes, and what is not ours stays",
)
@pytest.mark.parametrize("host", ["this", "before a restart"])
def test_what_crashed_jobs_left(host: str, tmp_path: Path) -> None:
    mine = Owner.current()
    dead = Owner(mine.host if host == "this" else "node07_0123abcd", 2**22 + 1, 1, "00")
    archive = simple.write(tmp_path / "server", "stream")
    root = tmp_path / "root"
    junk = [f"simple.records.build.{dead}", "simple.records.build.free-00"]
    for name in junk:
        (root / name / "set").mkdir(parents=True)
        (root / name / "heartbeat").touch()
        (root / name / "u00000-s0000.0f.tmp").write_bytes(b"half")
        (root / name / "journal.jsonl").write_bytes(b"[1,{")
        (root / name / "plan.json.new").touch()
    files = {
        ".simple.records.lock": str(dead),
        f".{archive.name}.recordzoo": "downloaded by recordzoo: 1 2 3",
        f"{archive.name}.part": "x",
        f"{archive.name}.part.json": "{",
        f"{archive.name}.part.{dead}": "xx",
        f"{archive.name}.part.{dead}.json": "{}",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    for name in ("simple.records.build.notes", f"{archive.name}.partial", "simple.records.lock"):
        (root / name).write_text("mine")
    for path in [*root.rglob("*"), root]:
        os.utime(path, (10**9, 10**9))
    with FileServer(tmp_path / "server") as server:
        for _ in range(2):
            assert preparing.run(root, "stream", check=True, **served(archive, server.url)).digest
    left = ["simple.records", "simple.records.build.notes", "simple.records.lock", f"{archive.name}.partial"]
    assert beside(root, "stream") == sorted(left)


def test_in_a_daemonic_process_that_process_converts(whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
    """A DataLoader's worker that is the first to need the records may have no children."""
    simple.write(tmp_path, "tree")
    process = multiprocessing.get_context("spawn").Process(
        target=again, args=(tmp_path, "tree"), kwargs={"workers": 2}, daemon=True
    )
    process.start()
    process.join(preparing.DEADLINE_S)
    assert process.exitcode == 0
    assert contents(tmp_path / "simple.records") == whole["tree"]


def test_an_owner_tells_processes_apart() -> None:
    mine = Owner.current()
    assert Owner.parse(str(mine)) == mine
    assert str(mine) != str(Owner.current())
    assert not mine.is_gone()
    assert Owner(mine.host, 2**22 + 1, 1, "00").is_gone()
    assert Owner(mine.host, mine.pid, mine.start + 1, "00").is_gone()
    assert not Owner("elsewhere_00000000", 2**22 + 1, 1, "00").is_gone()
    assert re.fullmatch(rf"process {os.getpid()} on \w+", mine.description)
    assert Owner.parse("") is Owner.parse("free-12") is Owner.parse("a-b-c-d") is None
