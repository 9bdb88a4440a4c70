"""Conversions on a real Dask cluster: its own commands start scheduler and workers, and signals kill them half-way."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recordzoo.errors import PrepareError
from recordzoo.preparing.preparation import ensure
from recordzoo.preparing.workers import dask_executor
from recordzoo.recipes import folders as folder
from tests.clusters import Cluster, cluster
from tests.fakes import simple
from tests.fakes.folder import write_tree
from tests.fakes.simple import SimpleRecipe
from tests.preparing import REPOSITORY, SHARD_BYTES, Process, assert_made, beside, builds, contents, wait_for
from tests.running import run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the set that one process makes of the tar of tars."""
    root = tmp_path_factory.mktemp("wanted")
    simple.write(root, "nested")
    return contents(ensure(SimpleRecipe("nested"), root, shard_bytes=SHARD_BYTES, workers=1))


def test_the_command_line_converts_on_a_cluster(two_workers: Cluster, tmp_path: Path) -> None:
    """From a relative path; the workers have another current directory."""
    write_tree(tmp_path / "photos")
    whole = contents(ensure(folder.FolderRecipe(), tmp_path / "photos", records_dir=tmp_path / "whole.records"))
    done = run("prepare", "photos", "--dask", str(two_workers.file), cwd=tmp_path, apart=True)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "photos.records") == whole
    assert sorted(os.listdir(tmp_path)) == ["photos", "photos.records", "whole.records"]
    both = run("prepare", "photos", "--dask", str(two_workers.file), "--workers", "2", cwd=tmp_path)
    assert both.returncode == 2
    assert both.stderr.startswith("error: --workers 2 is for processes of this machine")


def test_a_worker_is_killed_half_way(wanted: dict[str, str], two_workers: Cluster, tmp_path: Path) -> None:
    simple.write(tmp_path, "nested")
    with Cluster(two_workers.folder / "dying") as alone, Process(tmp_path, "nested", dask=str(alone.file)) as process:
        first = alone.start_worker(RECORDZOO_KILL_AT="shard.written:2")
        wait_for(lambda: first.poll() is not None, "the worker's end")
        assert first.returncode == -signal.SIGKILL
        (build,) = builds(tmp_path)
        assert list(build.glob("u*.tmp"))
        alone.start_worker()
        assert process.end().digest
    assert_made(tmp_path, "nested", wanted)


def test_the_scheduler_is_killed_half_way(wanted: dict[str, str], two_workers: Cluster, tmp_path: Path) -> None:
    simple.write(tmp_path, "nested")
    with Cluster(two_workers.folder / "lost") as lost:
        worker = lost.start_worker(RECORDZOO_KILL_AT="shard.written:6")
        with Process(tmp_path, "nested", dask=str(lost.file)) as process:
            wait_for(lambda: worker.poll() is not None, "the worker's end")
            lost.scheduler.kill()
            lost.scheduler.wait()
            error = process.end().error
    assert error["type"] == "PrepareError"
    assert error["text"].startswith("The executor lost its workers, or was shut down (")
    assert error["text"].endswith(" What is finished is kept; run the same command again.")
    (build,) = builds(tmp_path)
    finished = {path.stat().st_ino for path in build.glob("*.lmdb")}
    assert finished
    with Process(tmp_path, "nested", dask=str(two_workers.file)) as process:
        assert process.end().digest
    assert contents(tmp_path / "simple.records") == wanted
    assert finished <= {path.stat().st_ino for path in (tmp_path / "simple.records").glob("*.lmdb")}
    assert beside(tmp_path, "nested") == ["simple.records"]


CONVERTS = """
import sys
from recordzoo import convert
from recordzoo.preparing.workers import dask_executor

class Mine:  # in no module that a worker could import
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return b"%d" % index, index % 3

convert(Mine(), "one.records", num_shards=4, workers=1)
with dask_executor(sys.argv[1]) as executor:
    convert(Mine(), "two.records", num_shards=4, executor=executor)
"""


def test_a_dataset_reaches_the_workers(two_workers: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONVERTS, str(two_workers.file)]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, check=True)
    assert contents(tmp_path / "two.records") == contents(tmp_path / "one.records")


def test_no_scheduler_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordzoo.preparing.workers.CONNECT_S", 0.2)
    write_tree(tmp_path / "photos")
    absent = run("prepare", "photos", "--dask", "absent.json", cwd=tmp_path)
    wrong = run("prepare", "photos", "--dask", "nope", cwd=tmp_path, apart=True)
    assert (absent.returncode, wrong.returncode, len(wrong.stderr.splitlines())) == (1, 2, 1)
    assert "No Dask scheduler answers at absent.json (there is no such file after 0 s)" in absent.stderr
    assert os.listdir(tmp_path) == ["photos"]


def test_distributed_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PrepareError, match=r"pip install 'recordzoo\[dask\]'"), dask_executor("tcp://127.0.0.1:1"):
        pass
