"""Several raw files are downloaded at once: how many, what the progress says, and how all end if one fails."""

import hashlib
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import DownloadError
from recordzoo.net.url import RemoteFile
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import ensure
from recordzoo.preparing.raw import MOST, MOST_PER_HOST, RawData
from recordzoo.raw.member import Source
from recordzoo.records.reader import is_record_set
from tests.downloading import quick  # noqa: F401 - a fixture
from tests.fakes import simple
from tests.fakes.server import Fault, FileServer
from tests.fakes.simple import FORMS, SimpleRecipe

ARCHIVE = FORMS["stream"]
OTHERS = {f"other{number}.bin": random.Random(number).randbytes(700_000) for number in range(3)}


class Heard:
    """Keeps what is told, and by which thread."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.notes: list[str] = []
        self.bytes = 0
        self.ends: list[int] = []
        self.threads = {threading.current_thread()}
        self._stop_at = stop_at

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        self.threads.add(threading.current_thread())
        self.stages.append((stage, total_bytes))
        self.bytes = done_bytes

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        self.threads.add(threading.current_thread())
        self.bytes += num_bytes
        if self._stop_at is not None and self.bytes >= self._stop_at:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.threads.add(threading.current_thread())
        self.notes.append(text)

    def end(self) -> None:
        self.threads.add(threading.current_thread())
        self.ends.append(self.bytes)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    archive = simple.write(tmp_path_factory.mktemp("archive"), "stream")
    return {ARCHIVE: archive.read_bytes(), **OTHERS}


class Several(SimpleRecipe):
    """Needs all of its files, though it reads only the archive."""

    def find(self, root: Path) -> Source | None:
        needed = [remote.path(root) for remote in self.raw_files if not remote.optional]
        return super().find(root) if all(path.exists() for path in needed) else None


# Any: fields of a `RemoteFile` by its name.
def recipe(server: FileServer, files: dict[str, bytes], **changes: dict[str, Any]) -> Several:
    return Several(
        "stream",
        tuple(
            RemoteFile(
                **{
                    "name": name,
                    "urls": (f"{server.url}/{name}",),
                    "size_bytes": len(data),
                    "md5": hashlib.md5(data).hexdigest(),
                    **changes.get(name.partition(".")[0], {}),
                }
            )
            for name, data in files.items()
        ),
    )


def test_how_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as may be, of two hosts, and never more: each waits until all others of a round are there."""
    together = threading.Barrier(MOST, timeout=30)
    lock, active, most = threading.Lock(), Counter[str](), Counter[str]()

    def fetch(remote: RemoteFile, root: Path, **_: Any) -> Path:
        with lock:
            active.update((remote.name[0], "all"))
            most.update(active - most)
        together.wait()
        with lock:
            active.subtract((remote.name[0], "all"))
        return remote.path(root)

    monkeypatch.setattr("recordzoo.net.download.fetch", fetch)
    files = tuple(RemoteFile(f"{host}{number}", (f"https://{host}.org/",)) for host in "ab" for number in range(4))
    raw = RawData(SimpleRecipe("stream", files), tmp_path, Options(progress=Heard()))
    raw.download()
    assert sorted(path.name for path in raw.fetched) == sorted(each.name for each in files)
    assert most == {"a": MOST_PER_HOST, "b": MOST_PER_HOST, "all": MOST}


def test_one_progress_for_all(files: dict[str, bytes], tmp_path: Path) -> None:
    """Its bytes are those of all files, however often one of them starts over or goes on."""
    heard = Heard()
    (tmp_path / "other0.bin.part").write_bytes(files["other0.bin"][:300_000])  # an earlier run's
    faults = {"other1.bin": [Fault(drop_after=200_000, ignore_range=True)] * 2, "other2.bin": [Fault(drop_after=1000)]}
    with FileServer(files, faults) as server:
        made = ensure(recipe(server, files), tmp_path, download=True, progress=heard)
        assert server.sent("other0.bin") == 400_000
    assert is_record_set(made)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    assert heard.stages[0] == ("downloading 4 files", sum(map(len, files.values())))
    assert heard.ends[0] == sum(map(len, files.values()))
    assert heard.threads == {threading.current_thread()}


def test_ctrl_c_ends_all_and_keeps_what_they_received(files: dict[str, bytes], tmp_path: Path) -> None:
    faults = {name: [Fault(stall_after=500_000)] for name in ("other0.bin", "other1.bin")}
    with FileServer(files, faults) as server:
        with pytest.raises(KeyboardInterrupt):
            ensure(recipe(server, files), tmp_path, download=True, progress=Heard(stop_at=1_300_000))
        kept = {path.name: path.stat().st_size for path in tmp_path.glob("other*.part")}
        assert len(kept) == 2  # handed back: two of a host at once, which were waiting for more
        assert all(size >= 400_000 for size in kept.values())
        assert not list(tmp_path.glob("other*.part.*-*"))
        before = sum(map(server.sent, OTHERS))
        assert is_record_set(ensure(recipe(server, files), tmp_path, download=True))
        again = sum(map(server.sent, OTHERS)) - before
    assert again == sum(map(len, OTHERS.values())) - sum(kept.values())


def test_the_first_error_ends_the_others(files: dict[str, bytes], tmp_path: Path) -> None:
    few = {name: files[name] for name in ("other0.bin", "other1.bin")}
    faults = {"other0.bin": [Fault(stall_after=500_000)], "other1.bin": [Fault(status=404)]}
    with FileServer(few, faults) as server, pytest.raises(DownloadError, match=r"other1\.bin: .*404"):
        ensure(recipe(server, few), tmp_path, download=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names <= {"other0.bin.part"}  # handed back, if anything came before the error


def test_a_file_that_may_be_missing(files: dict[str, bytes], tmp_path: Path) -> None:
    heard = Heard()
    with FileServer(files, {"other1.bin": [Fault(status=404)]}) as server:
        ensure(recipe(server, files, other1={"optional": True}), tmp_path, download=True, progress=heard)
    assert any(
        note.startswith("other1.bin cannot be downloaded; the records are made without it.") for note in heard.notes
    )
    assert not (tmp_path / "other1.bin").exists()
    assert (tmp_path / ".other2.bin.recordzoo").exists()  # says that recordzoo downloaded it
