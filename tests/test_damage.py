"""Damage in files of other formats, as a table: what writes them, what is damaged, what the error says.

Each row is an error of ours that names the file, and no record set. What only one format can suffer (forged headers,
hostile names, pickles) is in `test_foreign_<format>.py`.
"""

import bz2
import gzip
import lzma
import os
import pickle
import shutil
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes import archives as fake
from tests.fakes import legacy
from tests.fakes.legacy import chunk
from tests.foreign import check_refused, pairs, written
from tests.test_foreign_tfrecord import framed

SAMPLES = pairs(6)
FILES = {
    f"{n}.{key}": data
    for n, (image, label) in enumerate(SAMPLES)
    for key, data in (("jpg", image), ("cls", b"%d" % label))
}


def tfrecord(folder: Path) -> Path:
    return Path(shutil.copytree(written("tfrecord")[0], folder / "set")) / "train-00000-of-00002"


def tfrecord_gz(folder: Path) -> Path:
    path = folder / "a.tfrecord.gz"
    path.write_bytes(gzip.compress((written("tfrecord")[0] / "validation-00000-of-00001").read_bytes()))
    return path


def tars(folder: Path) -> Path:
    (folder / "set").mkdir()
    for number in range(3):
        (folder / "set" / f"train-{number:05d}-of-00003.tar").write_bytes(fake.tar(FILES, format=tarfile.PAX_FORMAT))
    return folder / "set" / "train-00001-of-00003.tar"


def packed_tar(compress: Callable[[bytes], bytes], ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"a.tar.{ending}"
        path.write_bytes(compress(fake.tar(FILES)))
        return path

    return write


def zipped(folder: Path) -> Path:
    path = folder / "k.zip"
    with zipfile.ZipFile(path, "w") as file:
        for number, (image, label) in enumerate(SAMPLES):
            file.writestr(f"c{label}/{number}.jpg", image)
    return path


def sqlite(folder: Path) -> Path:
    path = folder / "photos.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE photos (image BLOB, label INTEGER, caption TEXT)")
        database.executemany("INSERT INTO photos VALUES (?, ?, 'hello')", SAMPLES * 20)
    return path


def indexed(folder: Path) -> Path:
    """A blob and its index; the index is damaged."""
    ends = np.cumsum([len(image) for image, _ in SAMPLES])
    (folder / "photos.bin").write_bytes(b"".join(image for image, _ in SAMPLES))
    rows = [(end - len(image), len(image), label) for end, (image, label) in zip(ends, SAMPLES, strict=True)]
    np.save(folder / "photos.npy", np.array(rows))
    return folder / "photos.npy"


TABLE = pa.table({"image": [image for image, _ in SAMPLES], "label": [label for _, label in SAMPLES]})


def arrow(folder: Path) -> Path:
    path = folder / "a.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return path


def parquet(folder: Path) -> Path:
    pq.write_table(TABLE, folder / "a.parquet")
    return folder / "a.parquet"


def lmdb(folder: Path) -> Path:
    return legacy.folder2lmdb(folder / "train.lmdb", SAMPLES, pickle.dumps) / "data.mdb"


def cut(count: int) -> Callable[[Path], None]:
    """Cut bytes from the end."""
    return lambda path: path.write_bytes(path.read_bytes()[:-count]) and None


def flip(place: int | bytes) -> Callable[[Path], None]:
    """Flip a bit at a place, or in the first byte of some bytes."""

    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[data.index(place) if isinstance(place, bytes) else place] ^= 1
        path.write_bytes(data)

    return damage


def holds(data: bytes) -> Callable[[Path], None]:
    """Put something else in its place."""
    return lambda path: path.write_bytes(data) and None


def text_of_no_letters(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"hello", b"he\xfflo"))


def schema_of_no_letters(path: Path) -> None:
    """SQLite names the table in an error, which sqlite3 then cannot decode."""
    data = path.read_bytes().replace(b"tablephotosphotos", b"tablephoto\xffphotos")
    path.write_bytes(data.replace(b"CREATE TABLE photos (image", b"CREATE TABLE photos ((mage"))


def huge(path: Path) -> None:
    """Append zeros that take no room on the disk."""
    os.truncate(path, 1 << 40)


def keys_of(count: int) -> bytes:
    entry = b"".join(chunk(1, chunk(1, b"%d" % n) + chunk(2, chunk(1, chunk(1, b"")))) for n in range(count))
    return framed(chunk(1, entry))


def columns(path: Path) -> None:
    pq.write_table(pa.table({f"c{n}": [1] for n in range(1025)}), path)


def rows_of_nothing(path: Path) -> None:
    pq.write_table(pa.table({"image": pa.nulls(2_000_000)}), path)


LAST_IMAGE = SAMPLES[-1][0][20:60]
DAMAGE: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object], str]] = {
    # a flipped bit
    "tfrecord, a length": (tfrecord, flip(0), "byte 0: the checksum of a length is wrong"),
    "tfrecord, a record": (tfrecord, flip(200), "byte 0: the checksum of a record is wrong"),
    "tfrecord.gz": (tfrecord_gz, flip(-6), "the compressed file is cut or damaged"),
    "tar": (tars, flip(150), "bad checksum"),
    "tar.gz": (packed_tar(gzip.compress, "gz"), flip(-6), "cannot be read or unpacked"),
    "tar.bz2": (packed_tar(bz2.compress, "bz2"), flip(-6), "cannot be read or unpacked"),
    "zip": (zipped, flip(LAST_IMAGE), "CRC-32"),
    "sqlite, the kind of a page": (sqlite, flip(4096), "malformed"),
    "parquet, its footer": (parquet, flip(-6), "is cut or damaged"),
    # cut
    "tfrecord, cut": (tfrecord, cut(3), "the file is cut"),
    "tfrecord.gz, cut": (tfrecord_gz, cut(20), "the compressed file is cut or damaged"),
    "tar, cut": (tars, lambda path: path.write_bytes(path.read_bytes()[:700]), "ends inside member"),
    "tar.xz, cut": (packed_tar(lzma.compress, "xz"), cut(20), "cannot be read or unpacked"),
    "zip, cut": (zipped, cut(30), "its directory cannot be read"),
    "sqlite, cut": (sqlite, cut(4096), "malformed"),
    "indexed, cut": (indexed, cut(8), "this index cannot be read"),
    "arrow, cut": (arrow, cut(300), "is cut or damaged"),
    "arrow, half of its end": (arrow, cut(4), "is cut or damaged"),
    "arrow, its rows": (arrow, lambda path: path.write_bytes(path.read_bytes()[:400]), "is cut or damaged"),
    "parquet, cut": (parquet, cut(100), "is cut or damaged"),
    "lmdb, cut": (lmdb, cut(30_000), "damaged"),
    # something else in its place
    "tfrecord, no example": (tfrecord, holds(framed(b"\x0a\xff\xff\xff\xff\x0f")), "it is no Example"),
    "tfrecord, no features": (tfrecord, holds(framed(chunk(7, b""))), "it is no tf.train.Example with features"),
    "tfrecord, zlib": (tfrecord_gz, holds(zlib.compress(framed(b""))), "is compressed with zlib"),
    "zip, no zip": (zipped, holds(b"GIF89a"), "is no zip"),
    "sqlite, a text": (sqlite, text_of_no_letters, "Could not decode to UTF-8"),
    "sqlite, a schema": (sqlite, schema_of_no_letters, "codec can't decode byte 0xff"),
    "tfrecord, many keys": (tfrecord_gz, holds(keys_of(1025)), "has 1,025 fields; 1,024 are the most"),
    "tfrecord.gz, zeros": (tfrecord_gz, holds(gzip.compress(framed(bytes(70 << 20)))), "far more than data does"),
    "parquet, many columns": (parquet, columns, "has 1,025 columns; 1,024 are the most"),
    "parquet, rows of nothing": (parquet, rows_of_nothing, "unpacks to more than 67,108,864 bytes"),
    "indexed, huge": (indexed, huge, "this index cannot be read: [Errno 27] more than 4,294,967,296 bytes"),
    "lmdb, a huge list": (
        lambda folder: legacy.basicsr(folder / "x.lmdb", {"a": SAMPLES[0][0]}) / "meta_info.txt",
        huge,
        "meta_info.txt cannot be read (more than 2,048 bytes)",
    ),
    "indexed, empty": (indexed, holds(b""), "this index cannot be read: it is damaged"),
    "indexed, a header": (indexed, holds(b"\x93NUMPY\1\0\5\0(((\n "), "this index cannot be read: it is damaged"),
    "arrow, empty": (arrow, holds(b""), "is empty"),
    "lmdb, no database": (lmdb, holds(b"no database" * 1000), "is no LMDB database"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name: str, tmp_path: Path) -> None:
    write, damage, text = DAMAGE[name]
    path = write(tmp_path)
    damage(path)
    is_in_folder = path.parent != tmp_path
    place = path.parent if is_in_folder else path.with_name("photos.bin") if write is indexed else path
    check_refused(place, tmp_path / "one.records", str(path), text)


@pytest.mark.parametrize("write", [tfrecord, tars])
def test_a_missing_file(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    path.unlink()
    check_refused(path.parent, tmp_path / "one.records", "1 of ", f"files are missing: {path.name}.")


@pytest.mark.parametrize("node", ["a FIFO", "a device", "a link to nothing", "a link to itself"])
@pytest.mark.parametrize("write", [tfrecord, tars, zipped, indexed, arrow, parquet, lmdb])
def test_what_is_no_file_is_not_read(write: Callable[[Path], Path], node: str, tmp_path: Path) -> None:
    """In a directory, too; nothing waits for a FIFO's writer, or reads a device to its end."""
    path = write(tmp_path)
    path.unlink()
    if node == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to({"a device": "/dev/zero", "a link to itself": path}.get(node, "/no/such/file"))
    for place in (path, path.parent):
        check_refused(place, tmp_path.with_name("one.records"))


@pytest.mark.parametrize("ending", [".tar.zst", ".tar.lz4"])
def test_a_tar_that_is_compressed_otherwise(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"(\xb5/\xfd" + bytes(100))
    for place in (path, tmp_path):
        check_refused(place, tmp_path / "one.records", f"{path} is compressed in a way that is not read")


def test_a_sample_that_cannot_be_stored(tmp_path: Path) -> None:
    """The error names the file, also if the sample is one of those that tell which fields there are."""
    path = tmp_path / "a.tar"
    path.write_bytes(fake.tar({"0.jpg": SAMPLES[0][0], "0.json": b'{"a": 1e999}'}))
    check_refused(path, tmp_path / "one.records", f"{path}, sample '0.jpg': 'json' holds inf, which JSON has not")
