"""A zip of class folders becomes a record set with the samples that `ImageFolder` has of the unpacked tree."""

import shutil
import subprocess
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from torchvision.datasets import ImageFolder

from recordzoo.formats import zip as zip_format
from recordzoo.records.reader import RecordReader
from tests.fakes import archives as fake
from tests.foreign import check, check_refused, expected_of, pairs
from tests.preparing import prepared

IMAGES = [image for image, _ in pairs(8)]
NAMES = (
    *("dog/b.JPG", "cat/10.jpg", "cat/sub/z.png", "cat/9.jpg"),
    *("Emu/x.webp", "dog/a.jpeg", "cat-1/a.bmp", "cat/s.png"),
)


def write(path: Path, files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            if name.endswith("/"):
                archive.writestr(name, b"")
            else:
                with archive.open(name, "w", **options) as member:
                    member.write(data)
    return path


def tree(path: Path, folder: Path) -> Path:
    """Unpack a zip without what macOS added."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if "__MACOSX" not in name and "/." not in name])
    return folder


def assert_same(reader: RecordReader, split: str, theirs: ImageFolder) -> None:
    """Compare a split with torchvision's dataset: classes, order, labels, bytes."""
    positions = reader.split(split).tolist() if split else range(len(reader))
    assert reader.manifest.classes == tuple(theirs.classes)
    assert [reader.array("target")[position] for position in positions] == theirs.targets
    assert [reader.read("image", p) for p in positions] == [Path(path).read_bytes() for path, _ in theirs.samples]
    names = [Path(path).relative_to(theirs.root).as_posix() for path, _ in theirs.samples]
    assert [reader.names[position].removeprefix(f"{split}/") for position in positions] == names


FILES = dict(zip(NAMES, IMAGES, strict=True))
SPLITS = {f"{split}/{name}": data for split in ("val", "train") for name, data in FILES.items()}
TOP = {f"photos/{name}": data for name, data in FILES.items()}
JUNK = {"__MACOSX/cat/._9.jpg": b"x", "cat/._9.jpg": b"x", "cat/readme.txt": b"x", "cat/": b"", "emptied/": b""}


@pytest.mark.parametrize(
    ("files", "top", "splits", "options"),
    [
        pytest.param({**JUNK, **FILES}, "", [""], {"method": zipfile.ZIP_STORED}, id="plain"),
        pytest.param(TOP, "photos", [""], {"force_zip64": True}, id="top"),
        pytest.param({"top/": b"", "photos/b/": b"", **TOP}, "photos", [""], {}, id="top and empty folders"),
        pytest.param({**SPLITS, "train/a/": b"", "val/a/": b""}, "", ["train", "val"], {}, id="splits"),
        pytest.param({f"x/{k}": v for k, v in SPLITS.items()}, "x", ["train", "val"], {}, id="top and splits"),
        pytest.param({f"train/{k}": v for k, v in FILES.items()}, "train", [""], {}, id="one split"),
        pytest.param({"cat/1.jpg": IMAGES[0]}, "", [""], {}, id="one class"),
    ],
)
def test_as_image_folder_reads_the_tree(
    files: Mapping[str, bytes], top: str, splits: list[str], options: Mapping[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path / "photos.zip", files, **options)
    reader = RecordReader(prepared(path, tmp_path / "my.records", workers=1))
    assert set(reader.manifest.splits) == set(splits) - {""}
    root = tree(path, tmp_path / "tree") / top
    for split in splits:
        assert_same(reader, split, ImageFolder(root / split, allow_empty=True))


@pytest.mark.slow
def test_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = sorted(pairs(24), key=lambda pair: pair[1])
    classes = [f"c{label}" for label in range(5)]
    files = {f"c{label}/{number:02d}.jpg": data for number, (data, label) in enumerate(samples)}
    path = write(tmp_path / "photos.zip", {f"{split}/{k}": v for split in ("train", "test") for k, v in files.items()})
    splits = {"test": range(24), "train": range(24, 48)}
    monkeypatch.setattr(zip_format, "_PIECE_BYTES", 4096)
    check(path, expected_of([*samples, *samples], classes=classes, splits=splits), tmp_path / "one.records")


def test_a_split_without_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "k.zip", {"test/2.jpg": IMAGES[0], "test/1.jpg": IMAGES[1], "train/cat/1.jpg": IMAGES[2]})
    reader = RecordReader(prepared(path, tmp_path / "my.records", workers=1, fields={"target": "label"}))
    assert reader.array("label").tolist() == [-1, -1, 0]
    assert list(reader.names) == ["test/1.jpg", "test/2.jpg", "train/cat/1.jpg"]
    assert [reader.read("image", position) for position in range(3)] == [IMAGES[1], IMAGES[0], IMAGES[2]]


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"1.jpg": b"", "2.jpg": b""}, "2 images lie in no class folder, such as '1.jpg'"),
        ({"train/cat/1.jpg": b"", "train/2.jpg": b""}, "1 image lies in no class folder, such as 'train/2.jpg'"),
        ({"test/1.jpg": b""}, "1 image lies in no class folder"),
        ({"cat/1.txt": b""}, "There are no images in"),
        ({"cat/../../1.jpg": b""}, "has '..' in its name"),
        ({"a/1.jpg": b"", fake.zip_entry("b/2.jpg", 0o120777): b"/etc/passwd"}, "'b/2.jpg' is a symbolic link"),
    ],
)
def test_no_class_folders_and_a_link(files: Mapping[str, bytes], text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.zip"
    path.write_bytes(fake.zipped(files.items()))
    check_refused(path, tmp_path / "my.records", str(path), text)


class _Named(zipfile.ZipInfo):
    """A member whose name has these bytes, whatever they mean."""

    raw: bytes

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.raw, 0


def unicode_path(raw: bytes, name: str) -> bytes:
    data = b"\1" + zlib.crc32(raw).to_bytes(4, "little") + name.encode()
    return (0x7075).to_bytes(2, "little") + len(data).to_bytes(2, "little") + data


UTF8, CP850, GBK = "cats-席".encode(), "c\u00e4ts".encode("cp850"), "席".encode("gbk")
DOS, UNIX, NTFS = 0, 3, 11


@pytest.mark.parametrize(
    ("raw", "system", "version", "extra", "name", "is_guess"),
    [
        (UTF8, UNIX, 20, b"", "cats-席", False),
        (UTF8, NTFS, 63, b"", "cats-席", False),
        (UTF8, DOS, 25, b"", "cats-席", False),
        (UTF8, DOS, 20, b"", "cats-席", True),
        (CP850, DOS, 20, b"", "c\u00e4ts", True),
        (CP850, NTFS, 50, b"", "c\u00e4ts", True),
        (CP850, DOS, 20, unicode_path(CP850 + b"/1.jpg", "席/1.jpg"), "席", False),
        (CP850, DOS, 20, unicode_path(b"another", "席/1.jpg"), "c\u00e4ts", True),
        (b"?", DOS, 20, unicode_path(b"?/1.jpg", "席/1.jpg"), "席", False),
        (rb"cats\1.jpg", DOS, 20, b"", "cats", False),
        (GBK, UNIX, 20, b"", GBK.decode("utf-8", "surrogateescape"), False),
    ],
)
def test_names_without_the_mark_of_utf_8(
    raw: bytes, system: int, version: int, extra: bytes, name: str, is_guess: bool, tmp_path: Path, caplog: Any
) -> None:
    """Those of Info-ZIP's unzip 6.00 on Linux, which writes another byte for an umlaut of DOS: no valid UTF-8."""
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        info = _Named("x")
        info.raw, info.create_system, info.create_version, info.extra = raw, system, version, extra
        info.raw += b"" if b"." in raw else b"/1.jpg"
        with archive.open(info, "w") as member:
            member.write(IMAGES[0])
        archive.writestr("b/1.jpg", IMAGES[1])
    reader = RecordReader(prepared(tmp_path / "photos.zip", workers=1))
    assert reader.manifest.classes == tuple(sorted(["b", name]))
    assert ("without a mark for UTF-8" in caplog.text) == is_guess
    if shutil.which("unzip") and not is_guess:
        done = subprocess.run(["unzip", "-qq", "-d", tmp_path / "unzipped", tmp_path / "photos.zip"], check=False)
        assert done.returncode in (0, 1)  # 1: it warns of backslashes
        assert tuple(ImageFolder(tmp_path / "unzipped").classes) == reader.manifest.classes


def test_an_image_larger_than_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "k.zip", {"a/1.jpg": b"x", "b/2.jpg": b"yy"})
    monkeypatch.setattr(zip_format, "MAX_MEMBER_BYTES", 1)
    check_refused(path, tmp_path / "my.records", f"{path}: b/2.jpg has 2 bytes; 1 are the limit.")
