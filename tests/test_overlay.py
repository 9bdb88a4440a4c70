"""Containers: what lies in a lower layer of an overlay can be read and removed, but its directories not renamed."""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recordzoo.preparing.preparation import ensure
from tests import preparing
from tests.disks import Volume, overlaid
from tests.fakes import simple
from tests.fakes.simple import SimpleRecipe
from tests.preparing import Process, assert_made, builds, contents

OPTIONS = {"shard_bytes": 1 << 17, "workers": 1}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("wanted")
    simple.write(root, "tree")
    return contents(ensure(SimpleRecipe("tree"), root, **OPTIONS))


def layer(root: Path) -> Path:
    """Raw data in a directory that will be a layer of an image."""
    root.mkdir()
    simple.write(root, "tree")
    return root


def interrupted(root: Path) -> Path:
    """A build that a killed process left."""
    with Process(root, "tree", env={"RECORDZOO_KILL_AT": "shard.done:2"}, **OPTIONS) as process:
        process.end()
    (left,) = builds(root)
    assert list(left.glob("*.lmdb"))
    return left


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Callable[[Path], Volume]]:
    """Starts a container over a layer."""
    with contextlib.ExitStack() as stack:
        yield lambda lower: stack.enter_context(overlaid(tmp_path / "container", lower))


def prepare_in(volume: Volume, **options: object) -> preparing.Ended:
    return preparing.run(volume.mounted_at, "tree", prefix=volume.enter, **{**OPTIONS, **options})


def test_a_build_in_the_image(container: Callable[[Path], Volume], wanted: dict[str, str], tmp_path: Path) -> None:
    lower = layer(tmp_path / "image")
    left = interrupted(lower)
    volume = container(lower)
    with pytest.raises(OSError, match=os.strerror(errno.EXDEV)):
        rename_inside(volume, left.name, "other")
    ended = prepare_in(volume)
    assert ended.digest
    assert "are already converted" in ended.log
    assert_made(volume.path, "tree", wanted)
    assert left.exists()  # in the image nothing changes


def rename_inside(volume: Volume, one: str, other: str) -> None:
    """Prove that such a directory cannot be renamed here, or else the test would prove nothing."""
    code = f"import os, sys\ntry: os.rename({one!r}, {other!r})\nexcept OSError as err: sys.exit(err.errno)"
    enter = [word if not word.startswith("--wdns=") else f"--wdns={volume.mounted_at}" for word in volume.enter]
    done = subprocess.run([*enter, sys.executable, "-c", code], check=False)
    if done.returncode:
        raise OSError(done.returncode, os.strerror(done.returncode))


def test_a_part_of_a_download_in_the_image(container: Callable[[Path], Volume], tmp_path: Path) -> None:
    """Files of a layer can be renamed: the download goes on where it was."""
    from tests.fakes.server import FileServer

    archive = simple.write(tmp_path / "server", "stream")
    lower = tmp_path / "image"
    lower.mkdir()
    half = archive.stat().st_size // 2
    (lower / "simple.tgz.part").write_bytes(archive.read_bytes()[:half])
    volume = container(lower)
    with FileServer(tmp_path / "server") as server:
        options = preparing.served(archive, server.url)
        assert preparing.run(volume.mounted_at, "stream", prefix=volume.enter, **options).digest
        assert [request.range for request in server.log] == [f"bytes={half}-"]
    assert (volume.path / "simple.tgz").read_bytes() == archive.read_bytes()
