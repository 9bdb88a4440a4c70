"""Downloads into folders that others use too: their locks, builds and parts."""

import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from recordzoo.records.reader import RecordReader
from tests import preparing
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
