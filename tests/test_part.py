"""One contract for the parts of downloads and of the shard cache: resumed, checked, never mixed."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recordzoo.errors import HashMismatchError
from recordzoo.net.cache import Cache, WrongBytesError
from recordzoo.net.part import HashedFile, Part
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from tests.downloading import (
    DATA,
    NAME,
    OTHER,
    get,
    quick,  # noqa: F401 - a fixture
    remote,
    serve,
    serve_always,
)
from tests.fakes.server import Fault, FileServer

FILE = HashedFile(NAME, len(DATA), f"sha256:{hashlib.sha256(DATA).hexdigest()}")


def download(server: FileServer, folder: Path) -> Path:
    return get(remote(server), folder)


def cached(server: FileServer, folder: Path) -> Path:
    os.close(Cache(folder).fetch(Store(Url.parse(server.url)), "digest", FILE))
    return folder / "digest" / NAME


USERS = {
    download: (HashMismatchError, lambda folder: folder / f"{NAME}.part"),
    cached: (WrongBytesError, lambda folder: folder / "digest" / f".{NAME}.{len(DATA)}.part"),
}

User = Callable[[FileServer, Path], Path]
every_user = pytest.mark.parametrize("fetch", USERS)


def leave(fetch: User, folder: Path, data: bytes) -> Path:
    """Write what an earlier process left."""
    path: Path = USERS[fetch][1](folder)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def left(folder: Path) -> list[str]:
    """Name what is in a folder, without locks."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


@every_user
@pytest.mark.parametrize(
    ("data", "least", "most"),
    [
        (DATA[:6000], len(DATA) - 6000, len(DATA) - 6000),
        (DATA, 0, 0),
        *((wrong, len(DATA), 2 * len(DATA)) for wrong in (bytes(5000), DATA + b"x", bytes(len(DATA)))),
    ],
    ids=["begun", "complete", "damaged", "longer", "zeros"],
)
def test_a_part_of_the_dead(fetch: User, tmp_path: Path, data: bytes, least: int, most: int) -> None:
    """A part with the right bytes asks for the rest only; one with wrong bytes asks for the whole file."""
    leave(fetch, tmp_path, data)
    with serve() as server:
        assert fetch(server, tmp_path).read_bytes() == DATA
        assert least <= server.sent(NAME) <= most
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


def test_a_part_that_another_process_wrote_to_is_not_the_file(tmp_path: Path) -> None:
    def pieces(start: int) -> Iterator[bytes]:
        yield DATA[start:]
        if rivals:
            rivals.pop()
            with open(tmp_path / "part", "ab") as file:
                file.write(b"of another process")

    for number, expected in ((1, DATA), (2, b"")):
        rivals = ["a rival"] * number
        with Part(tmp_path / "part") as part:
            assert part.complete(FILE, pieces) == bool(expected)
        assert (tmp_path / "part").read_bytes() == expected
        (tmp_path / "part").unlink()
