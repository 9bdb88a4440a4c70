"""Any `concurrent.futures.Executor` converts, with the same bytes, however units are placed and how often they run."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from recordzoo.errors import PrepareError, SourceError
from recordzoo.preparing.preparation import ensure
from tests.fakes import simple
from tests.fakes.samples import Samples
from tests.fakes.simple import SimpleRecipe
from tests.preparing import SHARD_BYTES, contents


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("raw")
    for form in ("tree", "nested"):
        simple.write(root, form)
    return root


@pytest.fixture(scope="module")
def wanted(raw: Path) -> dict[str, str]:
    """The files of a set that this process made of the tree."""
    return contents(prepared(raw, raw / "wanted.records", workers=1))


# Any: the options of `ensure`.
def prepared(raw: Path, place: Path, form: str = "tree", **options: Any) -> Path:
    return ensure(SimpleRecipe(form), raw, **{"shard_bytes": SHARD_BYTES, "records_dir": place, **options})


Change = Callable[[dict[str, Any]], dict[str, Any]]
HERE = socket.gethostname()


class Hands(Executor):
    """Threads that get pickled calls, as workers of other processes do; a test may look at each call and change it."""

    def __init__(self, workers: int = 2, change: Change = lambda call: call) -> None:
        self._pool = ThreadPoolExecutor(workers)
        self._change = change
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        sent = pickle.dumps((fn, [self._change(call) for call in args], kwargs))
        return self._pool.submit(run_pickled, sent)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def run_pickled(sent: bytes) -> Any:
    function, arguments, named = pickle.loads(sent)
    return function(*arguments, **named)


def test_threads_and_processes(raw: Path, wanted: dict[str, str], tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert contents(prepared(raw, tmp_path / "threads.records", executor=pool)) == wanted
        assert pool.submit(int).result() == 0  # it is left running
    with Hands() as hands:
        assert contents(prepared(raw, tmp_path / "hands.records", executor=hands)) == wanted
        assert hands.calls > 5


@pytest.mark.slow
def test_processes_without_an_initializer_get_the_dataset(tmp_path: Path) -> None:
    samples = Samples("bytes", 40)
    wanted = contents(recordzoo.convert(samples, tmp_path / "wanted.records", workers=1, num_shards=4))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = recordzoo.convert(samples, tmp_path / "made.records", executor=pool, num_shards=4)
    assert contents(made) == wanted


class Twice(Hands):
    """Runs each unit in two workers at the same moment, of which the first counts."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        both = [super(Twice, self).submit(fn, *args, **kwargs) for _ in range(2)]
        first: Future[Any] = Future()

        def ended(future: Future[Any]) -> None:
            if not first.done():
                first.set_result(future.result())

        for each in both:
            each.add_done_callback(ended)
        self.runs = [*getattr(self, "runs", []), *both]
        return first


def test_a_unit_runs_twice_at_the_same_time(raw: Path, wanted: dict[str, str], tmp_path: Path) -> None:
    with Twice(4) as hands:
        assert contents(prepared(raw, tmp_path / "twice.records", executor=hands)) == wanted
    assert os.listdir(tmp_path) == ["twice.records"]  # a slower run adds nothing to what was published and removed


def test_a_relative_root_means_the_same_to_workers(
    raw: Path, wanted: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have other current directories: this one has when they run."""
    monkeypatch.chdir(raw)

    def elsewhere(call: dict[str, Any]) -> dict[str, Any]:
        os.chdir(tmp_path)
        return call

    with Hands(change=elsewhere) as hands:
        assert contents(prepared(Path(), tmp_path / "x.records", executor=hands)) == wanted


def test_other_versions_are_refused(raw: Path, tmp_path: Path) -> None:
    def older(call: dict[str, Any]) -> dict[str, Any]:
        return {**call, "versions": {**call["versions"], "recordzoo": "0.0.1"}}

    with Hands(change=older) as hands, pytest.raises(PrepareError) as caught:
        prepared(raw, tmp_path / "x.records", executor=hands)
    text = f"The worker on {HERE} has recordzoo {recordzoo.__version__} instead of 0.0.1. "
    assert str(caught.value).startswith(text)


def test_a_worker_that_does_not_see_the_build(raw: Path, tmp_path: Path) -> None:
    def lost(call: dict[str, Any]) -> dict[str, Any]:
        path = Path(call["shared"]["path"])
        return {**call, "host": "login1", "shared": {**call["shared"], "path": str(path.parent / "x" / path.name)}}

    with Hands(change=lost) as hands, pytest.raises(PrepareError) as caught:
        prepared(raw, tmp_path / "x.records", executor=hands)
    assert f"Host {HERE}: The worker on {HERE} cannot read {tmp_path}" in str(caught.value)
    assert "put both on a shared file system" in str(caught.value)


def test_an_error_of_another_host_names_it(raw: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    simple.write(root, "nested")

    def broken(call: dict[str, Any]) -> dict[str, Any]:
        (root / simple.FORMS["nested"]).unlink(missing_ok=True)
        return {**call, "host": "login1"}

    with Hands(1, broken) as hands, pytest.raises(SourceError, match=f"^Host {HERE}: .*cannot be opened"):
        prepared(root, tmp_path / "x.records", "nested", executor=hands)


def test_a_worker_finishes_nothing_when_the_preparation_has_ended(
    raw: Path, wanted: dict[str, str], tmp_path: Path
) -> None:
    place, build = tmp_path / "x.records", tmp_path / "x.records.build"

    class Ended(SimpleRecipe):
        def extract(self, member: Any) -> Iterator[Any]:
            for path in build.glob("task.*"):
                path.unlink()
            yield from super().extract(member)

    options = {"shard_bytes": SHARD_BYTES, "records_dir": place}
    with Hands(1) as hands, pytest.raises(PrepareError, match="is gone: the preparation has ended"):
        ensure(Ended("tree"), raw, executor=hands, **options)
    assert list(build.glob("u*")) == []
    assert contents(prepared(raw, place, workers=1)) == wanted


def test_an_executor_that_is_shut_down_half_way(raw: Path, wanted: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "x.records"

    class ShutDown(Hands):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future = super().submit(fn, *args, **kwargs)
            if self.calls == 4:
                future.cancel() or future.result()
                self.shutdown(cancel_futures=True)
                lost: Future[Any] = Future()
                lost.cancel()
                lost.set_running_or_notify_cancel()
                return lost
            return future

    with ShutDown(1) as hands, pytest.raises(PrepareError, match=r"lost its workers, or was shut down|no more units"):
        prepared(raw, place, executor=hands)
    assert contents(prepared(raw, place, workers=1)) == wanted
