"""Downloads into folders that others use too: their locks and parts, what was put there by hand, room for it all."""

import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recordzoo.base.progress import format_bytes
from recordzoo.errors import TermsError
from recordzoo.preparing.preparation import ensure
from recordzoo.records.reader import RecordReader
from tests import preparing
from tests.disks import Volume, mounted
from tests.downloading import (
    DATA,
    NAME,
    files,
    leave_part,
    quick,  # noqa: F401 - a fixture
    remote,
    run_child,
    serve,
)
from tests.fakes import simple
from tests.fakes.server import FileServer
from tests.fakes.simple import SimpleRecipe
from tests.preparing import Process, served

ME, COLLEAGUE = 4002, 4001
BECOME_ME = f"""
import filelock, recordzoo.net.download  # another user may not read this Python
from tests.users import become
become({ME}, {ME})
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp: everybody may write to it, and nobody may touch what is another's."""
    if os.getuid() != 0:
        pytest.skip("only root may become other users")
    with tempfile.TemporaryDirectory() as name:  # pytest's are private
        Path(name).chmod(0o1777)
        yield Path(name)


def give_to_colleague(path: Path, mode: int) -> None:
    path.chmod(mode)
    os.chown(path, COLLEAGUE, COLLEAGUE)


class TestColleagues:
    def test_a_build_that_may_not_be_written_to(self, shared: Path, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        build = shared / "simple.records.build"
        build.mkdir()
        (build / "lock").touch()
        for path in (build / "lock", build):
            give_to_colleague(path, 0o755)
        with FileServer(tmp_path / "server") as server:
            ended = preparing.run(shared, "stream", user=[ME, ME, 0o022], **served(archive, server.url))
        assert ended.digest == RecordReader(shared / "simple.records").digest
        assert [path.name for path in build.iterdir()] == ["lock"]

    @pytest.mark.slow
    @pytest.mark.parametrize("umask", [0o022, 0o077])
    def test_a_lock_that_a_colleague_holds_is_waited_for(self, umask: int, shared: Path, tmp_path: Path) -> None:
        archive = simple.write(tmp_path / "server", "stream")
        with FileServer(tmp_path / "server") as server:
            options = served(archive, server.url)
            with Process(
                shared, "stream", user=[COLLEAGUE, COLLEAGUE, umask], stop_at="download.received", **options
            ) as first:
                first.wait_until_stopped()
                mode = stat.S_IMODE((shared / "simple.records.build" / "lock").stat().st_mode)
                assert mode & 0o664 == 0o664  # whatever the umask
                with Process(shared, "stream", user=[ME, ME, 0o022], **options) as second:
                    assert second.saw(f"Waiting for process {first.pid} on ")
                    first.signal(signal.SIGCONT)
                    assert first.end().digest
                    ended = second.end()
            assert len(server.log) == 1
        if umask == 0o022:
            assert ended.digest == RecordReader(shared / "simple.records").digest
        else:  # what the colleague keeps to themselves is not made a second time
            assert "may not be read (Permission denied): it belongs to another user" in ended.error["text"]

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o666])
    def test_a_part_of_a_colleague(self, mode: int, shared: Path) -> None:
        part = leave_part(shared, DATA[:5000])
        side = part.with_name(f"{part.name}.json")
        side.write_text("{}")
        give_to_colleague(part, mode)
        give_to_colleague(side, mode)
        with serve() as server:
            code, stderr = run_child(remote(server), shared, BECOME_ME)
            assert code == 0, stderr
        assert (shared / NAME).read_bytes() == DATA
        assert (shared / NAME).stat().st_uid == ME
        assert files(shared) == {NAME, part.name, side.name}
        assert part.read_bytes() == DATA[:5000]


def test_by_hand(tmp_path: Path) -> None:
    archive = simple.write(tmp_path / "downloads", "stream")
    root = tmp_path / "my data"
    facts = simple.remote(archive, "https://host.example")
    recipe = SimpleRecipe(
        "stream",
        (simple.remote(archive, "https://host.example", needs_terms=True, instructions="1. Put it into {folder}"),),
    )
    with pytest.raises(TermsError, match=rf"^1\. Put it into '{root}'\n") as error:
        ensure(recipe, root, download=True)
    for part in (str(root / archive.name), format_bytes(archive.stat().st_size), f"md5 {facts.md5}"):
        assert part in str(error.value)
    assert not root.exists()
    root.mkdir()
    archive.rename(root / archive.name)
    assert len(RecordReader(ensure(recipe, root, download=True))) == 40


class TestRoom:
    """A volume of 20 MB, and an archive of which the records are about as large."""

    SIZE_BYTES = 20 << 20

    @pytest.fixture
    def archive(self, tmp_path: Path) -> Path:
        files = simple.values(num_classes=5, per_class=40, mean_bytes=45_000, seed=5)
        archive = simple.write(tmp_path / "server", "stream", files)
        assert self.SIZE_BYTES / 3 < archive.stat().st_size < self.SIZE_BYTES / 2.1
        return archive

    @pytest.fixture
    def volume(self, tmp_path: Path) -> Iterator[Volume]:
        with mounted(tmp_path / "volume", f"size={self.SIZE_BYTES}") as volume:
            yield volume

    def prepare(self, volume: Volume, root: Path, archive: Path, url: str, **options: Any) -> preparing.Ended:
        options = {**served(archive, url), "shard_bytes": 1 << 20, **options}
        return preparing.run(root, "stream", prefix=volume.enter, **options)

    @pytest.mark.parametrize("there", [0, 5_000_000])
    def test_too_little_is_said_before_anything_is_asked_for(self, there: int, volume: Volume, archive: Path) -> None:
        size = archive.stat().st_size
        (volume.path / f"{archive.name}.part").write_bytes(archive.read_bytes()[:there])
        needed = size - there + int(1.02 * size)
        volume.fill(leave=needed - 1_000_000)
        with FileServer(archive.parent) as server:
            error = self.prepare(volume, volume.mounted_at, archive, server.url).error
        assert error["type"] == "DiskSpaceError"
        assert error["missing_bytes"] == pytest.approx(1_000_000, abs=20_000)
        assert f"and {format_bytes(needed)} are needed" in error["text"]
        assert str(volume.mounted_at) in error["text"]
        assert server.log == []
        assert files(volume.path) == {"ballast", f"{archive.name}.part"}

    def test_only_what_is_still_to_come_needs_room(self, volume: Volume, archive: Path) -> None:
        """The part takes its room already; counted twice, the rest would not fit."""
        size = archive.stat().st_size
        (volume.path / f"{archive.name}.part").write_bytes(archive.read_bytes()[: size - 1000])
        assert 2 * size > self.SIZE_BYTES - (size - 1000)
        with FileServer(archive.parent) as server:
            assert self.prepare(volume, volume.mounted_at, archive, server.url).digest
        assert server.sent(archive.name) == 1000

    @pytest.mark.slow
    def test_each_volume_is_asked_for_what_it_gets(self, volume: Volume, archive: Path, tmp_path: Path) -> None:
        size = archive.stat().st_size
        volume.fill(leave=int(1.1 * size))  # for one of the two
        here, there = tmp_path / "here", volume.mounted_at
        with FileServer(archive.parent) as server:
            assert self.prepare(volume, here, archive, server.url, records_dir=str(there / "a.records")).digest
            shutil.rmtree(volume.path / "a.records")
            assert self.prepare(volume, there, archive, server.url, records_dir=str(here / "b.records")).digest
            assert len(server.log) == 2
            elsewhere = tmp_path / "elsewhere"
            options = {"records_dir": str(there / "c.records")}
            error = self.prepare(volume, elsewhere, archive, server.url, **options).error
            assert error["type"] == "DiskSpaceError"
            assert error["path"] == str(there)
            assert len(server.log) == 2
        assert not elsewhere.exists()
