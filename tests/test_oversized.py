"""Files too large for a record: they do no harm if no dataset reads them; else the error says how to leave them out."""

import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord
from recordzoo.errors import CorruptRecordError, SourceError
from recordzoo.preparing.convert import Task, UnitConverter
from recordzoo.raw.archive import ArchiveSource
from recordzoo.raw.member import MAX_MEMBER_BYTES, Member
from recordzoo.recipes.folders import FolderRecipe
from recordzoo.recipes.recipe import Blob
from recordzoo.records import shard
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import ShardWriter, capacity_for, crc32, seal
from tests.fakes.folder import write_tree
from tests.preparing import prepared

TOO_LARGE = MAX_MEMBER_BYTES + 1


def plant(path: Path, size_bytes: int = TOO_LARGE) -> Path:
    """Write a file of holes, which takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size_bytes)
    return path


def test_a_large_file_that_is_no_image_is_no_member(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "photos")
    plant(tree / "cat" / "film.mp4")
    plant(tree / "features.npy")
    ours, theirs = ImageFolderRecord(tree), ImageFolder(tree)
    assert ours.samples == theirs.samples
    assert [image.tobytes() for image, _ in ours] == [image.tobytes() for image, _ in theirs]


@pytest.mark.parametrize("on_error", ["keep", "raise"])
def test_an_image_that_is_too_large_is_named_with_a_way_on(tmp_path: Path, on_error: str) -> None:
    tree = write_tree(tmp_path / "photos")
    plant(tree / "cat" / "slide.tif")
    with pytest.raises(SourceError, match=r"'cat/slide\.tif' has 1,073,741,825 bytes; .*Move it out, or .*'skip'"):
        ImageFolderRecord(tree, workers=1, on_error=on_error)  # type: ignore[arg-type]  # one of the literals
    assert not list(tmp_path.glob("*.records"))


@pytest.mark.parametrize("variant", [None, "8-raw"])
def test_an_image_that_is_too_large_is_skipped(
    tmp_path: Path, variant: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    tree = write_tree(tmp_path / "photos")
    huge = plant(tree / "cat" / "slide.tif")
    dataset = ImageFolderRecord(tree, workers=1, on_error="skip", variant=variant)
    assert "cat/slide.tif: 1,073,741,825 bytes, more than a record holds" in caplog.text
    assert RecordReader(dataset.records_path).manifest.skipped["cat/slide.tif"].startswith("1,073,741,825 bytes")
    huge.unlink()
    assert [path for path, _ in dataset.samples] == [path for path, _ in ImageFolder(tree).samples]
    size = dataset[0][0].size
    assert size == ImageFolder(tree)[0][0].size if variant is None else min(size) == 8


def test_a_listed_file_that_is_too_large_is_skipped(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "photos")
    paths = [path for path, _ in ImageFolder(tree).samples[:3]]
    huge = plant(tmp_path / "slide.tif")
    (tmp_path / "list.csv").write_text(
        "path,label\n" + "".join(f"{path},{i}\n" for i, path in enumerate([paths[0], huge, *paths[1:]]))
    )
    dataset = ImageFolderRecord(prepared(tmp_path / "list.csv", workers=1, on_error="skip"))
    assert [path for path, _ in dataset.samples] == paths
    assert [image.tobytes() for image, _ in dataset] == [ImageFolder(tree)[i][0].tobytes() for i in range(3)]


def test_a_large_member_of_an_archive_that_nobody_reads(tmp_path: Path) -> None:
    """A tar with a film between its images: a hole in the file, so that it takes no room."""
    path = tmp_path / "x.tar"
    with open(path, "wb") as archive:
        for name, size_bytes in (("a.txt", 3), ("film.mp4", TOO_LARGE), ("b.txt", 2)):
            info = tarfile.TarInfo(name)
            info.size = size_bytes
            archive.write(info.tobuf())
            archive.seek(-(-size_bytes // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE, os.SEEK_CUR)
        archive.write(bytes(2 * tarfile.BLOCKSIZE))
    (unit,) = ArchiveSource(path).units(1 << 40)
    found = {member.name: member.read() for member in unit.members() if member.name != "film.mp4"}
    assert found == {"a.txt": bytes(3), "b.txt": bytes(2)}
    with pytest.raises(SourceError, match=r"'film\.mp4' has 1,073,741,825 bytes"):
        [member.read() for member in unit.members()]


class Watched(FolderRecipe):
    """Counts who still holds the last member's content when the next one is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[bytes] = []
        self.counts: list[int] = []

    def extract(self, member: Member) -> Iterator[Blob]:
        """See `Recipe`."""
        if self.held:
            self.counts.append(sys.getrefcount(self.held[-1]) - 1)  # the call itself has one
        for blob in super().extract(member):
            self.held.append(blob.data)
            yield blob
            del blob


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="counts references as CPython does")
def test_content_is_let_go_before_the_next_is_read(tmp_path: Path) -> None:
    """Two members of 1 GiB, one after the other, would otherwise be in memory together."""
    recipe = Watched()
    source = recipe.find(write_tree(tmp_path / "photos"))
    assert source is not None
    (unit,) = source.units(1 << 40)
    (tmp_path / "build").mkdir()
    UnitConverter(Task(0, unit, recipe, tmp_path / "build", None, "keep")).run()
    assert len(recipe.counts) > 5
    assert set(recipe.counts) == {1}  # the list of the test


def test_a_large_value_is_checked_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CRC-32 is that of the whole, wherever the pieces are cut."""
    pieces: list[int] = []

    def noted(data: bytes, start: int = 0) -> int:
        pieces.append(len(data))
        return crc32(data, start)

    monkeypatch.setattr(shard, "_CHUNK_BYTES", 1 << 16)
    monkeypatch.setattr(shard, "crc32", noted)
    values = [os.urandom((5 << 16) + 1), b"small", os.urandom(1 << 16)]
    path = tmp_path / "x.lmdb"
    with ShardWriter(path, capacity_for(1 << 20)) as writer:
        for value in values:
            writer.put(value)
    sealed = seal(path, [len(value) for value in values], [crc32(value) for value in values])
    assert [pieces.count(1 << 16), max(pieces)] == [6, 1 << 16]
    data = path.read_bytes()
    for value, offset in zip(values, sealed.offsets.tolist(), strict=True):
        assert data[offset : offset + len(value)] == value
    flipped = bytearray(data)
    flipped[int(sealed.offsets[0]) + (3 << 16)] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(CorruptRecordError, match="value 0 reads back otherwise"):
        seal(path, [len(value) for value in values], [crc32(value) for value in values])
