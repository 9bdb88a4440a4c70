"""`Crew`: results in order, one progress in one thread, and one end for all."""

import threading

import pytest

from recordzoo.base.progress import SilentProgress
from recordzoo.errors import ArgumentError
from recordzoo.net.part import Crew, StoppedError


def test_results_are_in_the_order_of_the_items():
    second_began = threading.Event()

    def work(item):
        if item == 1:
            assert second_began.wait(30)
        else:
            second_began.set()
        return item * 10

    assert Crew(SilentProgress(), 2).run(work, [1, 2, 3]) == [10, 20, 30]
    assert Crew(SilentProgress(), 2).run(work, []) == []


def test_an_error_ends_the_other_calls_and_waits_for_them():
    crew, ended, begun = Crew(SilentProgress(), 2), [], threading.Event()

    def work(item):
        if item == "fails":
            assert begun.wait(30)
            raise ValueError(item)
        begun.set()
        try:
            crew.stop.sleep(30)
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match="fails"):
        crew.run(work, ["waits", "fails", "is not begun"])
    assert ended == ["waits"]
    for call in (lambda: crew.advance(1), lambda: crew.note("more"), crew.stop.check):
        with pytest.raises(StoppedError):
            call()


def test_what_the_progress_raises_is_raised_in_the_thread_that_waits():
    class Interrupted(SilentProgress):
        def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
            raise KeyboardInterrupt

    crew = Crew(Interrupted(), 2)
    with pytest.raises(KeyboardInterrupt):
        crew.run(lambda item: crew.advance(item), [1, 2, 3])


def test_there_is_at_least_one_worker():
    with pytest.raises(ArgumentError, match="Argument workers is 0; it must be at least 1"):
        Crew(SilentProgress(), 0)
