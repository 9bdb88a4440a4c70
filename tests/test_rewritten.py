"""A tree that another process writes to while it is converted, with sizes and times kept."""

from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import SourceError
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import Member
from recordzoo.records.reader import RecordReader, is_record_set
from tests.fakes import simple
from tests.fakes.simple import SimpleRecipe
from tests.running import printed

SHARD_BYTES = 100_000

REWRITE = """
import os, sys
for path in sys.argv[2:]:
    status = os.stat(path)
    data = open(path, "rb").read()
    data = data[:-1] + bytes([data[-1] ^ 1])
    if sys.argv[1] == "in place":
        with open(path, "r+b") as file:
            file.write(data)
    else:
        with open(path + ".new", "wb") as file:
            file.write(data)
    if sys.argv[1] == "exchanged":
        os.utime(path + ".new", ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(path + ".new", path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
"""


def rewrite(paths: list[Path], how: str = "in place") -> None:
    """Let another process write other bytes into files; size and time of each stay."""
    printed(REWRITE, how, *paths)


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    simple.write(tmp_path, "tree")
    found = sorted((tmp_path / "simple").glob("c*/*.jpg"))
    return [path for path in found if path.stat().st_size > 2000]  # bytes that no decoder looks at are behind those


def prepare(root: Path, **options: Any) -> RecordReader:
    return RecordReader(ensure(SimpleRecipe("tree"), root, shard_bytes=SHARD_BYTES, workers=1, **options))


def out_of_date(reader: RecordReader, images: list[Path]) -> list[str]:
    """The records that are not what the tree holds."""
    stored = {name: position for position, name in enumerate(reader.names)}
    names = [f"{path.parent.name}/{path.name}" for path in images]
    assert stored.keys() >= set(names)
    pairs = zip(images, names, strict=True)
    return [name for path, name in pairs if path.read_bytes() != reader.read("image", stored[name])]


def meddled(monkeypatch: pytest.MonkeyPatch, at: str, act: Any) -> list[str]:
    """Call a function when the recipe comes to a file, once; return the files that are read, as they come."""
    names: list[str] = []

    def meddle(member: Member) -> None:
        names.append(member.name)
        if member.name == at and names.count(at) == 1:
            act()

    simple.before_members(monkeypatch, meddle)
    return names


@pytest.mark.parametrize("how", ["in place", "exchanged"])
def test_while_it_is_converted(how: str, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meddled(monkeypatch, "c002/0000.jpg", lambda: rewrite(images, how))
    with pytest.raises(SourceError, match=r"was written to while it was converted\. Nothing") as err:
        prepare(tmp_path)
    assert "run the same command again" in str(err.value)
    assert not (tmp_path / "simple.records").exists()
    assert out_of_date(prepare(tmp_path), images) == []


@pytest.mark.parametrize("at", ["c001/0005.jpg", "c003/0009.jpg"])
def test_between_an_interruption_and_the_resume(
    at: str, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of finished units, and of one of whose shards some are finished."""

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        meddled(patched, at, stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path)
    rewrite(images)
    try:
        reader = prepare(tmp_path)
    except SourceError as err:
        assert "changed since its preparation began" in str(err)  # noqa: PT017 - either is good
        reader = prepare(tmp_path)
    assert out_of_date(reader, images) == []


def test_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its known hash is proof enough."""
    archive = simple.write(tmp_path, "stream")
    names = meddled(monkeypatch, "c003/0000.jpg", lambda: archive.chmod(0o600))
    with pytest.raises(SourceError, match=r"simple\.tgz was written to while it was converted\. Nothing"):
        ensure(SimpleRecipe("stream"), tmp_path, workers=1)
    names.clear()
    made = ensure(SimpleRecipe("stream", (simple.remote(archive),)), tmp_path, workers=1)
    assert names.count("c003/0000.jpg") == 1
    assert is_record_set(made)
