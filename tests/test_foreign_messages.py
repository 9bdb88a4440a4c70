"""The headings of docs/errors.md for others' messages: each is provoked with the installed library and compared."""

import contextlib
import io
import mmap
import os
import pickle
import re
import resource
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import torch
from PIL import Image
from torch.torch_version import TorchVersion
from torch.utils.data import DataLoader, Dataset

from tests.test_error_pages import FOREIGN, sections

pytestmark = [
    # Python 3.12 and later; torch starts threads of its own.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # on a machine with one core
]

Provoke = Callable[[Path], object]
HEADINGS = list(sections(FOREIGN))


class Deadly(Dataset):
    """Ends the worker that takes it in the way that is wanted."""

    def __init__(self, way: Callable[[], object]) -> None:
        self.way = way

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        self.way()
        return torch.zeros(3)


def take(way: Callable[[], object]) -> list[torch.Tensor]:
    # Any: the iterator's own class is torch's secret.
    batches: Any = iter(DataLoader(Deadly(way), batch_size=1, num_workers=1, multiprocessing_context="fork"))
    try:
        return list(batches)
    finally:  # left to the garbage collector, a worker may wait for 5 seconds
        batches._shutdown_workers()


def cut_while_mapped() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        mapped[0]


@contextlib.contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def bus_error(_: Path) -> None:
    take(cut_while_mapped)


def killed(_: Path) -> None:
    take(lambda: os.kill(os.getpid(), signal.SIGKILL))


def exited(_: Path) -> None:
    take(lambda: os._exit(3))


def shared_memory(_: Path) -> None:
    """More than /dev/shm may ever hold is refused at once, with the words of one that is full."""
    held = os.statvfs("/dev/shm")
    torch.UntypedStorage._new_shared(held.f_frsize * held.f_blocks + (1 << 20))


def too_many_files(_: Path) -> None:
    with limited(resource.RLIMIT_NOFILE, len(os.listdir("/proc/self/fd")) + 40):
        kept = take(lambda: None)
    assert not kept


def environment(path: Path) -> lmdb.Environment:
    return lmdb.open(str(path / "x.lmdb"), subdir=False, max_readers=1, map_size=1 << 16)


def pickled(path: Path) -> None:
    with environment(path) as env:
        pickle.dumps(env)


def opened_twice(path: Path) -> None:
    with environment(path):
        environment(path)


def many_readers(path: Path) -> None:
    with environment(path) as env, env.begin(), env.begin():
        pass


def full(path: Path) -> None:
    with environment(path) as env, env.begin(write=True) as txn:
        for number in range(100):
            txn.put(str(number).encode(), bytes(4000))


def no_database(path: Path) -> None:
    (path / "x.lmdb").write_bytes(b"no database" * 1000)
    environment(path)


def no_image(_: Path) -> None:
    Image.open(io.BytesIO(b"no image"))


def another_shape(_: Path) -> None:
    np.zeros(12, np.uint8).reshape(2, 4, 3)


CASES: dict[str, Provoke] = {
    "Unexpected bus error": bus_error,
    "unable to allocate shared memory": shared_memory,
    "DataLoader worker (pid ...) is killed": killed,
    "DataLoader worker (pid(s) ...) exited": exited,
    "received 0 items": too_many_files,
    "Too many open files": too_many_files,
    "can't pickle": pickled,
    "The environment": opened_twice,
    "MDB_READERS_FULL": many_readers,
    "MDB_MAP_FULL": full,
    "MDB_INVALID": no_database,
    "cannot identify": no_image,
    "cannot reshape": another_shape,
}
WITH_WORKERS = {bus_error, killed, exited, too_many_files}


def messages(err: BaseException | None) -> list[str]:
    """The error and those that led to it: all of a traceback."""
    return [] if err is None else [f"{err}", *messages(err.__cause__ or err.__context__)]


def pattern(heading: str) -> str:
    """A heading as a pattern."""
    return re.escape(heading).replace(re.escape("..."), ".+")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="another system may have other words")
@pytest.mark.parametrize(
    "start", [pytest.param(each, marks=pytest.mark.slow if CASES[each] in WITH_WORKERS else ()) for each in CASES]
)
def test_a_message_is_what_its_heading_says(start: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (heading,) = (each for each in HEADINGS if each.startswith(start))
    if start == "unable to allocate shared memory" and torch.__version__ < TorchVersion("2.10"):
        pytest.skip("torch before 2.10 does not notice it")
    with pytest.raises(Exception) as caught:
        CASES[start](tmp_path)
    seen = "\n".join([*messages(caught.value), capfd.readouterr().err])
    if start == "can't pickle":
        assert f"`{caught.value}`" in sections(FOREIGN)[heading]
    else:
        assert re.search(pattern(heading), seen), seen


def test_every_heading_is_provoked_or_compared() -> None:
    provoked = {each for each in HEADINGS if each.startswith(tuple(CASES))}
    assert set(HEADINGS) - provoked == {"MDB_BAD_RSLOT: Invalid reuse of reader locktable slot"}


def test_what_is_not_provoked_is_what_the_library_says() -> None:
    """py-lmdb 1.4.1 raised it after a fork; the versions that recordzoo takes do not."""
    (heading,) = (each for each in HEADINGS if each.startswith("MDB_BAD_RSLOT"))
    folder = Path(lmdb.__file__).parent
    assert any(heading.encode() in path.read_bytes() for path in folder.iterdir() if path.suffix in (".so", ".pyd"))
    assert lmdb.BadRslotError.__name__ in sections(FOREIGN)[heading]
