"""MongoDB collections and GridFS, written and read with pymongo over the wire protocol, become record sets."""

import datetime
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import gridfs
import pymongo
import pytest

from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.formats import find_foreign
from recordzoo.own.sample import default_place
from recordzoo.records.reader import RecordReader
from tests.fakes.mongo import Mongo, serving
from tests.foreign import UNIT_BYTES, check, check_refused, check_resumed, expected_of, pairs
from tests.preparing import prepared
from tests.running import run

SAMPLES = pairs(20)


@pytest.fixture
def server() -> Iterator[Mongo]:
    with serving() as mongo:
        yield mongo


def write(server: Mongo, **more: list[Any]) -> str:
    """Write the collection that articles have, `bson_img` and a label; return its address."""
    documents: list[dict[str, Any]] = [{"bson_img": bson.Binary(image), "label": label} for image, label in SAMPLES]
    for key, values in more.items():
        for document, value in zip(documents, values, strict=True):
            document |= {} if value is ... else {key: value}
    with pymongo.MongoClient[dict[str, Any]](server.address) as client:
        client.db.photos.insert_many(documents)
    return f"mongodb://{server.address}/db/photos"


@pytest.mark.slow
def test_a_collection(server: Mongo, tmp_path: Path) -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    address = write(
        server,
        name=[f"é{number}" for number in range(20)],
        taken=[when] * 20,
        count=[bson.Int64(1 << 40)] * 20,
        price=[bson.Decimal128("1.10")] * 20,
        score=[0.5, *[...] * 19],
        meta=[{"boxes": [[1, 2.5], []], "of": bson.ObjectId("0" * 24)}] * 20,
        thumbnail=[..., *[b"\0\1"] * 19],
    )
    fields = {
        "field_name": [f"é{number}" for number in range(20)],
        "taken": [when.isoformat()] * 20,
        "count": [1 << 40] * 20,
        "price": ["1.10"] * 20,
        "score": [0.5, *[None] * 19],
        "meta": [{"boxes": [[1, 2.5], []], "of": "0" * 24}] * 20,
        "thumbnail": [None, *[b"\0\1"] * 19],
        "id": [str(document["_id"]) for document in server.collections["db.photos"]],
    }
    reader = check(address, expected_of(SAMPLES, fields=fields), tmp_path / "one.records")
    assert reader.names[0] == "photos-000000/000000.jpg"
    assert reader.manifest.source == "mongodb"
    assert "getMore" in server.asked
    check_resumed(address, reader, tmp_path / "again.records")


@pytest.mark.slow
def test_gridfs(server: Mongo, tmp_path: Path) -> None:
    with pymongo.MongoClient[dict[str, Any]](server.address) as client:
        bucket = gridfs.GridFS(client.db, "photos")
        for number, (image, label) in enumerate(SAMPLES):
            metadata = {"label": label, "filename": "again"}
            bucket.put(image, _id=number, filename=f"{number}.jpg", chunk_size=256, metadata=metadata, more=[number])
    names = [f"{number}.jpg" for number in range(20)]
    fields = {
        "filename": names,
        "id": list(range(20)),
        "more": [[number] for number in range(20)],
        "metadata_filename": ["again"] * 20,
    }
    address = f"mongodb://{server.address}/db/photos"
    check(address, expected_of(SAMPLES, fields=fields), tmp_path / "one.records")
    del server.collections["db.photos.chunks"][1]
    check_refused(address, tmp_path / "damaged.records", f"{address}: CorruptGridFile")
    server.collections["db.photos.files"][0]["length"] = 1 << 40
    check_refused(address, tmp_path / "damaged.records", "_id 0: its length is 1099511627776")


def listed(path: Path, names: Any, labels: Any) -> Path:
    path.write_text(json.dumps({"path_list": names, "label_list": labels}))
    return path


def test_a_list_says_order_and_labels(server: Mongo, tmp_path: Path) -> None:
    """As in the article: documents by `img_name`, labels of the list; a JPEG without its end marker is completed."""
    address = write(server, img_name=[f"{number}.jpg" for number in range(20)])
    first = server.collections["db.photos"][0]
    cut = first["bson_img"] = first["bson_img"][:-2]
    numbers = [*range(19, -1, -1), 5]
    path = listed(tmp_path / "train.json", [f"train/{n}.jpg" if n % 2 else f"{n}.jpg" for n in numbers], numbers)
    samples = [((cut + b"\xff\xd9") if n == 0 else SAMPLES[n][0], n) for n in numbers]
    names = [f"{n}.jpg" for n in numbers]
    reader = check(address, expected_of(samples, fields={"img_name": names}), tmp_path / "one.records", list_=path)
    assert reader.manifest.metadata["remarks"] == {"a JPEG without its end marker got one": 1}
    words = ("prepare", address, "--list", path, "--output", tmp_path / "cli.records")
    assert "1 sample: a JPEG without its end marker got one" in run(*words, cwd=tmp_path).stderr
    listed(path, ["3.jpg", "1.jpg", "2.jpg"], ["dog", "cat", "dog"])
    reader = RecordReader(prepared(address, tmp_path / "two.records", list_=path, refresh=True))
    assert (reader.array("target").tolist(), reader.manifest.classes) == ([1, 0, 1], ("cat", "dog"))


@pytest.mark.parametrize(
    ("names", "labels", "problem"),
    [
        (["1.jpg", "gone.jpg", "x/gone too.jpg"], [1, 2, 3], "lists 2 documents not found (img_name): 'gone."),
        (["1.jpg", "same.jpg"], [1, 2], "lists 1 document found twice (img_name): 'same.jpg'"),
        ([], [], "of one item or more"),
        (["1.jpg", "2.jpg"], [1, "2"], "whole numbers only, or texts only"),
        ([1], [1], "path_list must hold texts"),
        ("1.jpg", [1], "must be lists"),
    ],
)
def test_lists_that_are_none(server: Mongo, names: Any, labels: Any, problem: str, tmp_path: Path) -> None:
    address = write(server, img_name=[*(f"{number}.jpg" for number in range(18)), "same.jpg", "same.jpg"])
    path = listed(tmp_path / "train.json", names, labels)
    check_refused(address, tmp_path / "one.records", f"{path}", problem, list_=path)


def test_lists_are_for_mongodb(server: Mongo, tmp_path: Path) -> None:
    address, path = write(server), tmp_path / "train.json"
    path.write_text('{"path_list": []}')
    check_refused(address, tmp_path / "one.records", f"{path} is no JSON with path_list and label_list", list_=path)
    check_refused(address, tmp_path / "one.records", "no document has a name", list_=listed(path, ["1"], [1]))
    with pytest.raises(ArgumentError, match=r"list_ \(--list\) is for MongoDB, and .* is a list of files"):
        prepared(listed(tmp_path / "a.csv", ["1"], [1]), tmp_path / "one.records", list_=path)


@pytest.mark.slow
def test_ids_of_several_types_keep_their_order(server: Mongo) -> None:
    ids = [None, -3, 2.5, 7, "a", "b", bson.ObjectId("1" * 24), True, *range(100, 112)]
    address = write(server, _id=ids)
    foreign = find_foreign(address, None, {})
    assert foreign is not None
    samples = [sample for piece in foreign.pieces for sample in foreign.read(piece)]
    expected = [None, -3, 2.5, 7, *range(100, 112), "a", "b", "1" * 24, True]
    assert [sample.values["id"] for sample in samples] == expected
    images = {str(each): image for each, (image, _) in zip(ids, SAMPLES, strict=True)}
    assert [sample.values["image"] for sample in samples] == [images[str(each)] for each in expected]
    assert len(foreign.pieces) == 16


@pytest.mark.slow
@pytest.mark.parametrize("user", ["ann:s3cr3t", "ann:s%33cr3t"])
def test_the_login_is_sent_and_neither_shown_nor_stored(
    server: Mongo, tmp_path: Path, caplog: pytest.LogCaptureFixture, user: str
) -> None:
    address = write(server)
    server.login = ("ann", "s3cr3t")
    check_refused(address, tmp_path / "one.records", f"{address}: OperationFailure", "requires authentication")
    with_login = address.replace("//", f"//{user}@") + "?authMechanism=PLAIN&retryReads=false"
    with caplog.at_level(logging.DEBUG, "recordzoo"):
        made = prepared(with_login, tmp_path / "one.records", workers=2, shard_bytes=UNIT_BYTES)
    assert len(RecordReader(made)) == 20
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"s3cr3t" not in path.read_bytes(), path
    with pytest.raises(OtherSourceError) as other:
        prepared(with_login, made, fields={"label": "number"})
    server.login = ("ann", "other")
    refused = check_refused(with_login, tmp_path / "two.records", "OperationFailure", "no user ann with password ***")
    shown = [str(other.value), str(refused), repr(refused.details), caplog.text]
    assert not any("s3cr3t" in text or "s%33" in text for text in shown)
    assert default_place(with_login).name == "photos.records"


@pytest.mark.parametrize("format", [None, "tfrecord", "mongodb"])
def test_the_login_is_not_in_messages_of_other_formats(tmp_path: Path, format: str | None) -> None:
    address = "mongodb://ann:s3cr3t@host/db?tlsCertificateKeyFilePassword=s3cr3t"
    with pytest.raises((ArgumentError, NotPreparedError)) as caught:
        prepared(address, tmp_path / "one.records", from_=format)
    assert "s3cr3t" not in str(caught.value)
    assert "mongodb://host" in str(caught.value)


@pytest.mark.slow
def test_documents_with_other_keys(server: Mongo, tmp_path: Path) -> None:
    # The one that has it is neither among the first documents nor the first of a piece.
    with pymongo.MongoClient[dict[str, Any]](server.address) as client:
        client.db.photos.insert_many(
            {"_id": number, "image": SAMPLES[number % 20][0], "label": 1, **({"odd": 5} if number == 31 else {})}
            for number in range(60)
        )
    address = f"mongodb://{server.address}/db/photos"
    check_refused(address, tmp_path / "one.records", "_id 31: it has 'odd'", "--field odd=FIELD")
    foreign = find_foreign(address, None, {"odd": "strange"})
    assert foreign is not None
    assert [sample.values["strange"] for piece in foreign.pieces for sample in foreign.read(piece)].count(5) == 1


def test_a_collection_that_changes(server: Mongo, tmp_path: Path) -> None:
    address = write(server)
    foreign = find_foreign(address, None, {})
    assert foreign is not None
    del server.collections["db.photos"][3]
    with pytest.raises(SourceError, match=r"changed while it was read: there is no document with _id ObjectId\("):
        list(foreign.read(foreign.pieces[3]))
    other = find_foreign(address, None, {})
    assert other is not None
    assert other.identity() != foreign.identity()


@pytest.mark.slow
def test_nothing_there(server: Mongo, tmp_path: Path) -> None:
    check_refused(f"mongodb://{server.address}/db/none", tmp_path / "one.records", "no documents", "'none.files'")
    check_refused("mongodb://host/db", tmp_path / "one.records", "mongodb://host/db names no collection")
    check_refused("mongodb://host:x/db/a", tmp_path / "one.records", "//host:x/db/a: ValueError: Port contains")
    address = "mongodb://127.0.0.1:1/db/photos?serverSelectionTimeoutMS=10"
    check_refused(address, tmp_path / "one.records", "mongodb://127.0.0.1:1/db/photos: ServerSelectionTimeoutError")
