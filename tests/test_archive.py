"""Archives: what is whole comes out as it went in, and nothing that is cut or hostile ever looks whole."""

import bz2
import functools
import gzip
import io
import itertools
import logging
import lzma
import os
import pickle
import random
import shutil
import stat
import subprocess
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from recordzoo.errors import ArchiveError
from recordzoo.raw import archive as tar
from recordzoo.raw.archive import ArchiveSource, ChainSource, NestedTarSource, inner_members
from recordzoo.raw.member import Source
from tests.fakes import archives as fake

FILES = {
    "a/0.jpg": b"",
    "a/1.jpg": b"x" * 511,
    "a/2.jpg": b"y" * 512,
    "b/3.jpg": bytes(range(256)) * 5,
    "b/ü.jpg": b"z" * 2000,
}
ZEROS = bytes(1024)


@pytest.fixture
def put(tmp_path):
    numbers = itertools.count()

    def put(data: bytes, name: str = "") -> Path:
        path = tmp_path / (name or f"{next(numbers)}.bin")  # the name must not matter
        path.write_bytes(data)
        return path

    return put


def read(source: Source, target_bytes: int = 1 << 30) -> dict[str, bytes]:
    """Read all members, checking that sizes are true and names unique."""
    found: dict[str, bytes] = {}
    for unit in source.units(target_bytes):
        for member in pickle.loads(pickle.dumps(unit)).members():
            data = member.read()
            assert len(data) == member.size_bytes
            assert member.name not in found
            found[member.name] = data
    return found


def refusal(source: Source) -> str:
    with pytest.raises(ArchiveError) as caught:
        read(source)
    assert str(caught.value).startswith(str(source.archives[0]))
    return str(caught.value)


# What is whole


TAR_FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


@pytest.mark.parametrize(
    "data",
    [
        *(pack(fake.tar(FILES, format)) for pack in fake.PACKERS.values() for format in TAR_FORMATS),
        *(fake.zipped(FILES, method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)),
    ],
    ids=[*(f"{name}-{format}" for name in fake.PACKERS for format in TAR_FORMATS), "stored", "deflated"],
)
def test_whole(put, data):
    source = ArchiveSource(put(data))
    assert list(read(source).items()) == list(FILES.items())
    for member in source.units(1)[0].members():
        with member.open() as file:
            assert b"".join(iter(functools.partial(file.read, 100), b"")) == FILES[member.name]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_of_a_zip_is_found_at_the_end_of_its_stream(put, method):
    data = fake.zipped({"a/0.jpg": random.Random(0).randbytes(3000)}, method)
    at = len(data) // 2
    source = ArchiveSource(put(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]))
    for member in source.units(1)[0].members():
        with member.open() as file, pytest.raises(ArchiveError, match=r"member 'a/0\.jpg': cannot be read"):
            shutil.copyfileobj(file, io.BytesIO(), 100)


def test_fingerprint_changes_with_name_size_and_time(put, tmp_path):
    path = put(b"")
    prints = []
    for data, time_ns in ((b"1", 1), (b"12", 1), (b"12", 2)):
        path.write_bytes(data)
        os.utime(path, ns=(0, time_ns))
        prints.append(ArchiveSource(path).fingerprint())
        assert ArchiveSource(path).fingerprint() == prints[-1]
    other = ArchiveSource(path.rename(tmp_path / "other"))
    prints += [other.fingerprint(), *(ChainSource([other] * count).fingerprint() for count in (1, 2))]
    assert len(set(prints)) == 6


def test_missing_file(tmp_path):
    for kind in (ArchiveSource, NestedTarSource):
        assert "No such file" in refusal(kind(tmp_path / "gone.tar"))
    with pytest.raises(ArchiveError, match="No such file"):
        ArchiveSource(tmp_path / "gone.tar").fingerprint()
    assert "cannot be opened (Is a directory)" in refusal(ArchiveSource(tmp_path))


def test_unread_members_are_skipped(put):
    big = bytes(3 << 20)
    files = {"1": b"1", "2": big, "3": b"3"}
    for packed in (fake.tar(files), gzip.compress(fake.tar(files)), fake.zipped(files)):
        members = ArchiveSource(put(packed)).units(1)[0].members()
        assert {m.name: m.read() for m in members if m.name != "2"} == {"1": b"1", "3": b"3"}


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def with_comment(data: bytes, comment: bytes) -> bytes:
    """Write a comment behind a zip that has none."""
    return data[:-2] + len(comment).to_bytes(2, "little") + comment


TAR, ZIP, EMPTY_ZIP = fake.tar(FILES), fake.zipped({"good": b"1", "f": bytes(500)}), fake.zipped({})
END = fake.header(b"f") + ZEROS
ODD_PATHS = [("./a/1", b"1"), ("b//2", b"2"), ("c/./3", b"3")]
LARGE = fake.header(b"\xfc\xfc", b"\x80" + (3).to_bytes(11, "big"))  # its size is no octal number
SIGNED = b"%06o" % (int(LARGE[148:154], 8) - 256 * sum(byte > 127 for byte in LARGE))  # as old tars summed up bytes
FOLDERS = [fake.header(b"old/", flag=b"\0"), fake.header(b"odd/", flag=b"0")]
PAX_SIZE = fake.pax(fake.record(b"size", b"3") + fake.record(b"mtime", b"1.5")) + fake.header(b"f")
READ = {
    "paths, tar": (fake.tar([fake.entry("./", tarfile.DIRTYPE), *ODD_PATHS]), {"a/1": b"1", "b/2": b"2", "c/3": b"3"}),
    "paths, zip": (fake.zipped([("./", b""), *ODD_PATHS]), {"a/1": b"1", "b/2": b"2", "c/3": b"3"}),
    "folders, tar": (
        b"".join([fake.tar([fake.entry("d", tarfile.DIRTYPE)], end=False), *FOLDERS, fake.tar({"d/f": b"1"})]),
        {"d/f": b"1"},
    ),
    "folders, zip": (fake.zipped([("d/", b""), ("d/f", b"1")]), {"d/f": b"1"}),
    "a size in base 256": (LARGE + fake.padded(b"abc") + ZEROS, {"\udcfc\udcfc": b"abc"}),
    "a signed checksum": (changed(LARGE, 148, SIGNED) + fake.padded(b"abc") + ZEROS, {"\udcfc\udcfc": b"abc"}),
    "times of GNU in the place of a prefix": (
        fake.sealed(changed(fake.header(b"f", prefix=b"14000000000"), 257, b"ustar  \0")) + ZEROS,
        {"f": b""},
    ),
    "a prefix": (fake.header(b"f", prefix=b"folder") + ZEROS, {"folder/f": b""}),
    "a size in pax": (PAX_SIZE + fake.padded(b"abc") + ZEROS, {"f": b"abc"}),
    "a comment in pax": (fake.pax(fake.record(b"comment", b"1"), b"g") + END, {"f": b""}),
    "a comment in a zip": (with_comment(ZIP, b"PK, of some birds"), {"good": b"1", "f": bytes(500)}),
    "an empty zip": (EMPTY_ZIP, {}),
    **{
        f"two streams of {name}, and zeros": (pack(TAR[:5000]) + pack(TAR[5000:]) + bytes(700), FILES)
        for name, pack in fake.PACKERS.items()
    },
}


@pytest.mark.parametrize("name", READ)
def test_read(put, caplog, name):
    data, files = READ[name]
    assert read(ArchiveSource(put(data))) == files
    assert not caplog.records


@pytest.mark.parametrize("flags", [[], ["--format=v7"], ["--format=gnu"], ["--format=posix"], ["-j"], ["-z"]])
def test_what_the_tar_program_writes(tmp_path, flags):
    for name, data in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    made = subprocess.run(["tar", *flags, "-cf", tmp_path / "made", "-C", tmp_path / "in", "."], capture_output=True)
    if made.returncode:
        pytest.skip(f"this tar cannot: {made.stderr!r}")
    assert read(ArchiveSource(tmp_path / "made")) == FILES


# What is cut: never a stream that ends as if it were whole


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_tar_cut_anywhere(put, format):
    whole = fake.tar(FILES, format)
    end = len(fake.tar(FILES, format, end=False))
    for length in sorted({*range(0, len(whole), 512), *range(7, end + 512, 97)}):
        source = ArchiveSource(put(whole[:length], "cut"))
        if length >= end + 512:  # one zero block is an end marker, and all members are before it
            assert read(source) == FILES
        else:
            assert "at byte" in refusal(source), length


def test_cut_says_where_and_after_what(put):
    data = fake.tar({"a.jpg": b"1", "b.jpg": b"2" * 600}, end=False)
    assert "ends without an end marker" in refusal(ArchiveSource(put(data)))
    text = refusal(ArchiveSource(put(data[:1700])))
    assert "ends inside member 'b.jpg': 600 bytes were announced, 164 are there" in text
    assert "at byte 1,700, after member 'a.jpg'" in text
    assert "download it again" in text
    with pytest.raises(ArchiveError, match="ends inside a header") as caught:
        read(ArchiveSource(put(data[:1300])))
    assert (caught.value.offset, caught.value.member) == (1300, "a.jpg")


@pytest.mark.parametrize("unread", [3000, 3 << 20])
def test_cut_in_a_member_that_nobody_reads(put, unread):
    data = fake.tar({"1": bytes(unread)}, end=False)[:-600]
    for packed in (data, gzip.compress(data)):
        with pytest.raises(ArchiveError, match="ends inside member '1'"):
            list(ArchiveSource(put(packed)).units(1)[0].members())


@pytest.mark.parametrize("pack", ["gz", "bz2", "xz", "zip"])
def test_packed_and_cut_anywhere(put, pack):
    files = {"a": os.urandom(3000), "b": b"b" * 9000}
    whole = fake.zipped(files) if pack == "zip" else fake.PACKERS[pack](fake.tar(files))
    for length in {*range(0, len(whole), 53), *range(len(whole) - 20, len(whole))}:
        refusal(ArchiveSource(put(whole[:length], "cut")))


@pytest.mark.parametrize("packer", ["gz", "bz2", "xz"])
def test_compressed_with_a_flipped_bit(put, packer):
    whole = fake.PACKERS[packer](fake.tar({"a": random.Random(0).randbytes(3000)}))
    # Nothing checks gzip's time, name and system, nor the bits that fill up the last byte of deflate and of bzip2.
    unchecked = {"gz": {*range(10), len(whole) - 9}, "bz2": {len(whole) - 1}, "xz": set()}[packer]
    for index in {*range(0, len(whole), 31), *range(len(whole) - 12, len(whole))} - unchecked:
        data = bytearray(whole)
        data[index] ^= 16
        refusal(ArchiveSource(put(bytes(data), "flipped")))


# What is broken


def test_every_header_byte_counts(put):
    whole = fake.tar({"a": b"1", "b": b"2"})
    for index in {*range(512)} - {155}:  # the byte after the checksum's NUL
        data = bytearray(whole)
        data[1024 + index] ^= 1
        refusal(ArchiveSource(put(bytes(data), "flipped")))


@pytest.mark.parametrize("tail", [b"x", bytes(5000) + b"\1", fake.tar({"more": b"1"})])
def test_tar_trailing(put, tail):
    for packer in fake.PACKERS.values():
        assert "goes on after its end marker" in refusal(ArchiveSource(put(packer(fake.tar(FILES) + tail))))
    assert read(ArchiveSource(put(fake.tar(FILES) + bytes(100_001)))) == FILES


@pytest.mark.parametrize("packer", ["gz", "bz2", "xz"])
@pytest.mark.parametrize(
    "tail", [b"g", b"garbage" * 9, bytes(100) + b"\1", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", bytes(70_000) + b"x"]
)
def test_compressed_trailing(put, packer, tail):
    whole = fake.PACKERS[packer](fake.tar(FILES))
    for each in (tail, whole[:-1], whole[:12], whole):
        refusal(ArchiveSource(put(whole + each)))
    assert read(ArchiveSource(put(whole + bytes(70_000)))) == FILES


@pytest.mark.parametrize("packer", ["bz2", "xz"])
def test_compressed_streams_of_any_size(put, packer):
    """As parallel packers write: very many streams, among them empty ones; and one that holds more than one read."""
    pack = fake.PACKERS[packer]
    files = {"big": random.Random(1).randbytes(300_000) + bytes(3 << 20), **FILES}
    whole = fake.tar(files)
    pieces = b"".join(pack(whole[start : start + 70_001]) + pack(b"") for start in range(0, len(whole), 70_001))
    for data in (pack(whole), pieces):
        assert read(ArchiveSource(put(data))) == files
        unread = [member.name for member in ArchiveSource(put(data)).units(1)[0].members()]
        assert unread == list(files)


# One table of what is refused, in the words of the error

INNER = fake.zipped({"inside": b"1"})
OUTER = fake.zipped({"first": b"0" * 100, "inner.zip": INNER, "last": b"2"}, zipfile.ZIP_STORED)


BROKEN_PAX = [b"x", b"0 a=b\n", b"6 a=b\n0 a=b\n", b"99 a=b\n", b"5 a=b\n", b"7 a=b\n\0", b"4 ab\n", b"6 abc\n"]
BROKEN_PAX += [b"9" * 100_000, b"2 " * 100_000 + b"=", b"-6 a=b\n", b"1 a=", b"4 =\n"]
BROKEN_PAX += [fake.record(b"a", b"9" * 100_000)]  # CVE-2024-6232
BROKEN_PAX += [fake.record(b"size", size) for size in (b"-5", b"1_0", b"x", b"", b"9" * 30, b"\xd9\xa1")]
SPARSE_1_0 = fake.record(b"GNU.sparse.major", b"1") + fake.record(b"GNU.sparse.minor", b"0")
BROKEN_SPARSE = [SPARSE_1_0, fake.record(b"GNU.sparse.map", b"1,x"), fake.record(b"GNU.sparse.size", b"x")]
LONE_PAX = fake.header(b"first") + fake.pax(fake.record(b"a", b"b"))
REFUSED = [
    (b"<!DOCTYPE html><html>" + b" " * 600, "it starts with b'<!DOCTYPE html><'"),
    (b"\x89PNG" + b"x" * 600, "(at byte 0)"),
    (changed(TAR, 512 + 148, b"?"), "at byte 512, after member 'a/0.jpg'"),
    (fake.pax(fake.record(b"path", b"a\0b")) + END, "has a NUL in its name"),
    *((fake.header(name) + ZEROS, "has no name") for name in (b"", b".", b"./.")),
    *(
        (
            fake.header(b"e") + fake.header(b"f", size, flag) + fake.header(b"g") + ZEROS,
            "of an impossible size (-|has a broken header (it starts with b'f",
        )
        for size in (b"\xff" * 12, b"-0000000512", b"\x81" + b"\0" * 11, b"89")
        for flag in (b"0", b"x", b"L", b"2")
    ),
    *((fake.pax(records) + END, "broken pax header") for records in BROKEN_PAX),
    # the records end where their header says
    (
        fake.header(b"pax", b"%011o" % 6, b"x")
        + fake.padded(fake.record(b"a", b"b") + fake.record(b"size", b"-512"))
        + END,
        "broken pax header",
    ),
    *((fake.header(b"e") + fake.pax(records) + END, "broken header") for records in BROKEN_SPARSE),
    # the map of a sparse member is no content
    (fake.header(b"e") + fake.pax(SPARSE_1_0) + fake.header(b"f") + fake.header(b"0\n") + ZEROS, "broken header"),
    (fake.sealed(fake.header(b"f", flag=b"S")[:482] + b"\1" + bytes(29)), "at byte"),
    *(
        (fake.pax(fake.record(b"a", b"b"), flag) * 10_000 + END, "more than 16 extended headers")
        for flag in (b"x", b"g")
    ),
    *(
        (fake.header(b"f", b"%011o" % (1 << 30), flag), "an extended header of 1,073,741,824 bytes")
        for flag in (b"x", b"g", b"L", b"K")
    ),
    *(
        (fake.pax(fake.record(key, b"1"), b"g") + END, "for all members")
        for key in (b"size", b"path", b"GNU.sparse.size")
    ),
    (LONE_PAX + ZEROS, "broken header"),
    *((LONE_PAX + rest, "at byte") for rest in (b"", b"x", bytes(511))),
    (fake.header(b"f", b"%011o" % ((1 << 30) + 1)) + ZEROS, "1,073,741,825 bytes; 1,073,741,824 are the limit"),
    (fake.header(b"f", b"%011o" % (1 << 30)) + ZEROS, "ends inside member 'f'"),
    (fake.forge_zip(fake.zipped({"f": b"1"}), 24, 22, ((1 << 30) + 1).to_bytes(4, "little")), "1,073,741,825 bytes"),
    (ZIP.replace(b"good", b"go\0d"), "has a NUL in its name"),
    (ZIP + b"x", "something follows"),
    (b"PK\3\4" + ZIP, "put after something else"),
    (OUTER[: OUTER.index(INNER) + len(INNER)], "directory is not that of the whole file"),
    *(
        (fake.forge_zip(fake.zipped({"f": bytes(5000)}, method), 24, 22, size.to_bytes(4, "little")), "member 'f'")
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        for size in (0, 100, 6000)
    ),
    (fake.zipped([("a/f", b"1"), ("./a/f", b"2")]), "'./a/f' is there twice"),
    (fake.forge_zip(ZIP, 8, 6, b"\1"), "member 'f' is encrypted"),
    (fake.forge_zip(ZIP, 10, 8, b"\x09"), "by method 9 (deflate64)"),
    *((fake.zipped(FILES, method), f"by method {method} ") for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)),
    (fake.forge_zip(fake.zipped({"a": b"1"}), 28, 26, b"\0\0\1\0"), "has no name"),  # its one byte is an extra field
    (ZIP.replace(b"good", b"evil", 1), "File name in directory 'good' and header"),
    *(  # method, CRC, packed size, size
        (
            changed(ZIP, ZIP.rindex(b"PK\x03\x04") + at, bytes([ZIP[ZIP.rindex(b"PK\x03\x04") + at] ^ 1])),
            "member 'f' has another size, CRC or method in its header than in the directory",
        )
        for at in (8, 14, 18, 22)
    ),
    (with_comment(ZIP, EMPTY_ZIP), "two end records"),
    # an end record in the comment whose own comment is longer than the file
    (with_comment(ZIP, EMPTY_ZIP[:-2] + b"\xff\xffbirds"), "something follows its end"),
    (ZIP + EMPTY_ZIP, "lists no members, but"),
    (ZIP[:-10] + bytes(4) + (len(ZIP) - 22).to_bytes(4, "little") + ZIP[-2:], "lists no members, but"),
    (ZIP[:-14] + b"\3\0\3\0" + ZIP[-10:], "its directory lists 2 members, and its end record 3"),
]


@pytest.mark.parametrize(
    ("data", "said"), REFUSED, ids=[f"{number} {said[:40]}" for number, (_, said) in enumerate(REFUSED)]
)
def test_refused(put, data, said):
    """A `|` stands between texts of which one is said."""
    text = refusal(ArchiveSource(put(data)))
    assert any(each in text for each in said.split("|"))


def test_directories_and_links_in_a_row_have_a_limit(put, monkeypatch):
    monkeypatch.setattr(tar, "MAX_PASSED_OVER", 1000)
    folders = fake.tar([fake.entry("d", tarfile.DIRTYPE)], end=False) * 600
    assert read(ArchiveSource(put(folders + fake.header(b"f") + folders + ZEROS))) == {"f": b""}
    assert "more than 1,000 directories and links in a row" in refusal(ArchiveSource(put(folders * 2 + ZEROS)))


# What is hostile

EVIL_NAMES = ["../x", "a/../../x", "a/..", "..", "/etc/x", "//x", "C:\\x", "c:x", "\\\\host\\x", "a\\..\\..\\x", "\\x"]


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_refused_names(put, name):
    for data in (
        fake.tar({"good": b"1", name: b"2"}, tarfile.GNU_FORMAT),
        fake.tar({"good": b"1", name: b"2"}, tarfile.PAX_FORMAT),
        fake.tar([("good", b"1"), fake.entry(name, tarfile.SYMTYPE, "good")]),
        fake.tar([fake.entry(name, tarfile.DIRTYPE)]),
        fake.pax(fake.record(b"path", name.encode())) + fake.header(b"good") + ZEROS,
        fake.zipped({"good": b"1", name: b"2"}),
    ):
        text = refusal(ArchiveSource(put(data)))
        assert "refused" in text
        assert repr(name)[:-1] in text  # a directory has a slash more


def test_links_and_devices_are_passed_over(put, caplog):
    others = [
        fake.entry("soft", tarfile.SYMTYPE, "/etc/passwd"),
        fake.entry("hard", tarfile.LNKTYPE, "../../x"),
        fake.entry("null", tarfile.CHRTYPE),
        fake.entry("disk", tarfile.BLKTYPE),
        fake.entry("pipe", tarfile.FIFOTYPE),
        fake.entry("unknown", b"Q"),
    ]
    archive = put(fake.tar([("first", b"1"), *others, ("last", b"2")]))
    with caplog.at_level(logging.WARNING, "recordzoo"):
        assert read(ArchiveSource(archive)) == {"first": b"1", "last": b"2"}
    (line,) = caplog.messages
    assert line.startswith(
        f"{archive}: passed over 6 that are no regular files: soft (symbolic link), hard (hard link)"
    )


def test_zip_links_are_passed_over(put, caplog):
    link, pipe = fake.zip_entry("soft", stat.S_IFLNK | 0o777), fake.zip_entry("pipe", stat.S_IFIFO)
    plain = fake.zip_entry("plain", stat.S_IFREG | 0o644)
    assert read(ArchiveSource(put(fake.zipped([(link, b"/etc"), (pipe, b""), (plain, b"1")])))) == {"plain": b"1"}
    assert "passed over 2 that are no regular files: soft (symbolic link), pipe (special file)" in caplog.text


@pytest.mark.parametrize("flags", [["--format=gnu"], ["--format=posix"], ["--format=posix", "--sparse-version=0.1"]])
def test_sparse_members_are_passed_over(tmp_path, caplog, flags):
    with open(tmp_path / "holes", "wb") as file:
        for index in range(200):  # more than one header can tell
            file.seek(index * 65536)
            file.write(b"x" * 4096)
        file.truncate(200 * 65536)
    (tmp_path / "z").write_bytes(b"1")
    made = subprocess.run(
        ["tar", "-S", *flags, "-cf", tmp_path / "made.tar", "-C", tmp_path, "holes", "z"], capture_output=True
    )
    if made.returncode or (tmp_path / "made.tar").stat().st_size > 200 * 65536:
        pytest.skip(f"this tar or this file system knows no holes: {made.stderr!r}")
    assert read(ArchiveSource(tmp_path / "made.tar")) == {"z": b"1"}
    assert "passed over 1 that are no regular files: holes (sparse file)" in caplog.text


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress, gzip.compress])
def test_a_small_bomb_takes_no_memory(put, compress):
    """A tar's header says 1 GiB; a compressed tar of some hundred bytes is refused before there is memory for it."""
    forged = fake.header(b"f", b"%011o" % (1 << 30)) + bytes(1 << 20)
    source = ArchiveSource(put(compress(forged)))
    tracemalloc.start()
    try:
        assert "unpacks to more than 67,108,864 bytes" in refusal(source)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


# Reading


def test_late_read_is_a_clear_error(put):
    members = ArchiveSource(put(fake.tar(FILES))).units(1)[0].members()
    first, second = next(members), next(members)
    with pytest.raises(RuntimeError, match=r"'a/0.jpg' of .*it is read too late") as caught:
        first.read()
    assert not isinstance(caught.value, ArchiveError)
    assert second.read() == FILES["a/1.jpg"]
    members.close()
    with pytest.raises(RuntimeError, match="too late"):
        second.read()


# Tars of tars


def nested(num: int = 4) -> dict[str, dict[str, bytes]]:
    return {f"n{i:08}": {f"n{i:08}_{j}.JPEG": bytes([i, j]) * (1000 * i + j) for j in range(5)} for i in range(num)}


def nested_tar(classes: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {f"{name}.tar": fake.tar(files) for name, files in classes.items()}


def test_nested(put):
    classes = nested()
    source = NestedTarSource(put(fake.tar(nested_tar(classes))))
    wanted = {f"{name}/{file}": data for name, files in classes.items() for file, data in files.items()}
    for target in (1, 20_000, 1 << 30):
        assert read(source, target) == wanted
        assert list(read(source, target)) == list(wanted)


def test_nested_broken_inner_tar_is_named(put):
    inner = nested_tar(nested())
    broken = bytearray(inner["n00000002.tar"])
    start = broken.index(b"n00000002_3.JPEG")
    flipped = bytes(broken[: start + 148]) + b"?" + bytes(broken[start + 149 :])
    for data in (flipped, broken[: start + 700], broken[:start], b"<html>" * 200, b""):
        path = put(fake.tar(inner | {"n00000002.tar": bytes(data)}))
        text = refusal(NestedTarSource(path))
        assert text.startswith(f"{path}, inner tar 'n00000002.tar': ")


def test_nested_outer_cut(put):
    whole = fake.tar(nested_tar(nested()))
    end = len(fake.tar(nested_tar(nested()), end=False))
    for length in range(0, end + 512, 512):
        with pytest.raises(ArchiveError):
            NestedTarSource(put(whole[:length], "cut")).units(1)
    with pytest.raises(ArchiveError, match="it starts with"):
        NestedTarSource(put(gzip.compress(whole))).units(1)
    with pytest.raises(ArchiveError, match="end marker"):
        NestedTarSource(put(whole + b"x")).units(1)


def test_nested_two_of_one_class(put):
    inner = fake.tar(FILES)
    with pytest.raises(ArchiveError, match="two inner tars named 'n1'"):
        NestedTarSource(put(fake.tar({"a/n1.tar": inner, "b/n1.tar": inner}))).units(1)


@pytest.mark.parametrize("pack", [*fake.PACKERS, "zip"])
def test_an_archive_in_an_archive(put, pack):
    inner = fake.zipped(FILES) if pack == "zip" else fake.PACKERS[pack](fake.tar(FILES))
    for outer in (fake.zipped({"data/inner": inner}), fake.tar({"data/inner": inner})):
        (unit,) = ArchiveSource(put(outer)).units(1)
        found = {each.name: each.read() for member in unit.members() for each in inner_members(member)}
        assert found == FILES


def test_a_cut_archive_in_an_archive_is_named(put):
    for data in (fake.tar(FILES)[:3000], gzip.compress(fake.tar(FILES))[:-20], fake.zipped(FILES)[:-20], b""):
        (unit,) = ArchiveSource(put(fake.zipped({"data/inner": data}))).units(1)
        with pytest.raises(ArchiveError, match="data/inner"):
            [each.read() for member in unit.members() for each in inner_members(member)]
