"""What earlier tools left, imported: written as they write it, read back by value; damaged, forged, interrupted."""

import contextlib
import json
import pickle
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from recordzoo.base import settings as packages
from recordzoo.errors import ArchiveError, ArgumentError, FolderError, NotPreparedError, PrepareError, SourceError
from recordzoo.formats import LAYOUTS, find_foreign, lmdb_values
from recordzoo.formats.base import ForeignSource
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import lmdb_options
from tests.fakes import legacy
from tests.foreign import imported, written
from tests.preparing import contents, prepared
from tests.running import printed


def assert_files(reader: RecordReader, pairs: list[legacy.Pair]) -> None:
    """The stored images are the files, byte for byte, in their order, with their labels."""
    assert [reader.read("image", i) for i in range(len(reader))] == [image for image, _ in pairs]
    assert reader.array("target").dtype == np.int64
    assert reader.array("target").tolist() == [label for _, label in pairs]
    assert reader.manifest.blobs["image"].encoding == "image"
    assert reader.manifest.classes is None


def assert_pixels(reader: RecordReader, pairs: list[tuple[np.ndarray, int]]) -> None:
    """The stored arrays are the images'."""
    assert len(reader) == len(pairs)
    for position, (array, label) in enumerate(pairs):
        value = reader.value("image", position)
        assert value.dtype == array.dtype
        assert np.array_equal(value, array)
        assert reader.array("target")[position] == label


# folder2lmdb


def arrays(pairs: list[legacy.Pair]) -> list[list[Any]]:
    return [[np.frombuffer(image, np.uint8), label] for image, label in pairs]


def numbers(pairs: list[legacy.Pair]) -> list[tuple[bytes, Any]]:
    return [(image, (np.int64, np.int32)[number % 2](label)) for number, (image, label) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("form", "dumps"),
    [
        *((form, partial(pickle.dumps, protocol=n)) for n in range(6) for form in (list, legacy.batched)),
        *((form, dumps) for form in (list, arrays, numbers) for dumps in (legacy.msgpack, legacy.old_msgpack)),
        *((form, pickle.dumps) for form in (arrays, numbers, lambda pairs: [list(pair) for pair in pairs])),
        (legacy.batched, legacy.msgpack),
    ],
)
def test_pairs_in_all_the_forms_that_the_versions_gave_them(form: Callable, dumps: Callable, tmp_path: Path) -> None:
    """The last image could be text, which the old format of msgpack does not tell from bytes."""
    image = legacy.files(1)[0][0]
    pairs = [*legacy.files(45), (image, 46), (image, -300), (image, 4000), (b"P3 1 1 255 1 2 3 ", 4)]
    legacy.folder2lmdb(tmp_path / "train.lmdb", form(pairs), dumps)
    reader = imported(tmp_path / "train.lmdb")
    assert_files(reader, pairs)
    assert list(reader.names)[:3] == ["0.jpg", "1.png", "2.jpg"]
    assert reader.manifest.dataset == "folder2lmdb"


def test_what_pyarrow_wrote_in_the_order_of_its_keys(tmp_path: Path) -> None:
    legacy.write_lmdb(tmp_path / "train.lmdb", legacy.PYARROW.items())
    reader = imported(tmp_path / "train.lmdb")
    assert_files(reader, legacy.PYARROW_PAIRS)
    assert list(reader.names) == ["2.ppm", "0.ppm", "1.ppm"]


def test_what_older_pyarrows_wrote() -> None:
    for pair, keys in legacy.OLDER_PYARROWS.values():
        assert lmdb_values.deserialize(pair) == [b"abcdef", 7]
        assert lmdb_values.deserialize(keys) == [b"0", b"1"]


@pytest.mark.parametrize(("keys", "length"), [(True, False), (False, True), (False, False)])
def test_without_the_list_of_keys_their_numbers_are_the_order(keys: bool, length: bool, tmp_path: Path) -> None:
    pairs = legacy.files(23)
    legacy.folder2lmdb(tmp_path / "train.lmdb", pairs, keys=keys, length=length)
    assert_files(imported(tmp_path / "train.lmdb"), pairs)


def test_a_file_beside_its_lock_and_a_directory_with_one_database(tmp_path: Path) -> None:
    pairs = legacy.files(3)
    path = legacy.folder2lmdb(tmp_path / "a" / "train.lmdb", pairs, subdir=False)
    assert (tmp_path / "a" / "train.lmdb-lock").exists()
    assert_files(imported(path), pairs)
    assert_files(RecordReader(prepared(tmp_path / "a", tmp_path / "b.records")), pairs)
    (tmp_path / "a" / "x.parquet").touch()
    with pytest.raises(ArgumentError, match=r"files of huggingface and lmdb\. .* --from huggingface"):
        imported(tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({b"__keys__": pickle.dumps([b"0", b"9"])}, "names b'9', which is not there"),
        ({b"__keys__": pickle.dumps([b"0", b"0"])}, "names a key twice"),
        ({b"__keys__": pickle.dumps([b"0"]), b"__len__": pickle.dumps(1)}, "names 1 keys, and there are 2"),
        ({b"__keys__": pickle.dumps([1.5])}, "__keys__ is no list of keys"),
        ({b"__len__": pickle.dumps(3)}, "__len__ is 3, but there are 2 keys"),
        ({b"__len__": b""}, "msgpack has it, Unpack failed: incomplete input"),
    ],
)
def test_keys_that_do_not_fit(change: dict[bytes, bytes], text: str, tmp_path: Path) -> None:
    values = {b"0": pickle.dumps((b"a", 1)), b"1": pickle.dumps((b"b", 1)), b"__keys__": pickle.dumps([b"0", b"1"])}
    legacy.write_lmdb(tmp_path / "train.lmdb", {**values, **change}.items())
    with pytest.raises(SourceError, match=f"is no database of folder2lmdb: .*{text}"):
        imported(tmp_path / "train.lmdb")


@pytest.mark.parametrize("on_error", ["keep", "skip"])
def test_two_records_of_one_name_are_never_one(on_error: str, tmp_path: Path) -> None:
    """The ending of the one's format makes its name that of the other, which is broken and may be left out."""
    values = {b"0": (legacy.files(1)[0][0], 5), b"0.jpg": (b"broken", 6), b"1": (legacy.files(1)[0][0], 7)}
    stored = {**values, b"__keys__": list(values), b"__len__": 3}
    legacy.write_lmdb(tmp_path / "x.lmdb", [(key, pickle.dumps(value)) for key, value in stored.items()])
    if on_error == "skip":
        assert_files(imported(tmp_path / "x.lmdb", on_error=on_error), [values[b"0"], values[b"1"]])
        return
    assert list(imported(tmp_path / "x.lmdb").names) == ["all[0]/0.jpg", "all[1]/0.jpg", "all[2]/1.jpg"]


# TorchRecord, Caffe


def tensors(path: Path, pairs: list[Any], db_num: int, write: Any = legacy.torchrecord, **options: Any) -> Path:
    return write(path, [legacy.tensors(*pair) for pair in pairs], db_num, **options)


def datums(path: Path, pairs: list[Any], encode: Callable[..., bytes] = legacy.datum) -> Path:
    return legacy.caffe(path, {f"cat/{number}": encode(*pair) for number, pair in enumerate(pairs)})


PIXELS, FILES, DOTS = legacy.pixels(30), legacy.files(15), [(a[:1, :1], label) for a, label in legacy.pixels(1300)]
FLOATS = [(np.random.default_rng(i).standard_normal((4, 1, 1 + i % 2)).astype(np.float32), i - 2) for i in range(5)]


@pytest.mark.parametrize(
    ("write", "pairs", "names"),
    [
        (partial(tensors, db_num=1), PIXELS, {0: "db0/00", 29: "db0/29"}),
        *((partial(tensors, db_num=12, padded=padded), PIXELS, {0: "db0/0", 29: "db11/2"}) for padded in (True, False)),
        # More databases than records; trees of named databases with branches; a folder for each database.
        (partial(tensors, db_num=5), PIXELS[:3], {0: "db1/0", 1: "db3/0", 2: "db4/0"}),
        (partial(tensors, db_num=2), DOTS, {0: "db0/000", 649: "db0/649", 650: "db1/000", 1299: "db1/649"}),
        (partial(tensors, db_num=12, write=legacy.torchrecord_folders), PIXELS, {0: "db0/0", 29: "db11/2"}),
        (lambda path, pairs: legacy.torchrecord(path, [legacy.file_tensors(*p) for p in pairs], 2), FILES, {}),
        *((datums, legacy.pixels(13, channels), {12: "00000012_cat/12"}) for channels in (1, 3)),
        (partial(datums, encode=legacy.encoded_datum), FILES, {0: "00000000_cat/0.jpg", 1: "00000001_cat/1.png"}),
        (partial(datums, encode=legacy.float_datum), FLOATS, {}),
    ],
)
def test_what_torchrecord_and_caffe_wrote(
    write: Callable[..., Path], pairs: list[Any], names: dict[int, str], tmp_path: Path
) -> None:
    reader = imported(write(tmp_path / "lmdb", pairs))
    (assert_files if isinstance(pairs[0][0], bytes) else assert_pixels)(reader, pairs)
    for position, name in names.items():
        assert reader.names[position] == name
    assert reader.manifest.dataset == ("torchrecord" if reader.names[0].startswith("db") else "caffe")


def test_torchrecord_without_one_of_its_databases(tmp_path: Path) -> None:
    messages = [legacy.tensors(*pair) for pair in legacy.pixels(6)]
    path = legacy.torchrecord(tmp_path / "record", messages, 3)
    with lmdb.open(str(path), max_dbs=3, **lmdb_options()) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(b"db1", txn=txn))
    with pytest.raises(SourceError, match="has db2, but not db1"):
        imported(path)
    path = legacy.torchrecord_folders(tmp_path / "folders", messages, 3)
    (path / "db1").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="has db2, but not db1"):
        imported(path)


DOT = np.zeros((2, 2, 3), np.uint8)
WRITERS: dict[str, Callable[[Path, Any], Path]] = {
    "folder2lmdb": lambda path, value: legacy.folder2lmdb(path, [(b"\xff\xd8\xff1", 1), value]),
    "torchrecord": lambda path, value: legacy.torchrecord(path, [legacy.tensors(DOT, 1), value]),
    "caffe": lambda path, value: legacy.caffe(path, {"a": legacy.datum(DOT, 1), "b": value}),
}


@pytest.mark.parametrize(
    ("tool", "value", "text"),
    [
        ("folder2lmdb", (DOT, 1), "its image is a numpy.ndarray, not an image's file.*recordzoo.convert"),
        ("folder2lmdb", (b"x", np.array([1.5])), "its label is a numpy.ndarray"),
        ("folder2lmdb", (b"x", True), "its label is a bool"),
        ("folder2lmdb", (b"x", 1 << 63), "larger than 64 bits"),
        ("folder2lmdb", (b"x", 1, "a.jpg"), "it is a tuple of 3, not a pair"),
        ("folder2lmdb", (Path("x"), 1), r"asks for pathlib\.[\w.]*Path"),
        ("torchrecord", legacy.chunk(1, b""), "two tensors, but has 1"),
        ("torchrecord", legacy.chunk(1, legacy.chunk(5, b"abc")) + legacy.chunk(1, legacy.chunk(5, b"1")), "nor RGB"),
        ("torchrecord", legacy.tensors(DOT, 1).replace(b"\x2a\x011", b"\x2a\x01x"), "its label is b'x'"),
        ("torchrecord", b"\x0a\xff", "it is no TensorProtos: Error parsing"),
        ("caffe", legacy.datum(DOT, 1)[:-8], "no Datum"),
        ("caffe", legacy.number(1, 3) + legacy.number(2, 2) + legacy.number(3, 2) + legacy.chunk(4, b"abc"), "3 bytes"),
        ("caffe", legacy.number(1, -1) + legacy.number(2, -2) + legacy.number(3, 1) + legacy.chunk(4, b"a"), "no Dat"),
        ("caffe", legacy.number(7, 1), "has no data"),
        ("caffe", legacy.encoded_datum(legacy.files(1)[0][0], 3), "holds an encoded image, and the first record pix"),
        ("caffe", legacy.float_datum(DOT[:1, :, :1], 3), "holds <f4 numbers of 3 dimensions, and the first record pix"),
    ],
)
def test_a_value_of_something_else_is_named_with_database_and_key(
    tool: str, value: Any, text: str, tmp_path: Path
) -> None:
    path = WRITERS[tool](tmp_path / "lmdb", value)
    with pytest.raises(SourceError, match=rf"lmdb/data\.mdb, (db0, )?key b'(1|00000001_b)': .*({text})"):
        imported(path, from_=tool)
    assert not (tmp_path / "my.records").exists()


def test_names_lead_nowhere_and_are_told_apart(tmp_path: Path) -> None:
    image = legacy.files(1)[0][0]
    values = [b"../../x", b"/etc/x", b"a/../b", b"n\xffo", b"nul\0", b"..a.jpg"]
    legacy.write_lmdb(tmp_path / "lmdb", [(key, legacy.encoded_datum(image, 1)) for key in values])
    names = list(imported(tmp_path / "lmdb").names)
    assert names == ["%2E%2E/%2E%2E/x.jpg", "..a.jpg", "%2Fetc/x.jpg", "a/%2E%2E/b.jpg", "nul%00.jpg", "n\udcffo.jpg"]


# Found out, or told


def test_what_is_no_known_layout_is_shown(tmp_path: Path) -> None:
    legacy.write_lmdb(tmp_path / "x.lmdb", [(b"\x1b[2J", b"\xde\xad" * 40)])
    with pytest.raises(SourceError) as caught:
        imported(tmp_path / "x.lmdb")
    assert f"layout ({', '.join(LAYOUTS)}); the value of its key '\\\\x1b[2J' begins with de ad " in str(caught.value)
    assert caught.value.sample == {"key": "\\x1b[2J", "begins": " ".join(["de ad"] * 16), "size_bytes": 80}


def test_the_layout_may_be_told(tmp_path: Path) -> None:
    path = legacy.caffe(tmp_path / "lmdb", {"a": legacy.datum(np.zeros((2, 2, 3), np.uint8), 1)})
    with pytest.raises(SourceError, match="is no database of torchrecord: its keys are not"):
        imported(path, from_="torchrecord")
    with pytest.raises(ArgumentError, match="Unknown value 'lmdb' for argument from_"):
        imported(path, from_="lmdb")
    assert len(imported(path, from_="caffe")) == 1


@pytest.mark.parametrize(
    ("path", "format", "extra"),
    [
        (written("tfrecord")[0] / "train-00000-of-00002", "tfrecord", "formats"),
        ("mongodb://host/db/photos", None, "formats"),
        ("{folder}/birds.parquet", None, "formats"),
        ("{folder}/msgpack.lmdb", None, "formats"),
        ("hf://datasets/user/birds", None, "hf"),
    ],
)
def test_a_format_without_its_package(
    path: Path | str, format: str | None, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet.write_table(pyarrow.table({"image": [b""]}), tmp_path / "birds.parquet")
    legacy.folder2lmdb(tmp_path / "msgpack.lmdb", legacy.files(1), legacy.msgpack)
    monkeypatch.setattr(packages, "is_installed", lambda package: False)
    with pytest.raises(PrepareError, match=rf"pip install 'recordzoo\[{extra}\]'"):
        prepared(str(path).format(folder=tmp_path), tmp_path / "my.records", from_=format)


def test_where_there_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotPreparedError, match=r"nothing of format caffe at .* \(looked for data\.mdb"):
        imported(tmp_path / "empty", from_="caffe")
    (tmp_path / "empty" / "a.zip").touch()
    with pytest.raises(FolderError, match=r"empty has no class folders, no images.* Unpack zips, or prepare each"):
        imported(tmp_path / "empty")
    for name in ("train.lmdb", "val.lmdb"):
        legacy.folder2lmdb(tmp_path / "several" / name, legacy.files(1))
    with pytest.raises(ArgumentError, match=r"several databases \(train.lmdb, val.lmdb\)\. Pass the path of one"):
        imported(tmp_path / "several")
    with pytest.raises(SourceError, match="is empty"):
        imported(legacy.write_lmdb(tmp_path / "nothing.lmdb", []))
    for name in ("notes", "a.7z", "a.ods", "a.json"):
        (tmp_path / name).write_text("no database")
        with pytest.raises(NotPreparedError, match=rf"{name} is of no known format. Known are: .*webdataset.*Unpack"):
            imported(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "plain", "options", "text"),
    [
        ([b"db0", b"db01"], {}, {}, r"key b'db01' has a named database; of the known tools only TorchRecord"),
        ([b"db0"], {b"x": b"1"}, {}, "key b'db0' has a named database beside plain values"),
        ([b"db0"], {b"a": b"1"}, {}, "key b'db0' has a named database; none of the known tools"),
        ([b"db0"], {}, {"dupsort": True}, "key b'db0' has a named database with an order of its own"),
    ],
)
def test_other_named_databases_are_refused_by_name(
    names: list[bytes], plain: dict[bytes, bytes], options: dict[str, bool], text: str, tmp_path: Path
) -> None:
    with lmdb.open(str(tmp_path / "x.lmdb"), max_dbs=2, **lmdb_options()) as env, env.begin(write=True) as txn:
        for name in names:
            txn.put(bytes(8), b"1", db=env.open_db(name, txn=txn, **options))
        for key, value in plain.items():
            txn.put(key, value)
    with pytest.raises(SourceError, match=text):
        imported(tmp_path / "x.lmdb")


# The record set


def test_the_source_is_left_as_it_is(tmp_path: Path) -> None:
    path = legacy.folder2lmdb(tmp_path / "source" / "train.lmdb", legacy.files(3))
    (path / "lock.mdb").unlink()
    before = contents(tmp_path / "source")
    path.chmod(0o555)
    prepared(path, tmp_path / "my.records", workers=1)
    assert contents(tmp_path / "source") == before


def test_broken_images_are_kept_left_out_or_an_error(tmp_path: Path) -> None:
    pairs = legacy.files(5)
    pairs[2] = (b"\xff\xd8\xff broken", 7)
    path = legacy.folder2lmdb(tmp_path / "train.lmdb", pairs)
    reader = imported(path)
    assert_files(reader, pairs)
    assert list(reader.manifest.bad) == ["2.jpg"]
    skipped = imported(path, on_error="skip", refresh=True)
    assert_files(skipped, [pair for index, pair in enumerate(pairs) if index != 2])
    assert list(skipped.names) == ["0.jpg", "1.png", "3.jpg", "4.jpg"]
    with pytest.raises(PrepareError, match=r"2\.jpg: no image format"):
        imported(path, on_error="raise", refresh=True)


def test_a_database_that_changes_meanwhile(tmp_path: Path) -> None:
    path = legacy.folder2lmdb(tmp_path / "train.lmdb", legacy.files(40))
    foreign = find_foreign(str(path), None, {})
    assert foreign is not None
    foreign.open()
    units = ForeignSource(foreign).units(20_000)
    assert len(units) > 2
    with lmdb.open(str(path), **lmdb_options()) as env, env.begin(write=True) as txn:
        txn.put(b"40", b"another")
    with pytest.raises(SourceError, match="changed while it was read"):
        [list(member.piece.values()) for member in units[1].members()]


# Damaged and forged


DAMAGED = """
import json, resource, sys
from pathlib import Path
from recordzoo.errors import RecordZooError
from recordzoo.formats import lmdb
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
path, work = Path(sys.argv[1]), Path(sys.argv[2])
good = path.read_bytes()
def read():
    found = lmdb.find(str(work), {})
    found.open()
    return [value for piece in found.pieces for value in piece.values()]
work.write_bytes(good)
right = read()
told = same = other = 0
def attempt():
    global told, same, other
    try: found = read()
    except RecordZooError as err: told += 1; assert str(work) in str(err), err
    else: same += found == right; other += found != right
for size in [*range(0, len(good), 4096), *range(0, 300, 7), len(good) - 1]:
    work.write_bytes(good[:size]); attempt()
cuts = (told, same, other)
told = same = other = 0
for place in json.loads(sys.argv[3]):
    for bit in (0, 4):
        with open(work, "wb") as file: file.write(good)
        with open(work, "r+b") as file: file.seek(place); file.write(bytes([good[place] ^ 1 << bit]))
        attempt()
print(json.dumps([cuts, (told, same, other)]))
"""


def tree_places(data: bytes) -> list[int]:
    """The bytes of both meta pages, of the branch, and of the first leaves, where they mean something."""
    places = [*range(16, 152), *range(4096 + 16, 4096 + 152)]
    kinds: dict[int, int] = {}
    for start in range(8192, len(data), 4096):
        flags, lower, upper = struct.unpack_from("<HHH", data, start + 10)
        if flags in (1, 2) and data[start : start + 8] == (start // 4096).to_bytes(8, "little"):
            kinds[flags] = kinds.get(flags, 0) + 1
            if kinds[flags] <= 2:
                places += [*range(start, start + lower), *range(start + upper, min(start + upper + 200, start + 4096))]
    assert len(kinds) == 2, "there is a branch, and there are leaves"
    return places


@pytest.mark.parametrize("tool", ["folder2lmdb", "torchrecord"])
def test_a_damaged_database_is_an_error_and_never_a_death(tool: str, tmp_path: Path) -> None:
    """Cut everywhere, and with bits flipped where they mean something, in a process of its own."""
    if tool == "folder2lmdb":
        path = legacy.folder2lmdb(tmp_path / "good.mdb", legacy.files(60), subdir=False)
    else:
        messages = [legacy.tensors(image[:1, :1], label) for image, label in legacy.pixels(300)]
        path = legacy.torchrecord(tmp_path / "record", messages, 2) / "data.mdb"
    places = json.dumps(tree_places(path.read_bytes())[::7])
    cuts, flips = json.loads(printed(DAMAGED, path, path.with_name("work.mdb"), places, timeout_s=240))
    assert cuts[0] > 40
    assert cuts[2] == 0  # what is cut is told, or was not needed
    assert flips[0] > 40
    assert flips[1] > 40


def patched(path: Path, *changes: tuple[int, str, int]) -> Path:
    """Write numbers into a file: where, their `struct` format, and the number."""
    with open(path, "r+b") as file:
        for offset, form, value in changes:
            file.seek(offset)
            file.write(struct.pack(f"<{form}", value))
    return path


@pytest.mark.parametrize(
    ("forge", "text"),
    [
        ("swapped", r"key b'\d+' stands behind b'\d+'"),
        ("counted", "has 6 keys, its head says 7"),
        ("far", "the value of b'3' lies outside the file"),
        ("negative", "the value of b'3' lies outside the file"),
        ("long", "the value of b'3' lies outside the file|node outside itself"),
        ("kind", "is not the value of b'3'"),
        ("number", "is not the value of b'3'"),
    ],
)
def test_a_forged_tree(forge: str, text: str, tmp_path: Path) -> None:
    path = legacy.folder2lmdb(tmp_path / "good.mdb", legacy.files(4), subdir=False)
    data = path.read_bytes()
    newer = max((16, 4096 + 16), key=lambda meta: struct.unpack_from("<Q", data, meta + 128)[0])
    (root,) = struct.unpack_from("<Q", data, newer + 112)
    leaf = root * 4096
    first, second = struct.unpack_from("<HH", data, leaf + 16)
    nodes = struct.unpack_from("<6H", data, leaf + 16)
    (node,) = [leaf + each for each in nodes if data[leaf + each + 8 : leaf + each + 9] == b"3"]
    (large,) = struct.unpack_from("<Q", data, node + 9)
    changes = {
        "swapped": [(leaf + 16, "H", second), (leaf + 18, "H", first)],
        "counted": [(newer + 104, "Q", 7)],
        "far": [(node + 9, "Q", len(data) // 4096)],
        "negative": [(node + 9, "Q", 1)],
        "long": [(node + 2, "H", 0x7000)],
        "kind": [(large * 4096 + 10, "H", 2)],
        "number": [(large * 4096, "Q", large + 1)],
    }
    with pytest.raises(ArchiveError, match=text):
        imported(patched(path, *changes[forge]))


# The formats by themselves


PARSERS: dict[str, tuple[Callable[[bytes], object], type[ValueError]]] = {
    "caffe": (lmdb_values.caffe_value, ValueError),
    "torchrecord": (lmdb_values.torchrecord_value, ValueError),
    "folder2lmdb": (lmdb_values.pair_value, ValueError),
    "any": (lmdb_values.loaded, ValueError),
    "arrow": (lmdb_values.deserialize, ValueError),
}

SEEDS = [
    legacy.datum(np.zeros((2, 2, 3), np.uint8), 1),
    legacy.float_datum(np.zeros((1, 2, 2)), 1),
    legacy.tensors(np.zeros((2, 2, 3), np.uint8), 1),
    legacy.msgpack((np.zeros(3, np.uint8), np.int64(1))),
    legacy.PYARROW[b"0"],
    legacy.PYARROW[b"__keys__"],
    pickle.dumps((b"x", 1)),
]


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    parse, error = PARSERS[name]
    value = bytearray(data.draw(st.binary(max_size=80) | st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(0, 3)) if value else 0):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(error):
        parse(bytes(value[: data.draw(st.integers(0, len(value)))]))


def test_msgpack_that_is_refused() -> None:
    for data, text in (
        (b"\xdd\xff\xff\xff\xff", "exceeds max_array_len"),
        (b"\x92\xc6\xff\xff\xff\xffabc", "incomplete input|exceeds max_bin_len"),
        (b"\x91" * 5000 + b"\x01", "StackError"),
        (b"\x92\x81\x90\x01\x01", "unhashable type"),
    ):
        with pytest.raises(ValueError, match=f"as msgpack has it, .*({text})"):
            lmdb_values.loaded(data)
