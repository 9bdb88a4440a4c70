"""One contract for the parts of downloads, of the shard cache, and of copies: resumed, checked, never mixed."""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recordzoo.base.owner import Owner
from recordzoo.base.progress import SilentProgress
from recordzoo.copying.files import Fetch
from recordzoo.errors import CorruptRecordError, HashMismatchError
from recordzoo.net.cache import Cache
from recordzoo.net.crew import Crew
from recordzoo.net.fetching import WrongBytesError, open_cached
from recordzoo.net.part import SILENT_S, HashedFile, Part
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from tests.downloading import (
    DATA,
    NAME,
    OTHER,
    dead_owner,
    get,
    quick,  # noqa: F401 - a fixture
    remote,
    serve,
    serve_always,
)
from tests.fakes.server import Fault, FileServer
from tests.faults import fault

FILE = HashedFile(NAME, len(DATA), f"sha256:{hashlib.sha256(DATA).hexdigest()}")
ELSEWHERE = Owner("another_1234abcd", 1, 1, "ab")


def wrong(name: str) -> CorruptRecordError:
    return CorruptRecordError(f"{name} is damaged")


def no_bytes(num_bytes: int) -> None:
    """Count nothing."""


def download(server: FileServer, folder: Path) -> Path:
    return get(remote(server), folder)


def cached(server: FileServer, folder: Path) -> Path:
    os.close(open_cached(Cache(folder), Store(Url.parse(server.url)), "digest", FILE))
    return folder / "digest" / NAME


def pulled(server: FileServer, folder: Path) -> Path:
    crew = Crew(SilentProgress())
    Fetch(Store(Url.parse(server.url)), folder, crew, lambda: None, no_bytes, wrong).file(FILE)
    return folder / NAME


USERS = {
    download: (HashMismatchError, lambda folder, owner: folder / f"{NAME}.part"),
    cached: (WrongBytesError, lambda folder, owner: folder / "digest" / f".{NAME}.{len(DATA)}.{owner}.part"),
    pulled: (CorruptRecordError, lambda folder, owner: folder / f"{NAME}.part-{hash(owner):x}"),
}
OWNED = [download, cached]
"""The folder of a copy belongs to one process, and its parts too."""

User = Callable[[FileServer, Path], Path]
every_user = pytest.mark.parametrize("fetch", USERS)


def leave(fetch: User, folder: Path, data: bytes, owner: object = None) -> Path:
    """Write what an earlier process left."""
    path: Path = USERS[fetch][1](folder, str(owner or dead_owner()))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def left(folder: Path) -> list[str]:
    """Name what is in a folder, without locks."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


@every_user
def test_a_part_of_the_dead_is_resumed(fetch: User, tmp_path: Path) -> None:
    leave(fetch, tmp_path, DATA[:6000])
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert server.sent(NAME) == len(DATA) - 6000
    assert left(tmp_path) == [NAME]


@every_user
def test_a_part_that_has_all_bytes_is_not_asked_for(fetch: User, tmp_path: Path) -> None:
    leave(fetch, tmp_path, DATA)
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert server.sent(NAME) == 0
    assert left(tmp_path) == [NAME]


@fault("S7")
@every_user
@pytest.mark.parametrize("data", [bytes(5000), DATA + b"x", bytes(len(DATA))], ids=["damaged", "longer", "zeros"])
def test_a_part_that_is_wrong_is_fetched_again(fetch: User, tmp_path: Path, data: bytes) -> None:
    leave(fetch, tmp_path, data)
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert len(DATA) <= server.sent(NAME) <= 2 * len(DATA)
    assert left(tmp_path) == [NAME]


@every_user
def test_wrong_bytes_are_asked_for_once_more(fetch: User, tmp_path: Path) -> None:
    with serve(Fault(body=OTHER)) as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
    assert left(tmp_path) == [NAME]
    (tmp_path / "never").mkdir()
    with serve_always(Fault(body=OTHER)) as server, pytest.raises(USERS[fetch][0]):
        fetch(server, tmp_path / "never")
    assert [name for name in left(tmp_path / "never") if ".bad-" not in name] == []


@pytest.mark.parametrize("fetch", OWNED)
def test_parts_of_the_living_are_let_be(fetch: User, tmp_path: Path) -> None:
    mine = leave(fetch, tmp_path, DATA[:5000], Owner.current())
    os.utime(mine, (0, 0))  # it can be asked for, whatever its age
    young = leave(fetch, tmp_path, DATA[:6000], ELSEWHERE)
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert server.sent(NAME) == len(DATA)
    assert left(tmp_path) == sorted([NAME, mine.name, young.name])


@pytest.mark.parametrize("fetch", OWNED)
def test_a_silent_part_of_another_host_is_resumed(fetch: User, tmp_path: Path) -> None:
    then = time.time() - SILENT_S - 60
    os.utime(leave(fetch, tmp_path, DATA[:5000], ELSEWHERE), (then, then))
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert server.sent(NAME) == len(DATA) - 5000
    assert left(tmp_path) == [NAME]


def test_a_part_that_another_process_wrote_to_is_not_the_file(tmp_path: Path) -> None:
    class Supply:
        def __init__(self, rivals: int) -> None:
            self.rivals = rivals

        def pieces(self, name: str, size_bytes: int, start: int = 0) -> Iterator[bytes]:
            yield DATA[start:]
            if self.rivals:
                self.rivals -= 1
                with open(tmp_path / "part", "ab") as file:
                    file.write(b"of another process")

    for rivals, expected in ((1, DATA), (2, b"")):
        with Part(tmp_path / "part") as part:
            assert part.complete(Supply(rivals), FILE, part.write) == bool(expected)
        assert (tmp_path / "part").read_bytes() == expected
        (tmp_path / "part").unlink()
