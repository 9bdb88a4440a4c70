"""A tree that another process writes to while it is converted, with sizes and times kept."""

from pathlib import Path
from typing import Any

import pytest

from recordzoo.errors import SourceError
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import FileTable, Member, has_lasting_inodes
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


class Meddler:
    """Calls a function when the recipe comes to a file, once; counts the files that were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: str, act: Any) -> None:
        self.names: list[str] = []

        def meddle(member: Member) -> None:
            self.names.append(member.name)
            if member.name == at and self.names.count(at) == 1:
                act()

        simple.before_members(monkeypatch, meddle)


@pytest.mark.parametrize("how", ["in place", "exchanged"])
def test_while_it_is_converted(how: str, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Meddler(monkeypatch, "c002/0000.jpg", lambda: rewrite(images, how))
    with pytest.raises(SourceError, match=r"was written to while it was converted \(c000/0001\.jpg, .* more\)") as err:
        prepare(tmp_path)
    assert "Nothing was published" in str(err.value)
    assert "run the same command again" in str(err.value)
    assert not (tmp_path / "simple.records").exists()
    assert out_of_date(prepare(tmp_path), images) == []


def test_only_what_was_written_to_is_converted_again(
    images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddler = Meddler(monkeypatch, "c003/0000.jpg", lambda: rewrite(images[:1]))
    with pytest.raises(SourceError, match=r"converted \(c000/0001\.jpg\)"):
        prepare(tmp_path)
    every = len(meddler.names)
    meddler.names.clear()
    assert out_of_date(prepare(tmp_path), images) == []
    assert "c000/0001.jpg" in meddler.names
    assert len(meddler.names) < every / 2


@pytest.mark.parametrize("at", ["c001/0005.jpg", "c003/0009.jpg"])
def test_between_an_interruption_and_the_resume(
    at: str, images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of finished units, and of one of whose shards some are finished."""

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        Meddler(patched, at, stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path)
    rewrite(images)
    try:
        reader = prepare(tmp_path)
    except SourceError as err:
        assert "changed since its preparation began" in str(err)  # noqa: PT017 - either is good
        reader = prepare(tmp_path)
    assert out_of_date(reader, images) == []


def test_permissions_that_change_meanwhile_cost_no_more_than_a_second_look(
    images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the inode changes with them too, so nobody can tell; the same command then does it."""
    Meddler(monkeypatch, "c003/0000.jpg", lambda: images[0].chmod(0o600))
    with pytest.raises(SourceError, match=r"converted \(c000/0001\.jpg\)"):
        prepare(tmp_path)
    assert out_of_date(prepare(tmp_path), images) == []


def test_an_archive_without_a_known_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = simple.write(tmp_path, "stream")
    Meddler(monkeypatch, "c003/0000.jpg", lambda: archive.chmod(0o600))
    with pytest.raises(SourceError, match=r"simple\.tgz was written to while it was converted\. Nothing"):
        ensure(SimpleRecipe("stream"), tmp_path, workers=1)
    ensure(SimpleRecipe("stream"), tmp_path, workers=1)


def test_the_hash_of_an_archive_is_proof_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = simple.write(tmp_path, "stream")
    meddler = Meddler(monkeypatch, "c003/0000.jpg", lambda: archive.chmod(0o600))
    made = ensure(SimpleRecipe("stream", (simple.remote(archive),)), tmp_path, workers=1)
    assert meddler.names.count("c003/0000.jpg") == 1
    assert is_record_set(made)


def test_file_systems_that_number_their_files_anew(tmp_path: Path) -> None:
    lines = (
        "22 1 0:20 / /proc rw shared:5 - proc proc rw",
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
        "40 35 0:51 / /mnt/remote rw - fuse.sshfs host:/data rw",
        "",
    )
    mounts = tmp_path / "mountinfo"
    mounts.write_text("\n".join(lines))
    found = {device: has_lasting_inodes(device, mounts) for device in ((98 << 8), 51, 52)}
    assert found == {98 << 8: True, 51: False, 52: True}
    assert has_lasting_inodes(51, tmp_path / "none")


def test_two_tables_as_one(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/z"):
        (tmp_path / name).write_text(name)
    tables = [FileTable(str(tmp_path / "a")), FileTable(str(tmp_path))]
    tables[0].add("b/z", (tmp_path / "a" / "b" / "z").stat())
    tables[1].add("x", (tmp_path / "x").stat())
    both = tables[0].joined(tables[1])
    assert (both.base, both.names, list(both.sizes)) == (str(tmp_path), ["a/b/z", "x"], [5, 1])
