import contextlib
import functools
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

from recordzoo.base.progress import LogProgress
from recordzoo.errors import PrepareError
from recordzoo.preparing.publish import Build, Output, publishing
from tests import preparing
from tests.disks import failing
from tests.fakes import simple
from tests.fakes.server import FileServer
from tests.fakes.simple import FORMS
from tests.preparing import (
    Ended,
    Process,
    again,
    assert_made,
    beside,
    builds,
    contents,
    group_members,
    served,
    wait_for,
)

RANKS = 8

slow = functools.partial(pytest.param, marks=pytest.mark.slow)


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


def at_once(count: int, start: Callable[[], Process]) -> list[Ended]:
    """Run several processes at once, to their ends."""
    with several(count, start) as processes:
        return [process.end() for process in processes]


def converted(ended: list[Ended]) -> int:
    """How many of the processes began to convert."""
    return sum("Preparing simple:" in each.log for each in ended)


class TestAllAtOnce:
    @pytest.mark.slow
    @pytest.mark.parametrize("has_locks", [True, False])
    def test_one_download_and_one_conversion(self, has_locks: bool, tmp_path: Path) -> None:
        """Without locks some of it is done twice."""
        archive = simple.write(tmp_path / "server", "stream")
        root = tmp_path / "root"
        with FileServer(tmp_path / "server") as server:
            options = {**served(archive, server.url), "check": True, "locks": has_locks, "discard_raw": not has_locks}
            ended = at_once(RANKS if has_locks else 4, lambda: Process(root, "stream", **options))
            assert len({each.digest for each in ended}) == 1
            if has_locks:
                assert server.sent(archive.name) == archive.stat().st_size
                assert (len(server.log), converted(ended)) == (1, 1)
        assert beside(root, "stream") == ["simple.records"]

    def test_without_locks_another_process_may_have_discarded_the_download_of_both(self, tmp_path: Path) -> None:
        archive, root = simple.write(tmp_path / "server", "stream"), tmp_path / "root"
        with FileServer(tmp_path / "server") as server:
            options = {**served(archive, server.url), "locks": False, "discard_raw": True, "workers": 1}
            with Process(root, "stream", stop_at="unit.done", **options) as slower:
                slower.wait_until_stopped()
                (other,) = at_once(1, lambda: Process(root, "stream", **options))
                slower.signal(signal.SIGCONT)
                assert slower.end().digest == other.digest
        assert beside(root, "stream") == ["simple.records"]

    @pytest.mark.parametrize(
        ("form", "error"), [("stream", "ENOLCK"), *(slow(form, "ENOSYS") for form in ("stream", "tree"))]
    )
    def test_where_the_system_has_no_locks(
        self, form: str, error: str, whole: dict[str, dict[str, str]], tmp_path: Path
    ) -> None:
        """Perhaps work is done twice, but there is one set, right for every process."""
        simple.write(tmp_path, form)
        start = functools.partial(Process, tmp_path, form, prefix=failing("flock", error), check=True, workers=1)
        ended = at_once(4, start)
        assert_made(tmp_path, form, whole[form], ended)

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

    def test_after_a_crash_still_only_one_converts(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        """A dead build must not tempt all of those that restart at once."""
        simple.write(tmp_path, "stream")
        preparing.run(tmp_path, "stream", env={"RECORDZOO_KILL_AT": "shard.done:2"}, workers=1)
        ended = at_once(RANKS, lambda: Process(tmp_path, "stream", workers=1))
        assert len({each.digest for each in ended}) == 1
        assert converted(ended) == 1
        assert sum("are already converted" in each.log for each in ended) == 1
        assert_made(tmp_path, "stream", whole["stream"])

    def test_two_that_refresh(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        again(tmp_path, "stream")
        ended = at_once(3, lambda: Process(tmp_path, "stream", refresh=True, workers=1))
        assert_made(tmp_path, "stream", whole["stream"], ended)


def open_files(pid: int) -> list[str]:
    """List the names of the files that a process has open; none if it has ended."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                names.append(each.readlink().name)
    return names


class TestTakingOver:
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

    @pytest.mark.slow
    def test_an_orphan_that_still_works_keeps_no_lock(self, whole: dict[str, dict[str, str]], tmp_path: Path) -> None:
        """The builder is killed, and one of its workers is stopped: the lock is free all the same."""
        simple.write(tmp_path, "tree")
        with Process(tmp_path, "tree", workers=2) as process:
            wait_for(lambda: len(group_members(process.pid)) > 2, "workers")
            workers = [pid for pid in group_members(process.pid) if pid != process.pid]
            wait_for(lambda: not any("lock" in name for pid in workers for name in open_files(pid)), "that forks end")
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            process.signal(signal.SIGKILL)
            assert preparing.run(tmp_path, "tree", workers=1).digest
            process.signal(signal.SIGKILL, group=True)
        assert contents(tmp_path / "simple.records") == whole["tree"]


class TestTurns:
    """`publishing`, in threads of this process: their locks exclude each other as those of processes do."""

    def build(self, path: Path, **options: Any) -> AbstractContextManager[Build | None]:
        return publishing(Output(path), path.exists, options.pop("progress", LogProgress()), **options)

    def test_after_a_failure_the_next_need_not_wait(self, tmp_path: Path) -> None:
        """The process that failed goes on living; its build is continued."""
        for number in range(2):
            with contextlib.suppress(ZeroDivisionError), self.build(tmp_path / "x") as build:
                assert build is not None
                build.claim({"of": "x"}, 0)
                assert (build.path / "part").exists() == (number == 1)
                (build.path / "part").touch()
                raise ZeroDivisionError
        assert [path.name for path in tmp_path.iterdir()] == ["x.build"]

    def test_a_build_that_is_removed_by_hand_is_not_published(self, tmp_path: Path) -> None:
        def lose() -> None:
            with self.build(tmp_path / "x") as build:
                assert build is not None
                build.claim({"of": "x"}, 0)
                shutil.rmtree(build.path)
                build.path.mkdir()  # by another process, say
                (build.path / "lock").touch()

        with pytest.raises(PrepareError, match=r"x\.build was removed while it was written"):
            lose()
        assert not (tmp_path / "x").exists()


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
