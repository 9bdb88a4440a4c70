"""Hugging Face datasets, as `datasets` writes them to Parquet, to disk and to its cache, become record sets."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from recordzoo.errors import ArgumentError, RemoteError, SourceError
from recordzoo.formats import arrow
from recordzoo.formats.huggingface import Hub, table_files
from recordzoo.records.manifest import FieldKind, FieldSpec
from recordzoo.records.reader import RecordReader
from tests.fakes.hub import Hub as HubServer
from tests.fakes.hub import Repository
from tests.foreign import check, check_refused, check_resumed, digest, expected_of, imported, pairs
from tests.preparing import prepared
from tests.running import Result, python

if TYPE_CHECKING:
    from datasets import Dataset

NAMES = ["crow", "gull", "owl", "tit", "wren"]
SAMPLES = pairs(12)


def birds(**more: Any) -> "Dataset":
    """A dataset with encoded images, labels, and more columns: for each its values and feature."""
    from datasets import ClassLabel, Dataset, Features, Image, disable_progress_bars  # which takes a second

    disable_progress_bars()
    rows = {
        "image": [{"bytes": data, "path": None} for data, _ in SAMPLES],
        "label": [label for _, label in SAMPLES],
        **{name: values for name, (values, _) in more.items()},
    }
    features = {"image": Image(), "label": ClassLabel(names=NAMES), **{name: each for name, (_, each) in more.items()}}
    return Dataset.from_dict(rows, features=Features(features))


def write_shards(folder: Path, dataset: "Dataset", split: str = "train", count: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        shard = dataset.shard(count, number, contiguous=True)
        shard.to_parquet(folder / f"{split}-{number:05d}-of-{count:05d}.parquet")
    return folder


@pytest.mark.slow
def test_parquet_shards_of_two_splits(tmp_path: Path) -> None:
    folder = tmp_path / "birds"
    write_shards(folder / "data", birds().select(range(8)))
    write_shards(folder / "data", birds().select(range(8, 12)), "validation", 1)
    splits = {"train": list(range(8)), "validation": list(range(8, 12))}
    reader = check(folder, expected_of(SAMPLES, classes=NAMES, splits=splits), tmp_path / "one.records")
    assert list(reader.names)[2:4] == ["data/train-00000-of-00003/000002.jpg", "data/train-00001-of-00003/000000.png"]
    assert set(reader.manifest.blobs) == {"image", "image_path"}
    check_resumed(folder, reader, tmp_path / "resumed.records")


@pytest.mark.slow
def test_what_save_to_disk_wrote(tmp_path: Path) -> None:
    from datasets import DatasetDict

    folder = tmp_path / "birds"
    both = DatasetDict(test=birds().select(range(4)), train=birds().select(range(4, 12)))
    both.save_to_disk(folder, num_shards={"train": 3, "test": 1})
    splits = {"test": list(range(4)), "train": list(range(4, 12))}
    check(folder, expected_of(SAMPLES, classes=NAMES, splits=splits), tmp_path / "one.records")


@pytest.mark.slow
def test_columns_of_all_kinds(tmp_path: Path) -> None:
    """What each becomes; the same from Parquet and from Arrow."""
    from datasets import Array2D, Array3D, ClassLabel, Features, Image, List, Value

    numbers = range(12)
    boxes = [[{"x": n, "on": [True]}] for n in numbers]
    thumbs = [{"bytes": SAMPLES[0][0], "path": f"{n}.jpg"} if n % 2 else None for n in numbers]
    pictures = [np.full((20, 20, 3), n, np.uint8) for n in numbers]
    dataset = birds(
        coarse=([None if n == 6 else n % 2 for n in numbers], ClassLabel(names=["sea", "land"])),
        caption=([None if n == 3 else f"é{n}" for n in numbers], Value("string")),
        height=([n / 2 for n in numbers], Value("float32")),
        count=([None if n == 4 else n for n in numbers], Value("int32")),
        seen=(["2026-11-22T10:00:00"] * 12, Value("timestamp[s]")),
        grid=([[[n, 2], [3, 4]] for n in numbers], Array2D((2, 2), "int16")),
        track=([[[n, 2]] * (n % 3 + 1) for n in numbers], Array2D((None, 2), "float32")),
        picture=(pictures, Array3D((20, 20, 3), "uint8")),
        tags=([[n] * (n % 3) for n in numbers], List(Value("int64"))),
        embedding=([[n, 0.5] for n in numbers], List(Value("float32"), length=2)),
        boxes=(boxes, List({"x": Value("int32"), "on": List(Value("bool"))})),
        kinds=([[n % 2] * (n % 3) for n in numbers], List(ClassLabel(names=["wild", "tame"]))),
        objects=([[{"kind": n % 2}] for n in numbers], List({"kind": ClassLabel(names=["egg", "nest"])})),
        thumb=(thumbs, Image()),
        blob=([bytes([n]) for n in numbers], Value("binary")),
        name=(["n"] * 12, Value("string")),
    )
    dataset.save_to_disk(tmp_path / "saved", num_shards=2)
    dataset.to_parquet(tmp_path / "birds.parquet")
    for path in (tmp_path / "saved", tmp_path / "birds.parquet"):
        reader = imported(path, tmp_path / f"{path.stem}.records")
        third, fourth = reader[3], reader[4]
        assert (third["image"], third["target"]) == SAMPLES[3]
        assert [third[key] for key in ("coarse", "caption", "height", "seen")] == [1, None, 1.5, "2026-11-22T10:00:00"]
        assert (fourth["count"], fourth["caption"], reader[5]["count"], reader[6]["coarse"]) == (None, "é4", 5, -1)
        assert [reader.array(name).dtype for name in ("height", "grid")] == [np.float32, np.int16]
        assert (third["grid"].tolist(), reader[5]["track"].tolist()) == ([[3, 2], [3, 4]], [[5, 2]] * 3)
        assert reader.array("embedding").tolist() == [[n, 0.5] for n in numbers]
        assert [(reader[n]["tags"].tolist(), reader[n]["tags"].dtype) for n in (3, 5)] == [([], "<i8"), ([5, 5], "<i8")]
        assert (third["boxes"], third["thumb"], fourth["thumb"]) == (boxes[3], SAMPLES[0][0], None)
        assert (third["thumb_path"], fourth["thumb_path"]) == ("3.jpg", None)
        assert (third["blob"], third["field_name"], third["image_path"]) == (b"\3", "n", None)
        assert third["picture"].tolist() == pictures[3].tolist()
        assert reader.manifest.fields["coarse"] == FieldSpec(FieldKind.CLASS, ("sea", "land"))
        kept = Features.from_dict(reader.manifest.metadata["features"])
        assert kept == Features({name: dataset.features[name] for name in ("kinds", "objects")})
        assert (reader[5]["kinds"].tolist(), third["objects"]) == ([1, 1], [{"kind": 1}])
    plain = imported(write_shards(tmp_path / "plain", birds()), tmp_path / "plain.records")
    assert "features" not in plain.manifest.metadata
    reader = imported(tmp_path / "birds.parquet", tmp_path / "one.records", fields={"coarse": "target"})
    assert reader.manifest.classes == ("sea", "land")
    assert reader.array("label").tolist() == [label for _, label in SAMPLES]


def write_files(path: Path, *rows: tuple[bytes | None, str], **columns: Any) -> Path:
    """Write a column "photo" of files, by their bytes and paths, as `Image` is stored."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    files = [{"bytes": data, "path": place} for data, place in rows]
    parquet.write_table(pa.table({"photo": pa.array(files, kind), **columns}), path)
    return path


def test_paths_of_images_are_kept_and_missing_bytes_are_read(tmp_path: Path) -> None:
    (tmp_path / "one.jpg").write_bytes(SAMPLES[0][0])
    about = pa.array(['{"a": [null]}', None])  # an older pyarrow has no type for JSON
    about = pa.ExtensionArray.from_storage(pa.json_(), about) if hasattr(pa, "json_") else about
    path = write_files(tmp_path / "x.parquet", (None, "one.jpg"), (SAMPLES[1][0], "two.jpg"), label=[4, 5], about=about)
    reader = imported(path, tmp_path / "one.records")
    assert reader.value("about", 0) == ({"a": [None]} if hasattr(pa, "json_") else '{"a": [null]}')
    assert [reader.read("image", position) for position in (0, 1)] == [data for data, _ in SAMPLES[:2]]
    assert [reader[position]["image_path"] for position in (0, 1)] == ["one.jpg", "two.jpg"]
    write_files(tmp_path / "y.parquet", (SAMPLES[0][0], "one.jpg"), label=[4], image_path=["a"])
    both = imported(tmp_path / "y.parquet", tmp_path / "both.records")
    assert (both.value("image_path", 0), both.value("image_path_2", 0)) == ("a", "one.jpg")
    assert (reader.array("target").tolist(), reader.manifest.classes) == ([4, 5], None)


def test_a_list_of_labels_as_datasets_wrote_it_until_version_4(tmp_path: Path) -> None:
    feature = {"_type": "ClassLabel", "names": ["egg", "nest"]}
    table = parquet.read_table(write_files(tmp_path / "x.parquet", (SAMPLES[0][0], "one.jpg"), kinds=[[0, 1]]))
    features = {"info": {"features": {"photo": {"_type": "Image"}, "kinds": [feature]}}}
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), tmp_path / "x.parquet")
    reader = imported(tmp_path / "x.parquet", tmp_path / "one.records")
    assert reader.manifest.metadata["features"] == {"kinds": {"_type": "List", "feature": feature}}
    assert reader[0]["kinds"].tolist() == [0, 1]


ELSEWHERE = "it leads out of {folder}. If you trust the file, pass --allow-paths (allow_paths=True)"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("secret.txt", "it is no image"),
        ("none.jpg", "No such file"),
        ("pipe.jpg", "it is no file"),
        ("{folder}/../other.jpg", ELSEWHERE),
        ("link.jpg", ELSEWHERE),
    ],
)
def test_a_path_that_is_not_read(tmp_path: Path, path: str, text: str) -> None:
    """It leads to no image, or elsewhere; that is read with allow_paths. Nothing waits for a FIFO."""
    folder = tmp_path / "set"
    folder.mkdir()
    (tmp_path / "other.jpg").write_bytes(SAMPLES[0][0])
    (folder / "link.jpg").symlink_to(tmp_path / "other.jpg")
    (folder / "secret.txt").write_text("a password")
    if path == "pipe.jpg":
        os.mkfifo(folder / path)
    path, text = path.format(folder=folder), text.format(folder=folder)
    table = write_files(folder / "x.parquet", (None, path))
    check_refused(table, tmp_path / "one.records", "rows 0 to 0, column photo", repr(path), text)
    if "leads out" in text:
        made = prepared(table, tmp_path / "two.records", workers=1, allow_paths=True)
        assert RecordReader(made).read("image", 0) == SAMPLES[0][0]


def test_a_file_whose_opening_ends_or_hangs_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a child process."""
    monkeypatch.setattr(arrow, "OPENING_S", 2.0)
    os.mkfifo(tmp_path / "x.parquet")
    with pytest.raises(SourceError, match="the library that reads it crashed, or took more than 2 s"):
        arrow.open_first([tmp_path / "x.parquet"])


@pytest.mark.slow
def test_row_groups_and_batches_are_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "PART_BYTES", 1)
    birds().to_parquet(tmp_path / "birds.parquet", batch_size=5)
    table = birds().data.table
    for name, kind in (("stream.arrow", pa.ipc.new_stream), ("file.arrow", pa.ipc.new_file)):
        with pa.OSFile(str(tmp_path / name), "wb") as file, kind(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
    for name in ("birds.parquet", "stream.arrow", "file.arrow"):
        reader = imported(tmp_path / name, tmp_path / f"{name}.records")
        assert [reader.read("image", position) for position in range(12)] == [data for data, _ in SAMPLES]
        assert reader.manifest.classes == tuple(NAMES)


OFFSETS, ROWS = np.array([0, 38, 77], np.int32), np.array([4242], np.int64)


@pytest.mark.parametrize(
    ("columns", "number", "forged", "texts"),
    [
        # A string that ends behind its buffer: pyarrow itself would read other memory.
        ({"a": ["x" * 38, "x" * 39]}, OFFSETS, np.array([0, 38, 1 << 30], np.int32), ("is cut or damaged",)),
        # Columns of nulls have no bytes: their rows would never end.
        ({"a": pa.nulls(4242)}, ROWS, np.array([1 << 50], np.int64), (", byte ", "rows are too many")),
    ],
    ids=["offsets", "rows"],
)
def test_forged_numbers_of_an_arrow_file(
    columns: dict[str, Any], number: Any, forged: Any, texts: tuple[str, ...], tmp_path: Path
) -> None:
    batch = pa.record_batch(columns)
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
        writer.write_batch(batch)
    data = (tmp_path / "x.arrow").read_bytes()
    assert number.tobytes() in data
    (tmp_path / "x.arrow").write_bytes(data.replace(number.tobytes(), forged.tobytes()))
    check_refused(tmp_path / "x.arrow", tmp_path / "one.records", "x.arrow", *texts)


SHAPE = b'{"info": {"features": {"grid": {"_type": "Array2D", "shape": [7, 1000000000], "dtype": "uint8"}}}}'


@pytest.mark.parametrize(
    ("metadata", "texts"),
    [
        *((data, ("does not describe its columns as datasets does",)) for data in (b"[]", b"[" * 100_000)),
        (SHAPE, ("rows 0 to 0, column grid", "reshape")),
    ],
)
def test_forged_features(tmp_path: Path, metadata: bytes, texts: tuple[str, ...]) -> None:
    table = pa.table({"grid": [[[1, 2]]]}).replace_schema_metadata({"huggingface": metadata})
    parquet.write_table(table, tmp_path / "x.parquet")
    check_refused(tmp_path / "x.parquet", tmp_path / "one.records", *texts)


@pytest.mark.slow
def test_a_shard_with_other_columns(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "birds", birds())
    parquet.write_table(pa.table({"text": ["x"]}), folder / "train-00001-of-00003.parquet")
    check_refused(folder, tmp_path / "one.records", "train-00001-of-00003.parquet has the columns text; ")


def test_splits_from_names() -> None:
    for names, splits in {
        ("data/train-00000-of-00001-0123abcd.parquet", "data/test-00000-of-00001.parquet"): ["test", "train"],
        ("train/0000.parquet", "validation/0000.parquet"): ["train", "validation"],
        ("default/partial-train/0000.parquet",): ["train"],
        ("birds-train-00000-of-00001.arrow", "birds-test.arrow", "cache-1a2b.arrow"): ["test", "train"],
        ("train/data-00000-of-00001.arrow", "train/state.json", "train/cache-1.arrow"): ["train"],
        ("part-0.parquet", "part-1.parquet"): ["", ""],
        ("trainval.parquet",): ["trainval"],
    }.items():
        assert [file.split for file in table_files("x", dict.fromkeys(names, 1))] == splits
    with pytest.raises(ArgumentError, match=r"x has several datasets, in the folders a, b\. Name one: x/b"):
        table_files("x", {"a/train-00000-of-00001.parquet": 1, "b/train-00000-of-00001.parquet": 1})


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, parts in {
        "user/birds@v1.0/data/": ("user/birds", "v1.0", "data"),
        "user/birds@refs/convert/parquet/default": ("user/birds", "refs/convert/parquet", "default"),
        "user/birds@refs%2Fpr%2F1": ("user/birds", "refs/pr/1", ""),
        "user/birds@~parquet/default": ("user/birds", "refs/convert/parquet", "default"),
    }.items():
        hub = Hub(f"hf://datasets/{address}")
        assert (hub.repository, hub.revision, hub.folder) == parts
    with pytest.raises(ArgumentError, match="is no dataset of the Hub: hf://datasets/USER/NAME"):
        Hub("hf://user/model")
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    with pytest.raises(RemoteError, match="hf://datasets/user/birds cannot be reached: RECORDZOO_OFFLINE is set"):
        Hub("hf://datasets/user/birds").sizes()


@pytest.mark.slow
def test_a_private_repository_of_the_hub(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    write_shards(folder / "data", birds())
    (folder / "README.md").write_text("# Birds")
    output = tmp_path / "birds.records"

    def run(**more: str) -> Result:
        words = ("-m", "recordzoo", "prepare", "hf://datasets/user/birds", "--output", output, "--workers", 2)
        known = {"HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return python(*words, **known, HF_ENDPOINT=hub.url, **more)

    with HubServer({"hf_secret": "user"}) as hub:
        hub.datasets["user/birds"] = Repository(private=True)
        names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        hub.datasets["user/birds"].commit("main", {name: path.read_bytes() for name, path in names.items()})
        refused = run(HF_TOKEN="")
        assert refused.returncode
        assert "it may not be read (status 401). If it is private or gated" in " ".join(refused.stderr.split())
        made = run(HF_TOKEN="hf_secret")
        assert made.returncode == 0, made.stderr
        reader = RecordReader(output)
        assert [digest(reader.read("image", n)) for n in range(12)] == list(expected_of(SAMPLES).images)
        assert reader.manifest.classes == tuple(NAMES)
        assert list(reader.manifest.splits) == ["train"]
        sent = [each.rpartition("/")[2] for each in hub.requests("GET .*/resolve/")]
        assert sorted(sent) == [f"train-0000{n}-of-00003.parquet" for n in range(3)]
        shutil.rmtree(tmp_path / "home")
        again = run(HF_TOKEN="hf_secret")
        assert again.returncode == 0, again.stderr
        assert len(hub.requests("GET .*/resolve/")) == 3
        assert "hf_secret" not in "".join(path.read_text(errors="ignore") for path in output.iterdir())
