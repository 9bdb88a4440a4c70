import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recordzoo.preparing.preparation import ensure
from recordzoo.recipes import folders as folder
from recordzoo.records.reader import RecordReader
from tests import preparing
from tests.fakes import simple
from tests.fakes.folder import write_tree
from tests.fakes.server import FileServer
from tests.fakes.simple import SimpleRecipe
from tests.preparing import (
    SHARD_BYTES,
    Process,
    again,
    assert_made,
    assert_made_again,
    beside,
    builds,
    contents,
    group_members,
    wait_for,
)

BIG = "c000/0000.jpg"
"""In the raw data of steps that only a large shard meets: more than one transaction."""

# Where a preparation of each form is killed. In the tree form a pool of two processes converts, and the steps of a
# shard kill one of these, not the builder.
IN_STREAM = [
    *("build.claimed", "build.planned"),
    *("shard.opened", "shard.opened:3", "shard.committed", "shard.written", "shard.written:2", "shard.sealed"),
    *("shard.sealed:3", "shard.done", "shard.done:4", "unit.done"),
    *("set.shards_moved", "set.arrays_written", "set.manifest_written", "set.published", "set.synced"),
    "build.cleaned",
]
IN_POOL = [
    *("build.claimed", "build.planned"),
    *("shard.opened", "shard.opened:2", "shard.written", "shard.sealed", "shard.done"),
    *("unit.done", "unit.done:3", "set.shards_moved", "set.manifest_written", "set.published"),
    "build.cleaned",
]
WORKERS_OWN = ("shard.opened", "shard.committed", "shard.written", "shard.sealed", "shard.done")
AFTER_PUBLISHING = ("set.published", "set.synced", "build.cleaned")


def with_a_big_one() -> dict[str, bytes]:
    return {**simple.values(), BIG: simple.values()[BIG] + bytes(33 << 20)}


class Wanted:
    """Raw data in each form, and the files of a set that was made of it without any trouble."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, dict[str, str]] = {}
        for kind, form, values in (
            ("stream", "stream", None),
            ("big", "stream", with_a_big_one()),
            ("tree", "tree", None),
            ("nested", "nested", None),
        ):
            root = folder / kind
            simple.write(root, form, values)
            self.files[kind] = contents(again(root, form, records_dir=folder / f"{kind}.records"))

    def raw(self, kind: str, root: Path) -> Path:
        """Lay the raw data into a directory, and return that."""
        shutil.copytree(self._folder / kind, root, dirs_exist_ok=True)
        return root


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Wanted:
    return Wanted(tmp_path_factory.mktemp("wanted"))


def assert_nothing_half_done(root: Path, form: str, files: dict[str, str]) -> None:
    """The final name is absent or complete; besides it only the build directory."""
    for name in beside(root, form):
        if name == "simple.records":
            assert contents(root / name) == files
        else:
            assert name == "simple.records.build"


@pytest.mark.parametrize("step", IN_STREAM)
@pytest.mark.slow
def test_killed_while_a_stream_is_converted(step: str, wanted: Wanted, tmp_path: Path) -> None:
    kind = "big" if step == "shard.committed" else "stream"
    root = wanted.raw(kind, tmp_path)
    ended = preparing.run(root, "stream", env={"RECORDZOO_KILL_AT": step})
    assert ended.code == -signal.SIGKILL, ended
    assert_nothing_half_done(root, "stream", wanted.files[kind])
    assert (root / "simple.records").exists() == (step in AFTER_PUBLISHING)
    assert_made_again(root, "stream", wanted.files[kind])


@pytest.mark.parametrize("step", IN_POOL)
@pytest.mark.slow
def test_killed_while_several_processes_convert_a_tree(step: str, wanted: Wanted, tmp_path: Path) -> None:
    root = wanted.raw("tree", tmp_path)
    with Process(root, "tree", env={"RECORDZOO_KILL_AT": step}, workers=2) as process:
        ended = process.end()
        if step.partition(":")[0] in WORKERS_OWN:
            assert ended.error["type"] == "PrepareError"
            assert "A converting process was killed" in ended.error["text"]
            assert "run the same command again, with --workers 1" in ended.error["text"]
        else:
            assert ended.code == -signal.SIGKILL, ended
        wait_for(lambda: not group_members(process.pid), "the end of all processes")
    assert_nothing_half_done(root, "tree", wanted.files["tree"])
    assert_made_again(root, "tree", wanted.files["tree"], workers=1)


@pytest.mark.slow
def test_killed_while_a_tar_of_tars_is_converted(wanted: Wanted, tmp_path: Path) -> None:
    root = wanted.raw("nested", tmp_path)
    ended = preparing.run(root, "nested", env={"RECORDZOO_KILL_AT": "unit.done:2"}, workers=2)
    assert ended.code == -signal.SIGKILL, ended
    assert_made_again(root, "nested", wanted.files["nested"], workers=2)


@pytest.mark.parametrize("step", ["build.claimed", "shard.done:2", "set.published", "build.cleaned"])
@pytest.mark.parametrize("mine", [False, True])
def test_killed_after_a_download_that_is_to_be_discarded(step: str, mine: bool, wanted: Wanted, tmp_path: Path) -> None:
    """The process that ends the work need not have downloaded; what was there before is nobody's to delete."""
    server = wanted.raw("stream", tmp_path / "server")
    root = wanted.raw("stream", tmp_path / "root") if mine else tmp_path / "root"
    archive = server / simple.FORMS["stream"]
    with FileServer(server) as served:
        options = {"discard_raw": True, **preparing.served(archive, served.url)}
        ended = preparing.run(root, "stream", env={"RECORDZOO_KILL_AT": step}, **options)
        assert ended.code == -signal.SIGKILL, ended
        assert (root / archive.name).exists()
        recipe = SimpleRecipe("stream", preparing.remote_files(options.pop("raw_files")))
        ensure(recipe, root, shard_bytes=SHARD_BYTES, **options)
        assert len(served.log) == (not mine)
    shards = {name: digest for name, digest in wanted.files["stream"].items() if name.endswith(".lmdb")}
    assert shards.items() <= contents(root / "simple.records").items()
    assert sorted(os.listdir(root)) == ["simple.records", archive.name][: 1 + mine]


@pytest.mark.parametrize(("form", "workers", "step"), [("stream", 1, "shard.opened:3"), ("tree", 2, "unit.done")])
def test_ctrl_c(form: str, workers: int, step: str, wanted: Wanted, tmp_path: Path) -> None:
    """It reaches the whole process group, as from a terminal."""
    root = wanted.raw(form, tmp_path)
    with Process(root, form, workers=workers, stop_at=step) as process:
        process.wait_until_stopped()
        process.signal(signal.SIGINT, group=True)
        process.signal(signal.SIGCONT)
        ended = process.end()
        assert ended.code == -signal.SIGINT  # how Python ends after a KeyboardInterrupt that nobody caught
        assert ended.log.count("Traceback") == 1
        assert ended.log.rstrip().endswith("KeyboardInterrupt")
        wait_for(lambda: not group_members(process.pid), "the end of all processes")
    (build,) = builds(root)
    assert not list(build.glob("*.tmp"))
    assert_made_again(root, form, wanted.files[form])


def test_ctrl_c_while_the_pool_starts(wanted: Wanted, tmp_path: Path) -> None:
    root = wanted.raw("tree", tmp_path)
    with Process(root, "tree", workers=2) as process:
        assert process.saw("converting simple")
        process.signal(signal.SIGINT, group=True)
        assert process.end().code == -signal.SIGINT
        wait_for(lambda: not group_members(process.pid), "the end of all processes")
    assert_made_again(root, "tree", wanted.files["tree"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_command_line_converts(number: int, code: int, tmp_path: Path) -> None:
    photos = write_tree(tmp_path / "photos")
    whole = contents(ensure(folder.FolderRecipe(), photos, records_dir=tmp_path / "whole.records"))
    stop = "from tests import preparing; preparing.patch(locks=True, stop_at='shard.written')"
    command = [sys.executable, "-c", f"{stop}; from recordzoo.cli import main; main()", "prepare", str(photos)]
    with subprocess.Popen(command, cwd=preparing.REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        _, log = process.communicate(timeout=preparing.DEADLINE_S)
    assert process.returncode == code, log
    assert log.rstrip().endswith("; what is finished is kept, and the same command goes on from there.")
    assert "Traceback" not in log
    assert (tmp_path / "photos.records.build").is_dir()
    assert contents(ensure(folder.FolderRecipe(), photos)) == whole
    assert sorted(os.listdir(tmp_path)) == ["photos", "photos.records", "whole.records"]


def test_workers_without_their_builder_end_and_do_no_harm(wanted: Wanted, tmp_path: Path) -> None:
    """Only the builder is killed: whoever takes over is not disturbed by those that it leaves behind."""
    root = wanted.raw("tree", tmp_path)
    with Process(root, "tree", workers=2, stop_at="unit.done") as process:
        process.wait_until_stopped()
        process.signal(signal.SIGKILL)
        assert contents(again(root, "tree")) == wanted.files["tree"]
        wait_for(lambda: not group_members(process.pid), "the end of all processes")
    assert_made(root, "tree", wanted.files["tree"])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("form", "workers", "latest_s"), [("stream", 1, 0.5), ("tree", 2, 1.5)])
def test_killed_at_random_moments(form: str, workers: int, latest_s: float, tmp_path: Path) -> None:
    """Killed at 100 moments, each time with all its processes or the builder alone, until nothing is left to do."""
    rng = random.Random(f"moments of a {form}")
    files = simple.values(num_classes=6, per_class=60, mean_bytes=22_000, seed=3)
    root = tmp_path / "root"
    simple.write(root, form, files)
    whole = contents(again(root, form, records_dir=tmp_path / "whole.records"))
    kills = 0
    while kills < 100:
        with Process(root, form, workers=workers) as process:
            # The imports take most of half a second in which nothing could go wrong.
            if process.saw("Preparing simple"):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.end(rng.uniform(0.005, latest_s))
            else:
                process.end()
            if process.runs:
                kills += 1
                process.signal(signal.SIGKILL, group=rng.random() < 0.7)
            assert_nothing_half_done(root, form, whole)
        if not process.runs and (root / "simple.records").exists():  # once more from the start
            assert_made_again(root, form, whole)
            shutil.rmtree(root / "simple.records")
    assert_made_again(root, form, whole)
    reader = RecordReader(root / "simple.records")
    assert all(reader.read("image", i) == files[name] for i, name in enumerate(reader.names))
