"""docs/format.md says enough to read a record set: its own reader, and what it says of each byte, on real ones."""

import functools
import json
import re
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recordzoo import CIFAR10Record, ImageFolderRecord, RecordReader, RecordWriter, convert
from recordzoo.records import manifest
from recordzoo.records.arrays import marks_name
from recordzoo.records.manifest import BoxFormat, FieldKind, FieldSpec, SetKind
from tests.fakes import cifar, lists
from tests.fakes.folder import bad_image, image_bytes, write_tree
from tests.fakes.records import flip, some_values, write_records
from tests.fakes.samples import jpeg
from tests.preparing import prepared
from tests.test_docs import BLOCK, text_of

PAGE = text_of("docs/format.md")
READER = next(match["code"] for match in BLOCK.finditer(PAGE) if match["language"] == "python")
CLASS = READER[: READER.index('\nrecords = Records("')]

Make = Callable[[Path], Path]
Read = Callable[[Path], Any]


@pytest.fixture(scope="module")
def read() -> Read:
    """The page's reader: its class, made of nothing but the page's text."""
    names: dict[str, Any] = {}
    exec(compile(CLASS, "docs/format.md", "exec"), names)
    return names["Records"]


def tree(root: Path) -> Path:
    files = {
        f"{kind}/{number}.{kind}": image_bytes(f"x.{kind}", number) for kind in ("jpg", "png") for number in range(5)
    }
    return write_tree(root, {**files, "png/broken.png": bad_image()})


def class_folder(root: Path) -> Path:
    return Path(ImageFolderRecord(tree(root / "photos"), workers=1).records_path)


def raw_variant(root: Path) -> Path:
    """Each value has a shape of its own, and one is empty."""
    return Path(ImageFolderRecord(tree(root / "photos"), variant="8-raw", workers=1).records_path)


def arrays(root: Path) -> Path:
    """All values have one shape."""
    cifar.build().write_tree(root)
    return Path(CIFAR10Record(root, prepare=True, check_hash=False, workers=1).records_path)


def several_shards(root: Path) -> Path:
    """Some positions have no value, some an empty one; names that are no UTF-8; splits in an order of their own."""
    values = [None if i % 7 == 3 else b"" if i == 5 else value for i, value in enumerate(some_values(40))]
    names = [f"a/{i}\udcff{'é' * i}" for i in range(40)]
    splits = {"train": np.array([7, 0, 39, 7]), "none": np.zeros(0, np.int64)}
    return write_records(root / "x.records", values, per_shard=9, names=names, splits=splits)


def converted(root: Path) -> Path:
    samples = [
        {
            "photo": jpeg(i),
            "drawing": Image.new("RGBA", (5, i + 1), (i, 2, 3, 200)),
            "depth": np.full((300 + i, 2), i, np.float32),
            "words": ["é", i, None, {"x": 1.5}],
            "blob": bytes(i),
            "box": np.arange(4) - i,
            "flag": i % 2 == 0,
            "target": i,
        }
        for i in range(6)
    ]
    kinds = {"blob": "bytes"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Path(convert(samples, root / "own.records", kinds=kinds, workers=1))


def written(root: Path) -> Path:
    with RecordWriter(root / "mine.records", classes=["a", "b"], shard_bytes=20_000) as writer:
        for i in range(60):
            writer.write(
                {"name": f"{i}", "image": jpeg(i), "target": i % 2, "split": ["train", "odd"] if i % 2 else "test"}
            )
    return root / "mine.records"


def listed(root: Path) -> Path:
    lists.write_images(root, ["1.png", "2.png"])
    (root / "list.csv").write_text(
        "path,label,caption,split\n1.png,cat,one,train\n2.png,dog,two,val\n1.png,cat,again,val\n"
    )
    return Path(prepared(root / "list.csv", workers=1))


SETS = (class_folder, raw_variant, arrays, several_shards, converted, written, listed)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    """Make each record set when it is first wanted."""
    return functools.cache(lambda make: make(tmp_path_factory.mktemp(make.__name__)))


@pytest.fixture(
    params=[
        pytest.param(make, id=make.__name__, marks=() if make is several_shards else pytest.mark.slow) for make in SETS
    ]
)
def folder(request: pytest.FixtureRequest, made: Callable[[Make], Path]) -> Path:
    return made(request.param)


def test_the_reader_is_30_lines_without_recordzoo_and_lmdb() -> None:
    lines = [line for line in CLASS.splitlines() if line.strip() and not line.startswith("import ")]
    assert len(lines) <= 32
    assert not re.search(r"recordzoo|lmdb|pickle=True|torch|PIL", CLASS)


def test_the_reader_of_the_page_reads_what_recordzoo_reads(read: Read, folder: Path) -> None:
    theirs, ours = read(folder), RecordReader(folder)
    assert theirs.manifest["records"] == len(ours) > 0
    for position in range(len(ours)):
        assert theirs.name(position) == ours.names[position]
        for field in (*ours.manifest.blobs, *ours.columns):
            value = theirs.value(field, position)
            if field in ours.manifest.blobs and not ours.has(field, position):
                assert value is None
                continue
            expected = ours.value(field, position)
            assert np.array_equal(value, expected), (field, position)
            if isinstance(expected, np.ndarray):
                assert (value.dtype, value.shape) == (expected.dtype, expected.shape)
            elif field in ours.manifest.blobs:
                assert type(value) is type(expected)
    for split in ours.manifest.splits:
        assert theirs.arrays[f"split-{split}"].tolist() == ours.split(split).tolist()


def test_the_reader_notices_damage(read: Read, tmp_path: Path) -> None:
    place = several_shards(tmp_path)
    row = RecordReader(place).array("image.index")[0]
    flip(place / f"shard-{row['shard']:05d}.lmdb", 8 * int(row["offset"]))
    with pytest.raises(ValueError, match="is damaged"):
        read(place).value("image", 0)
    flip(place / "target.npy", 8 * 130)
    with pytest.raises(ValueError, match=r"target\.npy is damaged"):
        read(place)


def test_marks_lie_where_the_page_says(folder: Path) -> None:
    """`tests/format_versions.py` writes arrays, shards, the manifest and all hashes byte by byte, and no marks."""
    document = json.loads((folder / "manifest.json").read_bytes())
    for field, facts in document["blobs"].items():
        if (folder / marks_name(field)).exists():
            assert facts["encoding"] == "image"
            content = (folder / marks_name(field)).read_bytes()
            assert len(content) == document["records"] + 4
            assert set(content[:-4]) <= {0, 1, 2}
            crc = zlib.crc32(content[:-4], document["arrays"][f"{field}.index"]["crc32"])
            assert content[-4:] == struct.pack("<I", crc)


def test_made_from_and_tree_are_as_the_page_says(tmp_path: Path) -> None:
    place = class_folder(tmp_path)
    data = (place / "made-from.bin").read_bytes()
    magic, count, base_bytes, names_bytes = struct.unpack_from("<8sQQQ", data)
    assert magic == b"rzfiles1"
    rows_at = 32 + base_bytes
    base = Path(data[32:rows_at].decode())
    names = data[rows_at + 24 * count :]
    assert len(names) == names_bytes
    start, found = 0, []
    for size, time, end in struct.iter_unpack("<qqQ", data[rows_at : rows_at + 24 * count]):
        path = base / names[start:end].decode()
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (size, time)
        found.append(path.name)
        start = end
    assert len(found) == 11
    known = json.loads((place / "tree.json").read_bytes())
    assert set(known["directories"]) == {"", "jpg", "png"}
    assert all((Path(known["root"]) / name).stat().st_mtime_ns == time for name, time in known["directories"].items())


def test_every_key_of_the_manifest_is_on_the_page() -> None:
    section = PAGE.partition("\n## The manifest\n")[2].partition("\n## ")[0]
    example = json.loads(
        manifest.Manifest(
            kind=SetKind.ZOO, dataset="x", part="", variant="original", blobs={"b": manifest.BlobSpec("raw")},
            arrays={"a": manifest.ArraySpec("", (0,), 0, 0, "")}, shards=(manifest.ShardSpec("", 0, 0, 0, 0, ""),),
            fields={"b": FieldSpec(FieldKind.BOXES, None, BoxFormat.XYXY, True)},
            raw_files=(manifest.RawFile("", 0, None),),
        ).to_bytes()
    )  # fmt: skip
    tables = [example, *(example[key][name] for key, name in {"blobs": "b", "arrays": "a", "fields": "b"}.items())]
    tables += [example["shards"][0], example["raw_files"][0]]
    documented = [set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)) for part in re.split(r"\n\n(?!\|)", section)]
    assert [sorted(keys) for keys in documented if keys][:6] == [sorted(table) for table in tables]
