"""Work that is done once, in a process that Ctrl-C interrupts or that forks: real signals, real processes."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from recordzoo.base.process import Once
from tests.preparing import wait_for
from tests.running import exit_code, fork


class Work:
    """Counts its runs; each lasts until `go_on` is set."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.go_on, self.runs, self.before = threading.Event(), 0, before

    def __call__(self) -> int:
        self.runs += 1
        self.before()
        assert self.go_on.wait(60)
        return self.runs


def test_one_run_for_many_threads() -> None:
    work = Work()
    once, found = Once(work, -1), []
    threads = [threading.Thread(target=lambda: found.append(once())) for _ in range(4)]
    for thread in threads:
        thread.start()
    work.go_on.set()
    for thread in threads:
        thread.join()
    assert [*found, once()] == [1] * 5


def test_ctrl_c_ends_the_waiting_and_not_the_work() -> None:
    def press() -> None:
        wait_for(lambda: once._run is not None, "the caller, which waits then")
        os.kill(os.getpid(), signal.SIGINT)

    work = Work(press)
    once = Once(work, -1)
    with pytest.raises(KeyboardInterrupt):
        once()
    work.go_on.set()
    assert (once(), work.runs) == (1, 1)


def test_what_failed_is_tried_again() -> None:
    def fail() -> None:
        if work.runs == 1:
            raise LookupError("the first time")

    work = Work(fail)
    work.go_on.set()
    once = Once(work, -1)
    with pytest.raises(LookupError, match="the first time"):
        once()
    assert [once(), once()] == [2, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_process_that_is_forked(is_ended: bool) -> None:
    """It has the result if there was one at the fork; it neither waits for the run in its parent nor starts one."""
    work = Work()
    once = Once(work, 7)
    starter = threading.Thread(target=once)
    starter.start()
    wait_for(lambda: work.runs == 1, "the run")
    if is_ended:
        work.go_on.set()
        starter.join()
    child = fork(once)
    work.go_on.set()
    starter.join()
    assert exit_code(child) == (1 if is_ended else 7)
