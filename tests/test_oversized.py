"""Files too large for a record: they do no harm if no dataset reads them; else the error says how to leave them out."""

import os
import tarfile
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord
from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchiveSource
from recordzoo.raw.member import MAX_MEMBER_BYTES
from recordzoo.records import shard
from recordzoo.records.reader import RecordReader
from tests.fakes.folder import write_tree
from tests.fakes.records import write_records

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


def test_an_image_that_is_too_large_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = write_tree(tmp_path / "photos")
    huge = plant(tree / "cat" / "slide.tif")
    dataset = ImageFolderRecord(tree, workers=1, on_error="skip")
    assert "cat/slide.tif: 1,073,741,825 bytes, more than a record holds" in caplog.text
    assert RecordReader(dataset.records_path).manifest.skipped["cat/slide.tif"].startswith("1,073,741,825 bytes")
    huge.unlink()
    assert [path for path, _ in dataset.samples] == [path for path, _ in ImageFolder(tree).samples]


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


def test_a_large_value_is_checked_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its CRC-32 is that of the whole, wherever the pieces are cut."""
    monkeypatch.setattr(shard, "_CHUNK_BYTES", 1 << 16)
    values = [os.urandom((5 << 16) + 1), b"small", os.urandom(1 << 16)]
    reader = RecordReader(write_records(tmp_path / "x.records", values))
    assert [reader.read("image", position) for position in range(3)] == values
