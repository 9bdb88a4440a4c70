"""`recordzoo info PATH`: every number against one that is counted another way; text that fits and does not act."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recordzoo.base.progress import LogProgress
from recordzoo.base.text import display_width
from recordzoo.cli.record_set import SAMPLE, read_headers
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes import folders as folder_recipe
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.manifest import RawFile
from recordzoo.records.reader import RecordReader
from tests.fakes import cifar as cifar10
from tests.fakes import cub200, folder
from tests.fakes.fake import md5
from tests.fakes.odd_images import HOSTILE_NAMES, broken_images, odd_images
from tests.fakes.pictures import encoded
from tests.fakes.records import flip, write_records
from tests.running import run

SMALL = encoded(Image.new("RGB", (20, 10), "red"), "PNG")


def info(path, *options):
    result = run("info", path, *options, "--json", cwd=path.parent)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["record_set"]


def text(path, *options):
    result = run("info", path, *options, cwd=path.parent)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    root = tmp_path_factory.mktemp("birds")
    cub200.build(4, 5).write_archive(root)
    raw = cub200.remote_files(root)
    return Path(ensure(dataset_recipe("cub200", raw_files=raw), root, prepare=True))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    images = {**odd_images(), **broken_images()}
    return write_records(
        tmp_path_factory.mktemp("odd") / "odd.records",
        list(images.values()),
        names=list(images),
        arrays={"target": np.arange(len(images)) % len(HOSTILE_NAMES)},
        classes=HOSTILE_NAMES,
        encoding="image",
        source="\x1b[31mtree",
        raw_files=(RawFile("evil\u202e.tar", 5, None),),
        metadata={"k\x1by": "v\x1b[0m", "many": list(range(1000))},
    )


def test_every_number_is_what_is_stored(birds):
    document = info(birds)
    reader = RecordReader(birds)
    values = [reader.read("image", position) for position in range(len(reader))]
    images = [Image.open(io.BytesIO(value)) for value in values]
    size = sum(map(len, values))
    stored = {"encoding": "image", "dtype": None, "shape": None, "values": 20, "bytes": size}
    assert document["blobs"]["image"] == stored
    on_disk = {path.name: path.stat().st_size for path in birds.iterdir()}
    shards = sum(size for name, size in on_disk.items() if name.endswith(".lmdb"))
    arrays = sum(size for name, size in on_disk.items() if name.endswith(".npy"))
    sizes = {"values": size, "shards": shards, "arrays": arrays, "overhead": shards + arrays - size, "shared": 0}
    assert document["bytes"] == sizes
    assert document["size_bytes"] == shards + arrays
    assert document["arrays"]["attributes"] == {"dtype": "|u1", "shape": [20, 312]}
    assert "image.index" not in document["arrays"]
    assert document["splits"] == {"train": 10, "test": 10}
    counted = {each["name"]: each["count"] for each in document["class_counts"]}
    assert counted == dict.fromkeys(reader.manifest.classes, 5)
    found = document["images"]
    assert (found["total"], found["looked_at"], found["formats"], found["modes"]) == (20, 20, {"JPEG": 20}, {"RGB": 20})
    for side, index in (("width", 0), ("height", 1)):
        sides = [image.size[index] for image in images]
        assert found[side] == {"min": min(sides), "median": float(np.median(sides)), "max": max(sides)}
    (raw_file,) = document["raw_files"]
    archive = birds.parent / cub200.ARCHIVE
    assert (raw_file["name"], raw_file["size_bytes"]) == (cub200.ARCHIVE, archive.stat().st_size)
    assert document["source"] == "archive"
    assert list(document["metadata"]) == list(reader.manifest.metadata)


def test_the_text_says_the_same(birds):
    told = text(birds)
    assert told.startswith("record set of cub200, original\nrecords:   20\nsplits:    test 10, train 10\n")
    assert re.search(r"^  bbox +float32 \[4\] +20 +320 B$", told, re.MULTILINE)
    assert len(re.findall(r"^  00\d\.\w+ +5$", told, re.MULTILINE)) == 4
    assert "images, from their headers (20):\n  format:  JPEG 20\n" in told


def test_pixels_that_are_stored_raw(tmp_path):
    cifar10.build(3).write_tree(tmp_path)
    md5s = {name: md5(data) for name, data in cifar10.batches(3).items()}
    path = Path(ensure(dataset_recipe("cifar10", member_md5s=md5s), tmp_path, prepare=True))
    document = info(path)
    stored = {"encoding": "raw", "dtype": "|u1", "shape": [32, 32, 3], "values": 18, "bytes": 18 * 3072}
    assert document["blobs"]["image"] == stored
    assert document["images"]["most_common_sizes"] == [{"width": 32, "height": 32, "count": 18}]
    assert (document["images"]["formats"], document["images"]["modes"]) == ({"raw": 18}, {"RGB": 18})
    assert "  width:   32\n  height:  32\n" in text(path)


def test_a_tree_says_where_it_was(tmp_path):
    folder.write_tree(tmp_path / "pets")
    path = Path(ensure(folder_recipe.FolderRecipe(), tmp_path / "pets", prepare=True))
    document = info(path)
    assert (document["tree"], document["source"]) == (str(tmp_path / "pets"), "tree")
    assert info(tmp_path / "pets")["digest"] == document["digest"]
    assert sum(document["images"]["formats"].values()) == document["records"] == 13
    for damage in (b"[1]", b"{", b'{"root": 5, "directories": {}}', b"[" * 100_000):
        (path / "tree.json").write_bytes(damage)
        assert info(path)["tree"] is None


def test_headers_alone_are_read(odd):
    document = info(odd)["images"]
    assert document["unreadable"] == 3  # nothing.jpg, empty.png, bomb.png: the cut one has a header
    assert document["width"]["max"] == 12_000  # of 108 million pixels, none of which is there
    assert document["formats"] == {"PNG": 12, "JPEG": 4, "TIFF": 2, "WEBP": 1}
    assert "unreadable: 3 (nothing.jpg, empty.png, bomb.png)" in text(odd)


def test_of_many_images_a_seeded_sample_is_read(tmp_path, monkeypatch):
    images = [encoded(Image.new("L", (1 + i, 5)), "PNG") for i in range(40)]
    path = write_records(tmp_path / "s.records", images, encoding="image")
    reader = RecordReader(path)
    some = read_headers(reader, "image", LogProgress(), sample=10)
    assert (some.num_images, some.num_looked_at, sum(some.sizes.values())) == (40, 10, 10)
    assert some == read_headers(reader, "image", LogProgress(), sample=10)
    assert some.sizes != read_headers(reader, "image", LogProgress(), sample=10, seed=1).sizes
    assert len(read_headers(reader, "image", LogProgress(), sample=None).sizes) == 40
    many = write_records(tmp_path / "many.records", [SMALL] * (SAMPLE + 1), encoding="image")
    assert f"of {SAMPLE:,} sampled images of {SAMPLE + 1:,}; --full reads all" in text(many)
    assert info(many)["images"]["looked_at"] == SAMPLE
    result = run("info", many, "--full", cwd=tmp_path, apart=True)
    assert f"images, from their headers ({SAMPLE + 1:,}):" in result.stdout


class TestClasses:
    def test_many_are_counted(self, tmp_path):
        targets = np.repeat(np.arange(31), [*range(10, 40), 0])
        classes = [f"class {number}" for number in range(31)]
        values = [SMALL] * len(targets)
        path = write_records(tmp_path / "s", values, arrays={"target": targets}, classes=classes, encoding="image")
        assert "records of each class: min 0, median 24, max 39, of 31 classes\n" in text(path)
        assert [each["count"] for each in info(path)["class_counts"]] == [*range(10, 40), 0]

    def test_numbers_without_names(self, tmp_path):
        path = write_records(tmp_path / "s", [SMALL] * 3, arrays={"target": np.array([7, -1, 7])}, encoding="image")
        minus, seven = {"number": -1, "name": "-1", "count": 1}, {"number": 7, "name": "7", "count": 2}
        assert info(path)["class_counts"] == [minus, seven]

    def test_none_at_all(self, tmp_path):
        path = write_records(tmp_path / "s", [b"x", None], arrays={"depth": np.zeros((2, 3), np.float32)})
        document = info(path)
        assert (document["class_counts"], document["images"]) == (None, None)
        assert document["blobs"]["image"]["values"] == 1
        assert "class:" not in text(path)
        empty = write_records(tmp_path / "empty", [], classes=[], encoding="image")
        assert info(empty)["images"]["width"] is None
        assert "records:   0\n" in text(empty)


def test_a_value_that_two_records_share_counts_once(tmp_path):
    (tmp_path / "a.png").write_bytes(SMALL)
    (tmp_path / "all.csv").write_text("path,label\na.png,cat\na.png,dog\n")
    assert run("prepare", "all.csv", cwd=tmp_path).returncode == 0
    assert info(tmp_path / "all.records")["bytes"]["values"] == len(SMALL)


def test_a_damaged_image_is_named_and_code_5(tmp_path):
    path = write_records(tmp_path / "s.records", [SMALL, SMALL + b"tail"], names=["a", "b\x1b"], encoding="image")
    shard = path / "shard-00000.lmdb"
    flip(shard, 8 * shard.read_bytes().index(b"tail"))
    result = run("info", path, cwd=tmp_path)
    assert result.returncode == 5
    assert "  damaged: 1 (b\\x1b)\n" in result.stdout
    assert result.stderr.startswith("error: 1 image is damaged, of 2 looked at. Run: recordzoo verify")
    result = run("info", path, "--json", cwd=tmp_path)
    assert (result.returncode, json.loads(result.stdout)["record_set"]["images"]["damaged"]) == (5, ["b\x1b"])


class TestText:
    def test_nothing_acts(self, odd):
        told = text(odd)
        assert all(character.isprintable() or character == "\n" for character in told)
        assert "source:   \\x1b[31mtree" in told
        assert "raw file: evil\\u202e.tar, 5 bytes, no hash" in told
        assert 'metadata: k\\x1by = "v\\u001b[0m"' in told
        assert max(display_width(line) for line in told.splitlines()) <= 80

    def test_a_terminal_of_ascii_only(self, odd, monkeypatch):
        monkeypatch.setenv("PYTHONIOENCODING", "ascii")
        told = run("info", odd, cwd=odd.parent, apart=True).stdout
        assert told.isascii()
        assert "\\u9e1f" in told
