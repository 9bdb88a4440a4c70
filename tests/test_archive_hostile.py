"""Archives that somebody made to do harm, or that a file manager spoiled: bombs, traps, junk, names."""

import bz2
import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from torchvision.datasets import ImageFolder

from recordzoo import CUB200Record, ImageFolderRecord
from recordzoo.errors import ArchiveError, ImageError
from recordzoo.raw.archive import ArchiveSource, decompressed, raw_source
from tests.fakes import archives as fake
from tests.fakes.cub200 import ARCHIVE
from tests.fakes.folder import image_bytes
from tests.test_archive import read, refusal


def put(folder: Path, data: bytes) -> ArchiveSource:
    (folder / "archive").write_bytes(data)
    return ArchiveSource(folder / "archive")


# Bombs


def test_what_is_packed_inside_stays_packed(tmp_path: Path) -> None:
    """42.zip, and zips that hold themselves, need somebody who unpacks on and on: here a zip in a zip is a file."""
    nested = fake.zipped({"0": bytes(1 << 20)})
    for level in range(10):
        nested = fake.zipped({f"{level}-{number}.zip": nested for number in range(3)})
    assert read(put(tmp_path, fake.zipped({"bomb.zip": nested}))) == {"bomb.zip": nested}
    twice = gzip.compress(gzip.compress(fake.tar({"f": bytes(1 << 20)})))
    assert "is no archive that is read here" in refusal(put(tmp_path, twice))


def overlapping(count: int, *, quoted: bool) -> bytes:
    """Build a zip whose many members are made of few bytes: all of the same, or each around the next one's header."""
    kernel = zlib.compress(bytes(100_000), 9)[2:-4]
    names = [b"%06d" % number for number in range(count)]

    def headers(name: bytes, packed: int, at: int) -> tuple[bytes, bytes]:
        crc = zlib.crc32(bytes(100_000))
        facts = struct.pack("<5H3I2H", 20, 0, zipfile.ZIP_DEFLATED, 0, 33, crc, packed, 100_000, len(name), 0)
        central = b"PK\x01\x02\x14\0" + facts + struct.pack("<3H2I", 0, 0, 0, 0, at) + name
        return b"PK\x03\x04" + facts + name, central

    each = len(headers(names[0], 0, 0)[0])
    body = directory = b""
    for number, name in enumerate(names):
        at = number * each if quoted else 0
        local, central = headers(name, len(kernel) + (count - 1 - number) * each if quoted else len(kernel), at)
        directory += central
        if quoted or not number:
            body += local
    body += kernel
    return body + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)


@pytest.mark.parametrize("quoted", [False, True])
def test_members_that_share_their_bytes(tmp_path: Path, quoted: bool) -> None:
    data = overlapping(500, quoted=quoted)
    assert len(data) < 50_000
    assert len(zipfile.ZipFile(io.BytesIO(data)).infolist()) == 500
    assert "'000000' and '000001' overlap" in refusal(put(tmp_path, data))
    assert read(put(tmp_path, overlapping(1, quoted=quoted))) == {"000000": bytes(100_000)}


def test_a_bomb_is_refused_before_anything_of_it_is_unpacked(tmp_path: Path) -> None:
    """Two members of 600 MB, as the directory has it, in some hundred bytes."""
    data = bytearray(fake.zipped({"a": bytes(1000), "b": bytes(1000)}))
    for start in (data.index(b"PK\x01\x02"), data.rindex(b"PK\x01\x02")):
        data[start + 24 : start + 28] = (600_000_000).to_bytes(4, "little")
    members = put(tmp_path, bytes(data)).units(1)[0].members()
    with pytest.raises(ArchiveError, match="unpacks to 1,200,000,000 bytes, far more than any data set"):
        next(members)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.bz2", bz2.compress(bytes(70 << 20)), "unpacks to more than 67,108,864 bytes"),
        ("a.gz", gzip.compress(b"x" * 999)[:-8] + bytes(8), r"cannot be read or unpacked \(BadGzipFile: CRC"),
    ],
    ids=["a bomb", "another checksum"],
)
def test_a_compressed_file_that_is_refused(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    """As one raw file."""
    (tmp_path / name).write_bytes(data)
    (member,) = raw_source(tmp_path / name).units(1)[0].members()
    with pytest.raises(ArchiveError, match=rf"{name}: {said}"):
        decompressed(member).read()


def test_sizes_that_stand_behind_the_content(tmp_path: Path) -> None:
    """What a zip that was written to a pipe has: zeros in the header, the truth after the content."""

    class Pipe(io.BytesIO):
        def tell(self) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"1" * 600)
        archive.writestr("b", b"2")
    assert pipe.getvalue()[6] & 8
    assert read(put(tmp_path, pipe.getvalue())) == {"a": b"1" * 600, "b": b"2"}


def test_zip_with_sizes_of_64_bits(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b"):
            with archive.open(name, "w", force_zip64=True) as file:
                file.write(name.encode() * 1000)
    assert buffer.getvalue().count(b"\xff" * 8) == 2  # where the sizes of 32 bits would be
    assert read(put(tmp_path, buffer.getvalue())) == {"a": b"a" * 1000, "b": b"b" * 1000}


@pytest.mark.slow
def test_zip_of_more_members_than_16_bits_count(tmp_path: Path) -> None:
    files = {f"{number:x}": b"" for number in range((1 << 16) + 1)}
    data = fake.zipped(files, zipfile.ZIP_STORED)
    assert b"PK\x06\x06" in data  # the end record of 64 bits
    assert read(put(tmp_path, data)) == files


# What file managers leave


def birds(files: Iterable[tuple[str, bytes]]) -> bytes:
    return gzip.compress(fake.tar([(f"CUB_200_2011/images/{name}", data) for name, data in files]))


def as_unpacked(archive: Path, folder: Path) -> ImageFolder:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return ImageFolder(folder / "CUB_200_2011/images")


JUNK = {
    "001.A/._1.jpg": b"\0\5\x16\7\0\2\0\0Mac OS X        ",
    "001.A/.DS_Store": b"\0\0\0\1Bud1",
    "001.A/Thumbs.db": b"\xd0\xcf\x11\xe0",
    "001.A/.ipynb_checkpoints/1-checkpoint.jpg": image_bytes("1.jpg", 9),
    ".DS_Store": b"\0\0\0\1Bud1",
    "__MACOSX/001.A/._1.jpg": b"\0\5\x16\7",
}


@pytest.mark.parametrize("form", ["archive", "tree"])
def test_junk_is_what_it_is_to_torchvision(tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture) -> None:
    images = {f"001.A/{number}.jpg": image_bytes("1.jpg", number) for number in range(3)}
    (tmp_path / ARCHIVE).write_bytes(birds([*JUNK.items(), *images.items()]))
    theirs = as_unpacked(tmp_path / ARCHIVE, tmp_path / "unpacked")
    if form == "archive":
        ours = CUB200Record(tmp_path, split="all", check_hash=False, incomplete=True)
    else:
        ours = ImageFolderRecord(theirs.root)
    names = [os.path.relpath(path, theirs.root) for path, _ in theirs.samples]
    assert [path.partition("images/")[2] for path, _ in ours.samples] == names
    junk = [name for name in JUNK if name.endswith(".jpg")]
    assert names == [junk[0], *images, *junk[1:]]
    assert (ours.classes, ours.targets) == (theirs.classes, theirs.targets)
    assert ours.classes == ["001.A", "__MACOSX"]
    assert "2 broken images were kept as they are: 001.A/._1.jpg: no image format" in caplog.text
    assert "__MACOSX/001.A/._1.jpg: no image format" in caplog.text
    for index, name in enumerate(names):
        if name.endswith("._1.jpg"):
            with pytest.raises(OSError, match="cannot identify image"):
                theirs[index]
            with pytest.raises(ImageError, match=r"001\.A/\._1\.jpg"):
                ours[index]
        else:
            assert ours[index][0].tobytes() == theirs[index][0].tobytes()


# Names

LONG = [f"001.A/{'x' * 300}.jpg", f"001.A/{'y' * 2000}.jpg"]  # no Linux file system takes them, nor an LMDB key
ODD_NAMES = [
    "001.A/caf\u00e9.jpg",
    "001.A/cafe\u0301.jpg",
    "001.A/a.jpg",
    "001.A/A.jpg",
    "001.A/A.JPG",
    "001.A/bad\udcff\udcfe.jpg",
    "001.A/ new\nline\t.jpg",
    "001.A/\u202egpj.jpg",
    "001.a/a.jpg",
    "002.\udce9/1.jpg",
]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_odd_names_are_those_of_the_unpacked_tree(tmp_path: Path, format: int) -> None:
    images = {name: image_bytes("1.jpg", seed) for seed, name in enumerate([*ODD_NAMES, *LONG])}
    entries = {f"CUB_200_2011/images/{name}": data for name, data in images.items()}
    (tmp_path / ARCHIVE).write_bytes(fake.tar(entries, format))
    ours = CUB200Record(tmp_path, split="all", check_hash=False, incomplete=True)
    base = tmp_path / "CUB_200_2011" / "images"
    stored = {str(Path(path).relative_to(base)): ours.read(i) for i, (path, _) in enumerate(ours.samples)}
    assert stored == images
    for name in ODD_NAMES:  # and torchvision, where it can unpack them
        (tmp_path / "unpacked" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "unpacked" / name).write_bytes(images[name])
    theirs = ImageFolder(tmp_path / "unpacked")
    assert ours.classes == theirs.classes
    names = [os.path.relpath(path, theirs.root) for path, _ in theirs.samples]
    assert [name for name in stored if name not in LONG] == names


def test_odd_names_in_a_zip(tmp_path: Path) -> None:
    names = ["a/caf\u00e9", "a/cafe\u0301", "a/A", "a/a", "x" * 300]
    files = {name: str(number).encode() for number, name in enumerate(names)}
    assert read(put(tmp_path, fake.zipped(files))) == files
    # Where UTF-8 is not said it is the code page of the IBM PC, to torchvision's unpacking as well.
    assert read(put(tmp_path, fake.zipped({"a/?": b"1"}).replace(b"a/?", b"a/\x82"))) == {"a/\u00e9": b"1"}
