"""The contract of `publish/`, for everything that publishes: the old output or the new one, whole, whatever happens.

Besides: builds that can go on stay until the output is published, and nothing else is left.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.disks import Volume, mounted, overlaid
from tests.preparing import Ended, builds, contents
from tests.publishing import REPLACING, STEPS_LOG, USERS, started, write_data

RECIPE = ("build.claimed", "shard.done", "set.manifest_written")
COPY = ("build.claimed", "build.planned", "pull.received", "pull.fetched", "set.manifest_written")
STEPS = {
    "prepare": RECIPE,  # all of its steps are in test_kill.py
    "writer": (*RECIPE, "build.planned", "shard.opened", "shard.written", "shard.done"),
    **dict.fromkeys(("convert", "import", "subset"), RECIPE),
    "merge": ("build.claimed", "build.planned", "shard.linked", "set.arrays_written", "set.manifest_written"),
    **dict.fromkeys(("copy", "pull"), COPY),
}
FINISHED = ("shard.done", "pull.fetched")
"""After these steps a part of the output is finished, and not written again."""
AFTER = ("set.published", "set.synced", "build.cleaned")
EVERY_STEP = [(user, step) for user in USERS for step in (*STEPS[user], *AFTER)]

pytestmark = pytest.mark.slow


class Made:
    """Data of two kinds, and what each user makes of it undisturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = {name: write_data(folder / name, seed) for seed, name in enumerate(("old", "new"))}
        self.files: dict[tuple[str, str], dict[str, str]] = {}

    def out(self, user: str, name: str) -> Path:
        """The output of a user, made of some data."""
        out = self.folder / "outs" / name / user / "out.records"
        if not out.exists():
            run(user, self.data[name], out)
            self.files[user, name] = state(out)
        return out

    def state(self, user: str, name: str) -> dict[str, str]:
        self.out(user, name)
        return self.files[user, name]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def state(out: Path) -> dict[str, str]:
    """The files of an output, as hashes; without what names its place."""
    return {name: digest for name, digest in contents(out).items() if name != "copied.json"}


# Any: options of `tests.publishing.main`.
def run(user: str, data: Path, out: Path, *, env: dict[str, str] | None = None, **given: Any) -> Ended:
    """Run a user to its end."""
    with started(env, user=user, data=data, out=out, **given) as process:
        return process.end()


def laid(made: Made, tmp_path: Path, user: str, *, is_replaced: bool) -> Path:
    """Lay the old output and the build of another command into a new folder; return the output's path."""
    out = tmp_path / "place" / "out.records"
    build = out.with_name(f"{out.name}.build")
    build.mkdir(parents=True)
    (build / "plan.json").write_text('{"of": "another command"}')
    (build / "u00000-00000.lmdb").write_text("of another command")
    if is_replaced:
        old = made.out(user, "old")
        shutil.copytree(old, out)
    return out


def finish(made: Made, user: str, out: Path, *, is_replaced: bool, **given: Any) -> None:
    """Run the same command again: the new output is there, and nothing else."""
    ended = run(user, made.data["new"], out, refresh=is_replaced or user == "writer", **given)
    assert ended.code == 0, ended
    assert state(out) == made.state(user, "new")
    assert os.listdir(out.parent) == [out.name]


def assert_whole(made: Made, user: str, out: Path, *, is_replaced: bool, may_be_away: bool = False) -> bool:
    """The output is the old one or the new one; whether the new one."""
    allowed = [made.state(user, "new"), *([made.state(user, "old")] if is_replaced else [])]
    if out.exists():
        assert state(out) in allowed
    else:
        assert may_be_away or not is_replaced
    return out.exists() and state(out) == allowed[0]


@pytest.mark.parametrize(("user", "step"), EVERY_STEP)
def test_killed(user: str, step: str, made: Made, tmp_path: Path) -> None:
    out = laid(made, tmp_path, user, is_replaced=False)
    assert run(user, made.data["new"], out, env={"RECORDZOO_KILL_AT": step}).code == -signal.SIGKILL
    assert assert_whole(made, user, out, is_replaced=False) == (step in AFTER)
    finished = {} if user == "writer" or step not in FINISHED else _written(out.parent)
    assert finished or user == "writer" or step not in FINISHED
    finish(made, user, out, is_replaced=False)
    assert finished.items() <= _written(out).items()


def _written(folder: Path) -> dict[int, int]:
    """The files with data anywhere in a folder, and when each was written last."""
    found = [path.stat() for path in folder.rglob("*") if path.suffix in (".lmdb", ".npy", ".jpg", ".png")]
    return {status.st_ino: status.st_mtime_ns for status in found}


@pytest.mark.parametrize(
    ("user", "step"),
    [(user, step) for user in REPLACING for step in ("set.manifest_written", "set.moved_away", *AFTER)],
)
def test_killed_while_it_replaces_without_an_exchange(user: str, step: str, made: Made, tmp_path: Path) -> None:
    out = laid(made, tmp_path, user, is_replaced=True)
    given = {"refresh": True, "exchange": False}
    assert run(user, made.data["new"], out, env={"RECORDZOO_KILL_AT": step}, **given).code == -signal.SIGKILL
    is_away = step == "set.moved_away"
    assert assert_whole(made, user, out, is_replaced=True, may_be_away=is_away) == (step in AFTER)
    finish(made, user, out, is_replaced=True, exchange=False)


@pytest.mark.parametrize("user", REPLACING)
def test_a_set_that_was_moved_away_is_not_replaced_unasked(user: str, made: Made, tmp_path: Path) -> None:
    """It is only in a build: whoever comes next puts it back before anything else."""
    out = laid(made, tmp_path, user, is_replaced=True)
    env = {"RECORDZOO_KILL_AT": "set.moved_away"}
    assert run(user, made.data["new"], out, env=env, refresh=True, exchange=False).code == -signal.SIGKILL
    ended = run(user, made.data["new"], out)
    if user not in ("prepare", "convert"):
        text = ended.error["text"]
        assert "refresh=True" in text or "replace=True" in text
    assert state(out) == made.state(user, "old")


@pytest.mark.parametrize("user", USERS)
def test_the_users_own_exception(user: str, made: Made, tmp_path: Path) -> None:
    """It comes as it is, though it is an OSError, or as the error of the user's function; then all goes on."""
    is_replaced = user in REPLACING
    out = laid(made, tmp_path, user, is_replaced=is_replaced)
    ended = run(user, made.data["new"], out, refresh=True, fail_after=0)
    assert ended.code in (1, 2), ended
    assert "the user's own file" in ended.out
    assert not assert_whole(made, user, out, is_replaced=is_replaced)
    if user == "writer":
        assert "FileNotFoundError" in ended.out
        assert not list(builds(out.parent))
    finish(made, user, out, is_replaced=is_replaced)


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    with mounted(tmp_path_factory.mktemp("disk") / "volume", "size=8m") as volume:
        yield volume


@pytest.mark.parametrize(("user", "step"), [each for each in EVERY_STEP if each[1] not in AFTER])
def test_a_full_disk(user: str, step: str, made: Made, volume: Volume) -> None:
    out = laid(made, volume.path, user, is_replaced=False)
    try:
        with started(user=user, data=made.data["new"], out=out, stop_at=step) as process:
            process.wait_until_stopped()
            ballast = volume.fill(leave=0)
            process.signal(signal.SIGCONT)
            ended = process.end()
        ballast.unlink()
        if ended.code:
            assert ended.error["type"] == "DiskSpaceError"
            kept = "Nothing is kept; free some" if user == "writer" else "What is finished is kept; free some"
            assert kept in ended.error["text"] or "has 0 B free, and" in ended.error["text"]
            assert str(out.parent) in ended.error["text"]
            assert not assert_whole(made, user, out, is_replaced=False)
            if user == "writer":
                assert not list(builds(out.parent))
        finish(made, user, out, is_replaced=False)
    finally:
        shutil.rmtree(out.parent)


@pytest.mark.parametrize("user", USERS)
def test_two_at_once(user: str, made: Made, tmp_path: Path) -> None:
    out = laid(made, tmp_path, user, is_replaced=False)
    env = {STEPS_LOG: str(tmp_path / "steps")}
    given = {"user": user, "data": made.data["new"], "out": out}
    with started(env, **given) as one, started(env, **given) as two:
        first, last = sorted((process.end() for process in (one, two)), key=lambda ended: ended.code)
    if user == "writer":
        assert "is writing" in last.error["text"] or "is there already" in last.error["text"]
    else:
        assert last.code == 0, last
    assert first.code == 0, first
    assert (tmp_path / "steps").read_text().split().count("build.claimed") == 1
    assert state(out) == made.state(user, "new")
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("user", USERS)
def test_something_else_appears_meanwhile(user: str, is_replaced: bool, made: Made, tmp_path: Path) -> None:
    out = laid(made, tmp_path, user, is_replaced=False)
    with started(
        user=user, data=made.data["new"], out=out, refresh=is_replaced, stop_at="set.manifest_written"
    ) as process:
        process.wait_until_stopped()
        out.mkdir()
        (out / "thesis.tex").write_text("a chapter")
        process.signal(signal.SIGCONT)
        assert str(out) in process.end().error["text"]
    assert [path.read_text() for path in out.iterdir()] == ["a chapter"]


@pytest.mark.parametrize("user", REPLACING)
def test_in_a_layer_of_a_container(user: str, made: Made, tmp_path: Path) -> None:
    """The old output is in a lower layer of an overlay, whose directories cannot be renamed."""
    lower = tmp_path / "image"
    old = made.out(user, "old")
    out = lower / "out.records"
    lower.mkdir()
    (shutil.copy if old.is_file() else shutil.copytree)(old, out)
    with overlaid(tmp_path / "container", lower) as volume:
        inside, seen = volume.mounted_at / out.name, volume.path / out.name
        given = {"prefix": volume.enter, "user": user, "data": made.data["new"], "out": inside, "refresh": True}
        ended = run(**given)
        assert "Invalid cross-device link" in ended.error["text"]
        assert state(seen) == made.state(user, "old")


class TestStrangers:
    """Files in a record set that recordzoo did not write outlive the set."""

    @pytest.mark.parametrize("step", ["", "set.replacing", "set.published", "set.synced"])
    @pytest.mark.parametrize("exchange", [True, False])
    @pytest.mark.parametrize("user", ["prepare", "convert", "pull"])
    def test_they_move_into_the_new_set(self, user: str, exchange: bool, step: str, made: Made, tmp_path: Path) -> None:
        out = laid(made, tmp_path, user, is_replaced=True)
        (out / "notes.txt").write_text("mine")
        (out / "own.npy").write_text("looks like ours")
        (out / "inner.records").mkdir()
        (out / "inner.records" / "manifest.json").write_text("another set")
        given = {"data": made.data["new"], "out": out, "refresh": True, "exchange": exchange}
        if step:
            assert run(user, env={"RECORDZOO_KILL_AT": step}, **given).code == -signal.SIGKILL
        assert run(user, **given).code == 0
        assert (out / "notes.txt").read_text() == "mine"
        assert (out / "own.npy").read_text() == "looks like ours"
        assert (out / "inner.records" / "manifest.json").read_text() == "another set"
        for name in ("notes.txt", "own.npy"):
            (out / name).unlink()
        shutil.rmtree(out / "inner.records")
        assert state(out) == made.state(user, "new")
        assert os.listdir(out.parent) == [out.name]
