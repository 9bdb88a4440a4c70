"""An epoch in progress: how far the threads work ahead, and that they end, however the epoch is left."""

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from recordzoo import RecordLoader
from tests import warm
from tests.forking import Forked, Started
from tests.preparing import wait_for

# Any: of loaders and samples of all kinds.


class Numbers:
    """0, 1, 2, ..., each as a tensor; something may be done for each of them."""

    def __init__(self, count: int = 100, work: Callable[[int], object] = int) -> None:
        self.count, self.work = count, work

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.work(index)
        return torch.full((2, 3), index)


def threads() -> list[threading.Thread]:
    """Return the loaders' threads; daemons live as long as the process."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("recordzoo") and not thread.daemon]


pytestmark = pytest.mark.usefixtures("threads")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    _wait_for_the_end_of_threads()  # what a test of another file left to the garbage collector
    yield
    _wait_for_the_end_of_threads()


def _wait_for_the_end_of_threads() -> None:
    gc.collect()
    wait_for(lambda: not threads(), "the end of all threads")


# Threads


def test_all_threads_are_there_and_torch_is_alone_in_each() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for _ in range(20):
            seen: dict[int, int] = {}
            barrier = threading.Barrier(4)

            def look(index: int, barrier: threading.Barrier = barrier, seen: dict[int, int] = seen) -> None:
                if index < 4:
                    barrier.wait(30)
                seen[threading.get_ident()] = torch.get_num_threads()

            iterator = iter(RecordLoader(Numbers(16, look), 4, num_workers=4))
            next(iterator)
            assert len(threads()) == 4
            assert len(list(iterator)) == 3
            assert list(seen.values()) == [1] * 4
            found: list[int] = []
            thread = threading.Thread(target=lambda found=found: found.append(torch.get_num_threads()))
            thread.start()
            thread.join()
            assert [torch.get_num_threads(), *found] == [3, 3]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("prefetch_factor", "num_workers"), [(0, 1), (2, 2), (5, 3), (None, 2)])
def test_work_ahead_is_bounded(prefetch_factor: int | None, num_workers: int) -> None:
    made: list[int] = []
    loader = RecordLoader(Numbers(100, made.append), 5, num_workers=num_workers, prefetch_factor=prefetch_factor)
    ahead = 2 if prefetch_factor is None else prefetch_factor
    iterator: Any = iter(loader)
    assert made == []
    for number in range(1, 4):
        next(iterator)
        wait_for(lambda number=number: len(made) == 5 * (number + ahead), "work ahead")
    iterator.close()
    assert sorted(made) == list(range(5 * (3 + ahead)))


def test_the_default_is_the_cores_shared_with_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert RecordLoader(range(3)).num_workers == cores
    for neighbours, expected in (("2", max(1, cores // 2)), ("999", 1), ("", cores)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", neighbours)
        assert RecordLoader(range(3)).num_workers == expected


def test_nothing_is_done_before_the_first_batch_is_asked_for() -> None:
    made: list[int] = []
    loader = RecordLoader(Numbers(16, made.append), 4, num_workers=2, seed=1, shuffle=True)
    before = loader.state_dict()
    iterator: Any = iter(loader)
    closed: Any = iter(loader)
    closed.close()
    assert (threads(), made, loader.state_dict()) == ([], [], before)
    assert list(closed) == []
    loader.set_epoch(5)  # as Lightning, which has called iter() by then
    found = torch.cat(list(iterator))
    assert loader.state_dict()["epoch"] == 5
    right = RecordLoader(Numbers(16), 4, num_workers=2, seed=1, shuffle=True)
    right.set_epoch(5)
    assert torch.equal(found, torch.cat(list(right)))


def test_epochs_are_in_the_order_in_which_they_begin() -> None:
    loader, right = (RecordLoader(range(50), 50, shuffle=True, seed=1) for _ in range(2))
    later, sooner = iter(loader), iter(loader)
    assert [next(sooner).tolist(), next(later).tolist()] == [batch.tolist() for _ in range(2) for batch in right]


def test_an_older_epoch_does_not_move_the_state() -> None:
    loader = RecordLoader(range(50), 10, num_workers=1)
    older, newer = iter(loader), iter(loader)
    assert [next(older).tolist(), next(newer).tolist()] == [list(range(10))] * 2
    state = loader.state_dict()
    assert next(older).tolist() == list(range(10, 20))
    assert loader.state_dict() == state


# How it is left


def take_all(iterator: Any) -> None:
    assert len(list(iterator)) == 12


def close(iterator: Any) -> None:
    iterator.close()
    assert list(iterator) == []
    iterator.close()


def forget_in_a_cycle(iterator: Any) -> None:
    cycle: list[Any] = [iterator]
    cycle.append(cycle)


@pytest.mark.parametrize("leave", [take_all, close, forget_in_a_cycle, lambda iterator: None])
def test_an_epoch_that_is_left(leave: Callable[[Any], None]) -> None:
    """At its end, by `close`, forgotten in a cycle, by `break`: the threads end, and another epoch can begin."""
    loader = RecordLoader(Numbers(), 8, num_workers=3)
    for _ in range(2):
        iterator = iter(loader)
        next(iterator)
        assert len(threads()) == 3
        leave(iterator)
        if leave in (take_all, close):
            assert threads() == []
            assert list(iterator) == []
        del iterator
        gc.collect()
        wait_for(lambda: not threads(), "the end of the threads")
    assert len(list(loader)) == 13


def test_what_was_not_begun_is_not_made_for_nobody() -> None:
    go_on, begun = threading.Event(), list[int]()
    numbers = Numbers(100, lambda index: begun.append(index) or (index and go_on.wait(30)))
    iterator = iter(RecordLoader(numbers, 1, num_workers=1, prefetch_factor=20))
    next(iterator)
    wait_for(lambda: 1 in begun, "the second sample")
    del iterator
    gc.collect()
    go_on.set()
    wait_for(lambda: not threads(), "the end of the threads")
    assert begun == [0, 1]


def test_timeout() -> None:
    go_on = threading.Event()
    loader = RecordLoader(Numbers(100, lambda index: index == 9 and go_on.wait(60)), 8, num_workers=2, timeout=0.2)
    iterator = iter(loader)
    try:
        next(iterator)
        with pytest.raises(TimeoutError, match=r"timeout=0\.2 seconds"):
            next(iterator)
        assert list(iterator) == []
    finally:
        go_on.set()
    assert len(list(loader)) == 13


# Processes


def start(code: str) -> Forked | Started:
    """Run code after `import`s of what it needs; `Numbers` and `threads` are those above."""
    head = (
        "import gc, os, signal, sys, threading, time, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # of forks with threads
        "import torch\n"
        "sys.platform == 'linux' and torch.multiprocessing.set_start_method('fork')\n"
        "from recordzoo import RecordLoader\n"
        "from tests.test_iteration import Numbers, threads\n"
        "from tests.preparing import wait_for\n"
    )
    return warm.start(head + code)


def end(process: Forked | Started) -> tuple[int, str, str]:
    with process:  # which closes its pipes
        try:
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    return process.wait(), out, err


SLOW = "loader = RecordLoader(Numbers(10**6, lambda index: time.sleep(0.01)), 8, num_workers=3)\n"


@pytest.mark.slow
def test_ctrl_c() -> None:
    """The loop ends at once, no thread is left, and another epoch can begin."""
    process = start(
        SLOW
        + "try:\n"
        + "    for number, _ in enumerate(loader):\n"
        + "        number == 1 and print('ready', flush=True)\n"
        + "except KeyboardInterrupt:\n"
        + "    wait_for(lambda: not threads(), 'the end of the threads')\n"
        + "    print('interrupted', len(next(iter(loader))), flush=True)\n"
    )
    assert next(process.lines("stdout")) == "ready\n"
    process.send_signal(signal.SIGINT)
    assert end(process) == (0, "interrupted 8\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(("leave", "code"), [("pass", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_the_process_ends_in_the_middle(leave: str, code: int) -> None:
    process = start(
        SLOW + f"iterator = iter(loader)\nnext(iterator)\nnext(iterator)\nprint('here', flush=True)\n{leave}"
    )
    returncode, out, err = end(process)
    assert (returncode, out) == (code, "here\n")
    assert ("ZeroDivisionError" in err) if code == 1 else (err == "")


@needs_fork
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.slow
def test_a_child_that_goes_on_with_its_parents_iterator(device: str) -> None:
    """It would wait for ever for threads that it does not have: it is told at once, and the parent goes on."""
    process = start(
        "from recordzoo.errors import ForkError\n"
        f"iterator = iter(RecordLoader(Numbers(), 8, num_workers=3, device={device!r}))\n"
        "next(iterator)\n"
        "parent, child = os.getpid(), os.fork()\n"
        "if not child:\n"
        "    for _ in range(2):\n"
        "        try:\n"
        "            next(iterator)\n"
        "        except ForkError as err:\n"
        "            assert f'began in process {parent}.' in str(err) and 'iter(loader)' in str(err)\n"
        "            print('refused', flush=True)\n"
        "    iterator.close()\n"
        "    os._exit(7)\n"
        "_, status = os.waitpid(child, 0)\n"
        "print(os.waitstatus_to_exitcode(status), len(list(iterator)), flush=True)\n"
    )
    assert end(process) == (0, "refused\nrefused\n7 12\n", "")


@needs_fork
@pytest.mark.slow
def test_fork_while_a_sample_is_made() -> None:
    """A thread of the parent is in the user's code then."""
    process = start(
        "parent, begun, go_on = os.getpid(), threading.Event(), threading.Event()\n"
        "def work(index):\n"
        "    begun.set()\n"
        "    assert os.getpid() != parent or go_on.wait(60)\n"
        "loader = RecordLoader(Numbers(40, work), 8, num_workers=2, workers='threads')\n"
        "thread = threading.Thread(target=lambda: list(loader))\n"
        "thread.start()\n"
        "begun.wait(60)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    print('child', len(list(loader)), flush=True)\n"
        "    os._exit(7)\n"
        "_, status = os.waitpid(child, 0)\n"
        "go_on.set()\n"
        "thread.join()\n"
        "print(os.waitstatus_to_exitcode(status), flush=True)\n"
    )
    assert end(process) == (0, "child 5\n7\n", "")
