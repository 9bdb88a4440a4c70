import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from recordzoo.base import files as system_files
from recordzoo.errors import CorruptRecordError, FormatVersionError, ManifestError
from recordzoo.records import files
from recordzoo.records import shard as layout
from recordzoo.records.arrays import INDEX_DTYPE
from recordzoo.records.manifest import MANIFEST_NAME, BlobSpec, BoxFormat, FieldKind, FieldSpec, parse_manifest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.shard import ShardWriter, seal, stored_bytes
from recordzoo.records.verify import verify
from recordzoo.records.writer import write_set
from tests.fakes.records import (
    edit_manifest,
    fake_manifest,
    flip_byte,
    many_missing,
    place_of,
    some_names,
    some_values,
    write_records,
)

NAMES = ["a/ä.jpg", "a/\udcff\udcfe.jpg", "a/日本.png", "b/'\"\\\n.jpg", "b/x" + "y" * 300, "b/" + "🐦" * 50]


def test_every_value_comes_back(tmp_path: Path) -> None:
    values = some_values(50)
    folder = write_records(tmp_path / "x.records", values, per_shard=13)
    records = RecordReader(folder)
    assert is_record_set(folder)
    assert len(records) == 50
    assert [records.read("image", i) for i in range(50)] == values
    assert records.lengths("image").tolist() == [len(value) for value in values]
    assert list(records.names) == some_names(50)
    assert records.array("target").tolist() == list(range(50))
    assert verify(folder, full=True).ok


def test_names_that_are_not_ascii_or_not_utf8(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", some_values(6), names=NAMES))
    assert list(records.names) == NAMES
    assert [records.names[i] for i in range(6)] == NAMES
    assert records.names[-1] == NAMES[-1]
    assert records.names[1:5:2] == NAMES[1:5:2]
    with pytest.raises(IndexError):
        records.names[6]
    assert verify(records.path, full=True).ok


def test_every_length_around_what_lmdb_keeps_inline(tmp_path: Path) -> None:
    values = [(length % 251).to_bytes(1, "big") * length for length in range(5001)]
    records = RecordReader(write_records(tmp_path / "x.records", values))
    assert all(records.read("image", i) == value for i, value in enumerate(values))


def test_empty_values(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", [b"", b"x", b""]))
    assert [records.read("image", i) for i in range(3)] == [b"", b"x", b""]
    assert records.has("image", 0)
    records.hint("image", range(3))
    assert verify(records.path, full=True).ok


def test_no_records_at_all(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", [], splits={"train": np.zeros(0, np.int64)}))
    assert len(records) == 0
    assert list(records.names) == []
    assert records.split("train").tolist() == []
    assert records.array("target").shape == (0,)
    records.hint("image", [])
    assert verify(records.path, full=True).ok


def test_absent_values(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", [b"a", None, b"c", None]))
    assert [records.has("image", i) for i in range(4)] == [True, False, True, False]
    assert records.read("image", 2) == b"c"
    with pytest.raises(LookupError, match=r"0001\.jpg"):
        records.read("image", 1)
    records.hint("image", range(4))
    assert records.lengths("image").tolist() == [1, 0, 1, 0]
    assert verify(records.path, full=True).ok


def test_splits(tmp_path: Path) -> None:
    splits = {"train": np.array([4, 0, 2]), "test": np.array([1, 3]), "fold-10": np.zeros(0, np.int64)}
    records = RecordReader(write_records(tmp_path / "x.records", some_values(5), splits=splits))
    assert {name: records.split(name).tolist() for name in records.manifest.splits} == {
        name: positions.tolist() for name, positions in splits.items()
    }
    assert records.split().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError):
        records.split("val")


def test_arrays_of_every_dtype(tmp_path: Path) -> None:
    arrays = {
        f"a_{dtype}": np.arange(3 * 4).reshape(3, 2, 2).astype(dtype)
        for dtype in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
    }
    arrays["big_endian"] = np.array([1, 2, 3], ">i4")
    arrays["none"] = np.zeros((3, 0), np.float32)
    arrays["by_columns"] = np.asfortranarray(np.arange(6).reshape(3, 2))
    folder = write_records(tmp_path / "x.records", some_values(3), arrays=arrays)
    records = RecordReader(folder)
    for name, array in arrays.items():
        found = records.array(name)
        assert found.tolist() == array.tolist()
        assert found.dtype == array.dtype.newbyteorder("<")
        assert not found.size or not found.flags.writeable
    for name in records.manifest.arrays:
        loaded = np.load(folder / f"{name}.npy", allow_pickle=False)
        assert loaded.dtype == (INDEX_DTYPE if name == "image.index" else records.array(name).dtype)
        assert np.array_equal(loaded, records.array(name))


def test_plain_lmdb_reads_every_value(tmp_path: Path) -> None:
    values = some_values(30)
    folder = write_records(tmp_path / "x.records", values, per_shard=11)
    manifest = json.loads((folder / MANIFEST_NAME).read_bytes())
    index = np.load(folder / "image.index.npy")
    for position, row in enumerate(index):
        path = folder / manifest["shards"][row["shard"]]["name"]
        with lmdb.open(str(path), subdir=False, readonly=True, lock=False) as env, env.begin() as txn:
            assert txn.get(int(row["slot"]).to_bytes(4, "big")) == values[position]
        assert path.read_bytes()[row["offset"] : row["offset"] + row["length"]] == values[position]


def test_the_same_contents_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = (write_records(tmp_path / name, some_values(40), per_shard=15, classes=["b", "a"]) for name in "ab")
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names)
    assert RecordReader(one).digest == RecordReader(two).digest


@pytest.mark.parametrize("position", [-1, 3, 10**30])
def test_positions_that_do_not_exist(tmp_path: Path, position: int) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", some_values(3)))
    with pytest.raises(IndexError):
        records.read("image", position)
    with pytest.raises(KeyError, match="has no blob field 'mask'; it has image"):
        records.read("mask", 0)
    with pytest.raises(KeyError, match="has no array 'imag'; its fields are image, target"):
        records.value("imag", 0)
    with pytest.raises(KeyError, match="has no split 'train'; it has none"):
        records.split("train")


def test_hint_ignores_what_cannot_be_hinted(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", some_values(9), per_shard=3))
    records.hint("image", [0, -1, 8, 9, 10**12, 3, 3])
    (records.path / "shard-00000.lmdb").unlink()
    fresh = RecordReader(records.path)
    fresh.hint("image", range(9))
    lost = int(np.flatnonzero(fresh.array("image.index")["shard"] == 0)[0])
    with pytest.raises(ManifestError, match="missing"):
        fresh.read("image", lost)


def test_pickle_is_small_and_opens_the_same_set(tmp_path: Path) -> None:
    records = RecordReader(write_records(tmp_path / "x.records", some_values(200), per_shard=20))
    records.read("image", 0)
    data = pickle.dumps(records)
    assert len(data) < 2000
    assert pickle.loads(data).read("image", 7) == records.read("image", 7)


@pytest.mark.parametrize("switch", ["pread", "fadvise", "dir_fd"])
def test_what_only_some_systems_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    if switch == "pread":
        monkeypatch.setattr(files, "_read_at", system_files.seek_and_read)
    elif switch == "fadvise":
        monkeypatch.setattr(layout, "advise", None)
    else:
        monkeypatch.setattr(system_files, "_HAS_DIRECTORIES", False)
    values = some_values(30)
    records = RecordReader(write_records(tmp_path / "x.records", values, per_shard=7))
    records.hint("image", range(30))
    with ThreadPoolExecutor(4) as pool:  # one position in the file for all threads
        assert list(pool.map(lambda i: records.read("image", i), range(30))) == values
    assert verify(records.path, full=True).ok
    (records.path / "shard-00002.lmdb").unlink()
    (records.path / "shard-00002.lmdb").symlink_to("shard-00001.lmdb")
    problems = verify(records.path, full=True).problems
    assert len(problems) == 1
    assert "shard-00002.lmdb is a link" in problems[0]


def test_descriptors_are_closed_with_their_reader(tmp_path: Path) -> None:
    folder = write_records(tmp_path / "x.records", some_values(40), per_shard=4)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        records = RecordReader(folder)
        assert all(len(records.read("image", i)) for i in range(40))
        records.array("target")
        del records
    files.shard_files.drop(-1)
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize("length", [*range(1, 2101, 50), 1346, 1347, 2026, 2027])
def test_a_shard_full_of_values_of_one_length_has_room(length: int, tmp_path: Path) -> None:
    """LMDB fills its pages with whole values: of 1,347 to 2,026 bytes only two fit."""
    shard_bytes = 1 << 20
    count = shard_bytes // stored_bytes(length)
    with ShardWriter(tmp_path / "x.lmdb", shard_bytes * 9 // 8) as writer:
        for _ in range(count):
            writer.put(bytes(length))
    assert 0.9 * shard_bytes < (tmp_path / "x.lmdb").stat().st_size < 1.05 * shard_bytes


def test_a_shard_is_cut_behind_its_last_page(tmp_path: Path) -> None:
    with ShardWriter(tmp_path / "x.lmdb", 1 << 20) as writer:
        writer.put(b"")
        os.truncate(writer.path, 1 << 20)  # as LMDB does on Windows
    spec, _ = seal(writer.path, [0], [0])
    assert spec.size_bytes == (spec.last_page + 1) * spec.page_size < 1 << 20


def test_seal_finds_a_value_that_is_not_what_was_put(tmp_path: Path) -> None:
    path = tmp_path / "shard-00000.lmdb"
    with ShardWriter(path, 1 << 20) as writer:
        writer.put(b"x" * 5000)
        writer.put(b"y" * 10)
    crcs = [0x0BADF00D, 0]
    with pytest.raises(CorruptRecordError, match="value 0 reads back otherwise"):
        seal(path, [5000, 10], crcs)
    with pytest.raises(CorruptRecordError, match="length"):
        seal(path, [5000, 11], crcs)
    with pytest.raises(CorruptRecordError, match="holds 2 values, 3 were put"):
        seal(path, [5000, 10, 1], [*crcs, 0])


class TestManifest:
    def test_round_trip(self, tmp_path: Path) -> None:
        contents = {
            "classes": ["ä", "b"],
            "variant": "256-q90",
            "source": "archive",
            "bad": {"a\udcff.jpg": "no image"},
            "skipped": {"b.txt": "asked for"},
            "metadata": {"nested": [1, 2.5, None, {"x": "y"}]},
        }
        manifest = RecordReader(write_records(tmp_path / "x.records", some_values(3), **contents)).manifest
        again = parse_manifest(manifest.to_bytes(), "here")
        assert again == manifest
        assert again.classes == ("ä", "b")
        assert again.bad == {"a\udcff.jpg": "no image"}
        assert manifest.to_bytes() == (tmp_path / "x.records" / MANIFEST_NAME).read_bytes()
        assert manifest.to_bytes().isascii()

    def test_nothing_that_the_format_refuses_is_written(self, tmp_path: Path) -> None:
        with pytest.raises(ManifestError, match="Not A Name"):
            write_set(tmp_path, fake_manifest(dataset="Not A Name"), [], {})
        assert not is_record_set(tmp_path)

    def test_leftovers_are_removed_and_extras_kept(self, tmp_path: Path) -> None:
        (tmp_path / "leftover.npy").touch()
        write_set(tmp_path, fake_manifest(), [], {}, extras={"tree.json": b"{}"})
        files = ["manifest.json", "names.npy", "names_offsets.npy", "tree.json"]
        assert sorted(path.name for path in tmp_path.iterdir()) == files
        report = verify(tmp_path, full=True)
        assert report.ok
        assert report.notes == ["tree.json is not named in the manifest; nothing reads it as data."]

    def test_marks(self, tmp_path: Path) -> None:
        """They are no part of the set's identity; damaged, or of another set, they are not used."""
        values = some_values(5)
        marked = write_records(tmp_path / "a.records", values, marks={"image": np.array([1, 2, 0, 1, 2], np.uint8)})
        plain = write_records(tmp_path / "b.records", values)
        other = write_records(tmp_path / "c.records", some_values(5, seed=1))
        assert RecordReader(marked).digest == RecordReader(plain).digest
        assert (marked / MANIFEST_NAME).read_bytes() == (plain / MANIFEST_NAME).read_bytes()
        assert RecordReader(marked).marks("image") == bytes([1, 2, 0, 1, 2])
        assert verify(marked).notes == []
        reader = RecordReader(plain)
        assert reader.marks("image") == bytes(5)
        reader.marks("image")[3] = 1
        assert reader.marks("image") == bytes([0, 0, 0, 1, 0])
        with pytest.raises(KeyError, match="'mask'"):
            reader.marks("mask")
        data = (marked / "image.marks").read_bytes()
        for changed in (data[:2] + b"\x01" + data[3:], data[:-1], data + b"\0", b""):
            for folder in (marked, other):
                (folder / "image.marks").write_bytes(changed)
                assert RecordReader(folder).marks("image") == bytes(5)
                report = verify(folder)
                assert report.ok
                assert report.notes == ["image.marks is damaged, or of another record set; it is not used."]
        (other / "image.marks").write_bytes(data)
        assert RecordReader(other).marks("image") == bytes(5)
        (other / "image.marks").unlink()
        (other / "image.marks").symlink_to(marked / "image.marks")
        assert RecordReader(other).marks("image") == bytes(5)

    def test_an_edited_manifest_is_refused(self, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", some_values(3), classes=["cat", "dog"])
        path = folder / MANIFEST_NAME
        path.write_bytes(path.read_bytes().replace(b'"cat"', b'"bat"'))
        with pytest.raises(ManifestError, match="damaged or edited"):
            RecordReader(folder)

    def test_a_later_version_and_unknown_features_are_named(self, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", some_values(3))
        edit_manifest(folder, lambda document: document.update(version=3))
        with pytest.raises(FormatVersionError, match=r"format 3; this recordzoo reads format 1\. Upgrade"):
            RecordReader(folder)
        edit_manifest(folder, lambda document: document.update(version=1, features=["zstd"]))
        with pytest.raises(FormatVersionError, match="'zstd'"):
            RecordReader(folder)
        with pytest.raises(FormatVersionError):
            verify(folder)

    def test_what_fields_are(self, tmp_path: Path) -> None:
        """What their storage shows need not be said."""
        numbers = np.arange(6, dtype=np.int64)
        arrays = {
            "label": numbers,
            "size": numbers.astype(np.uint64),
            "score": numbers.astype(np.float32),
            "bbox": np.zeros((6, 4), np.float32),
            "other": numbers,
        }
        known = {"bbox": FieldSpec(FieldKind.BOXES), "other": FieldSpec(FieldKind.CLASS, ("a", "b"))}
        folder = write_records(
            tmp_path / "x.records", some_values(6), arrays=arrays, classes=["ä"], fields=known, encoding="image"
        )
        manifest = RecordReader(folder).manifest
        assert {name: (spec.kind, spec.names) for name, spec in manifest.fields.items()} == {
            "image": ("image", None),
            "label": ("class", ("ä",)),
            "size": ("int", None),
            "score": ("float", None),
            "bbox": ("boxes", None),
            "other": ("class", ("a", "b")),
        }
        assert (manifest.default_target, manifest.label_field, manifest.classes) == ("label", "label", ("ä",))
        assert manifest.columns == sorted(arrays)

    def test_a_target_that_is_no_label(self, tmp_path: Path) -> None:
        arrays = {"target": np.zeros(3, np.float32), "label": np.zeros((3, 2), np.int64)}
        manifest = RecordReader(write_records(tmp_path / "x.records", some_values(3), arrays=arrays)).manifest
        assert (manifest.default_target, manifest.label_field, manifest.classes) == ("target", None, None)

    def test_what_boxes_are_and_labels_of_objects(self, tmp_path: Path) -> None:
        """Boxes without a format are written as before there was one."""
        boxes = FieldSpec(FieldKind.BOXES, box_format=BoxFormat.CXCYWH, is_normalized=True)
        plain = FieldSpec(FieldKind.BOXES)
        folder = write_records(
            tmp_path / "x.records",
            some_values(3),
            arrays={"image.shape": np.ones((3, 1), np.uint32), "boxes": np.zeros((3, 4), np.float32)},
            fields={"image": FieldSpec(FieldKind.CLASS, ("a", "b")), "boxes": boxes},
            blob=BlobSpec("raw", None, "<i8"),
        )
        manifest = RecordReader(folder).manifest
        assert dict(manifest.fields) == {"image": FieldSpec(FieldKind.CLASS, ("a", "b")), "boxes": boxes}
        said = json.loads((folder / "manifest.json").read_bytes())["fields"]
        assert said["boxes"] == {"kind": "boxes", "names": None, "format": "CXCYWH", "normalized": True}
        assert plain.to_json() == {"kind": "boxes", "names": None}
        edit_manifest(folder, lambda document: document["fields"]["boxes"].update(format="YXYX"))
        with pytest.raises(ManifestError, match="'format' is 'YXYX', not one of XYXY, XYWH, CXCYWH"):
            RecordReader(folder)
        edit_manifest(folder, lambda document: document["fields"]["boxes"].update(format="XYXY", normalized=1))
        with pytest.raises(ManifestError, match="is a int, not a bool"):
            RecordReader(folder)
        edit_manifest(folder, lambda document: document["fields"]["boxes"].update(normalized=False))
        assert RecordReader(folder).manifest.fields["boxes"] == FieldSpec(FieldKind.BOXES, box_format=BoxFormat.XYXY)

    @pytest.mark.parametrize("dtype", ["<f4", "<u8"])
    def test_labels_are_whole_numbers(self, dtype: str, tmp_path: Path) -> None:
        fields = {"image": FieldSpec(FieldKind.CLASS)}
        with pytest.raises(ManifestError, match="says that 'image' is class, and it is stored otherwise"):
            write_records(tmp_path / "x.records", [bytes(8)], fields=fields, blob=BlobSpec("raw", (1,), dtype))

    @pytest.mark.parametrize(
        ("keys", "value", "problem"),
        [
            (["kind"], "zo", "'kind' is 'zo', not one of zoo, folder, flat, list, imported, annotated, combined, own"),
            (["kind"], 3, "is a int, not a str"),
            (["fields", "target", "kind"], "klass", "not one of class, int, float"),
            *(
                (["fields", "target"], {"kind": kind, "names": None}, f"'target' is {kind}, and it is stored otherwise")
                for kind in ("image", "json")
            ),
            (["fields", "image", "kind"], "class", "says that 'image' is class, and it is stored otherwise"),
            (["fields", "image", "names"], ["a"], "names classes, and the field is bytes"),
            (["fields", "target", "names"], [1], "is a int, not a str"),
            (["fields", "absent"], {"kind": "int", "names": None}, "has absent, image, target; stored are image, targ"),
            (["fields"], {}, "stored are image, target"),
            (["default_target"], "absent", "is 'absent', which is no field"),
            (["default_target"], ["target"], "is a list, not a str"),
        ],
    )
    def test_a_stranger_says_what_is_not_so(self, keys: list[str], value: Any, problem: str, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", some_values(3), classes=["a", "b", "c"])

        def change(document: dict[str, Any]) -> None:
            for key in keys[:-1]:
                document = document[key]
            document[keys[-1]] = value

        edit_manifest(folder, change)
        with pytest.raises(ManifestError, match=problem):
            RecordReader(folder)
        assert not verify(folder).ok

    def test_a_key_that_is_not_known_may_be_there(self, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", some_values(3))
        edit_manifest(folder, lambda document: document.update(comment="hello"))
        assert len(RecordReader(folder)) == 3


def test_errors_in_a_set_are_pickled_whole(tmp_path: Path) -> None:
    folder = write_records(tmp_path / "x.records", some_values(3))
    flip_byte(*place_of(folder, 2))
    with pytest.raises(CorruptRecordError) as caught:
        RecordReader(folder).read("image", 2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (CorruptRecordError, str(caught.value))
    assert (again.position, again.name, again.field, again.path) == (2, "class 2/0002.jpg", "image", str(folder))
    assert str(again).endswith(f"Run: recordzoo verify {folder} --full")
    assert (verify(folder).ok, verify(folder, full=True).ok) == (True, False)  # why --full is needed


class TestVerify:
    def test_counts(self, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", [*some_values(30), None], per_shard=10)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        quick, full = verify(folder), verify(folder, full=True)
        arrays = sum(size for name, size in sizes.items() if not name.endswith(".lmdb"))
        assert quick.checked == {"files": len(sizes), "bytes": arrays, "records": 0}
        assert full.checked == {"files": len(sizes), "bytes": sum(sizes.values()), "records": 30}
        assert quick.ok
        assert full.ok

    def test_what_is_not_a_record_set_is_raised(self, tmp_path: Path) -> None:
        for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
            (tmp_path / "file").touch()
            with pytest.raises(ManifestError, match="is not a record set"):
                verify(path)

    def test_a_damaged_record_is_named(self, tmp_path: Path) -> None:
        folder = write_records(tmp_path / "x.records", some_values(20), per_shard=7)
        path, offset = place_of(folder, 12)
        flip_byte(path, offset + 3)
        assert verify(folder).ok
        assert verify(folder, full=True).problems == [
            f"{path.name}: its hash is not the one in the manifest; it was damaged.",
            f"{path.name}: image 12 (class 0/0012.jpg) is damaged: its bytes have another CRC-32.",
        ]

    def test_it_stops_after_so_many_problems(self, tmp_path: Path) -> None:
        folder = many_missing(tmp_path / "x.records", 1500)
        for full in (False, True):
            report = verify(folder, full=full)
            assert (len(report.problems), len(report.damaged), report.stopped) == (1000, 1000, True)
            assert report.problems[0].startswith(f"{folder / 'shard-00000.lmdb'} is missing")
        whole = verify(folder, max_problems=None)
        assert (len(whole.problems), len(whole.damaged), whole.stopped) == (1500, 1500, False)


@pytest.mark.parametrize("change", ["version 999", "another magic", "big-endian"])
def test_shards_of_another_lmdb_are_refused(tmp_path: Path, change: str) -> None:
    folder = write_records(tmp_path / "x.records", some_values(8))
    data = bytearray((folder / "shard-00000.lmdb").read_bytes())
    page = RecordReader(folder).manifest.shards[0].page_size
    for start in (16, page + 16):
        magic, version = {
            "version 999": (layout.MAGIC.to_bytes(4, "little"), (999).to_bytes(4, "little")),
            "another magic": (b"LMDB", (1).to_bytes(4, "little")),
            "big-endian": (layout.MAGIC.to_bytes(4, "big"), (1).to_bytes(4, "big")),
        }[change]
        data[start : start + 8] = magic + version
    (folder / "shard-00000.lmdb").write_bytes(data)
    assert any("is not an LMDB 0.9 file" in problem for problem in verify(folder).problems)
    with pytest.raises(CorruptRecordError, match=r"is not an LMDB 0\.9 file"):
        layout.walk(lambda begin, end: bytes(data[begin:end]), len(data), "here")


def test_class_names_have_a_limit_and_many_are_read(tmp_path: Path) -> None:
    many = [f"class {number}" for number in range(100_000)]
    folder = write_records(tmp_path / "x.records", some_values(3), classes=many)
    assert list(RecordReader(folder).manifest.classes or ()) == many
    edit_manifest(folder, lambda document: document["fields"]["target"].update(names=["x" * 5000]))
    with pytest.raises(ManifestError, match="5,000 characters, more than 4,096"):
        RecordReader(folder)
    with (folder / MANIFEST_NAME).open("r+b") as file:
        file.truncate(5 << 30)  # no bytes on the disk
    with pytest.raises(ManifestError, match="more than 67,108,864 bytes"):
        RecordReader(folder)


def test_what_changes_while_it_is_open_is_an_error(tmp_path: Path) -> None:
    values = some_values(20)
    folder = write_records(tmp_path / "x.records", values)
    records = RecordReader(folder)
    assert records.read("image", 0) == values[0]
    path = folder / "shard-00000.lmdb"
    whole = path.read_bytes()
    for changed in (b"", whole[: len(whole) // 2], bytes(len(whole)), whole[::-1]):
        path.write_bytes(changed)  # the same file, which the reader has open
        right = 0
        for position, value in enumerate(values):
            try:
                right += records.read("image", position) == value
            except CorruptRecordError:
                continue
        assert right < len(values)
        path.write_bytes(whole)
        assert [records.read("image", position) for position in range(20)] == values
