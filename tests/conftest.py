"""What holds for every test: nothing reaches beyond this machine, and the caller's environment does not count."""

import contextlib
import gc
import inspect
import ipaddress
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import extras, posix

# The same examples each time: a failure belongs to the change that is tested, not to the day.
settings.register_profile("recordzoo", derandomize=True, deadline=None)
settings.load_profile("recordzoo")

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _refuse_strangers(event: str, arguments: tuple) -> None:
    """Stop any connection that is not to this machine (https://docs.python.org/3/library/audit_events.html)."""
    if event != "socket.connect":
        return
    address = arguments[1]
    if isinstance(address, tuple) and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise RuntimeError(f"a test tried to reach {address}")


sys.addaudithook(_refuse_strangers)

# What tests prepare is not listed among the user's own record sets, and what they read from URLs is not kept in the
# user's cache; for child processes, too.
_STATE = tempfile.TemporaryDirectory(prefix="recordzoo-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ["RECORDZOO_CACHE_DIR"] = os.path.join(_STATE.name, "cache")

# Tests try the compiled code; test_compiling.py has those of its beginning.
os.environ["RECORDZOO_COMPILE"] = "wait"

# Worker processes are copies of the test's: its functions and classes need not be pickled. From Python 3.14 on that is
# no longer Linux's default, which test_own_code.py tries in a program of its own.
if sys.platform == "linux":
    multiprocessing.set_start_method("fork")

# A shell starts what it puts into the background with Ctrl-C ignored, and that is inherited by everything below.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--site", metavar="DIR", help="test this built site in the browser; default: build one")
    parser.addoption(
        "--bare", action="store_true", help="skip the tests that need numba or its like, where they are missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    missing = extras.missing() & extras.wanted()
    if missing and not config.getoption("--bare"):
        names = ", ".join(sorted(missing))
        raise pytest.UsageError(f"{names}: not installed. Install recordzoo[fast], or test without it: pytest --bare")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = extras.missing()
    for item in items:
        needed = {name for mark in item.iter_markers("needs") for name in mark.args}
        assert needed <= set(extras.PACKAGES), f"{item.nodeid} needs {needed}"
        if needed & missing:
            names = ", ".join(sorted(needed & missing))
            item.add_marker(pytest.mark.skip(reason=f"needs {names}"))
        function = getattr(item, "function", None)
        if sys.platform == "win32" and function is not None and (used := posix.used_in(inspect.getsource(function))):
            item.add_marker(pytest.mark.skip(reason=f"uses {used}, which Windows lacks"))


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection, which takes 0.6 s otherwise, and copies them after a fork."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """On Windows, leave out modules that cannot be imported there."""
    if sys.platform == "win32" and collection_path.suffix == ".py":
        return posix.is_imported_in(collection_path.read_text(encoding="utf-8")) or None
    return None


@pytest.fixture(scope="session")
def chromium() -> Generator[Any, None, None]:
    """A browser without a window, for all tests that need one."""
    browsing = pytest.importorskip("tests.browsing", reason="needs playwright", exc_type=ImportError)
    if browsing.find_chromium() is None:
        pytest.skip(f"needs Chromium: none of {', '.join(browsing.NAMES)} is installed")
    with browsing.start_chromium() as browser:
        yield browser


@pytest.fixture
def open_page(chromium: Any) -> Generator[Callable[..., Any], None, None]:
    """Open a page; by the end of the test it must have had no error, and asked no other host."""
    from tests.browsing import Watched, watched

    opened: list[Watched] = []
    with contextlib.ExitStack() as stack:

        def open_it(url: str, **options: Any) -> Watched:
            opened.append(stack.enter_context(watched(chromium, **options)))
            opened[-1].page.goto(url)
            return opened[-1]

        yield open_it
    assert [(it.problems, it.strangers) for it in opened if it.problems or it.strangers] == []


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape names that are no UTF-8 in logs and failures: xdist cannot send them, and the whole run would end."""
    report = yield
    report.sections = [(name, _printable(text)) for name, text in report.sections]
    if report.longrepr is not None and _printable(report.longreprtext) != report.longreprtext:
        report.longrepr = _printable(report.longreprtext)
    return report


@pytest.fixture(scope="session")
def s3_server() -> Generator[Any, None, None]:
    """A server of S3, for all tests that need one."""
    from tests.fakes.s3 import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: Any, monkeypatch: pytest.MonkeyPatch, _own_environment: None) -> Generator[Any, None, None]:
    """An empty bucket (`tests.fakes.s3.Bucket`); endpoint and credentials are in the environment."""
    from tests.fakes.s3 import Bucket, environment

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment(s3_server.url).items():
        monkeypatch.setenv(name, value)
    s3_server.forget()
    yield Bucket(s3_server, s3_server.new_bucket())
    s3_server.forget()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if (name.startswith("RECORDZOO_") and name != "RECORDZOO_COMPILE") or name.lower() in _PROXIES:
            monkeypatch.delenv(name)
    # For child processes, which the hook does not reach: whatever is not on this machine is behind a closed door.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `workers="auto"` mean threads: worker processes have tests of their own."""
    from recordzoo.loader import loader
    from recordzoo.loader.placement import Placement, place

    def in_threads(options: Any, source: Any, workers: str, num_workers: int, **order: bool) -> Placement:
        found = place(options, source, workers, num_workers, **order)
        is_choice = workers == "auto" and found.where == "processes" and not options.deterministic
        return Placement("threads", "a test") if is_choice else found

    monkeypatch.setattr(loader, "place", in_threads)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree of pictures of several kinds, in five classes, and the record set beside it."""
    from tests.batching import make_tree

    return make_tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Odd and broken images of one class, and one image in each of the classes with hostile names."""
    from tests.fakes.odd_images import write_odd_set

    return write_odd_set(tmp_path_factory.mktemp("odd") / "odd.records")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a simple set that nothing disturbed."""
    from tests.fakes import simple
    from tests.preparing import again, contents

    root = tmp_path_factory.mktemp("whole")
    simple.write(root, "stream")
    return contents(again(root, "stream"))


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let failed requests be tried again at once."""
    from recordzoo.net import http as retry

    monkeypatch.setattr(retry, "BACKOFF_S", 0.01)


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short_pauses: None, _own_environment: None) -> Path:
    """Give a test a cache of its own for what it reads from URLs, without pauses between attempts."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Generator[None, None, None]:
    """Let torch use one thread: the images are small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
