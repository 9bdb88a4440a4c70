"""SQLite databases, written by the standard library, become record sets."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from recordzoo.errors import ArgumentError
from recordzoo.formats import find_foreign, sqlite
from recordzoo.own.sample import default_place
from recordzoo.records.reader import RecordReader
from tests.foreign import check, check_refused, expected_of, pairs
from tests.preparing import prepared

SAMPLES = pairs(20)
PRACTITIONERS = "CREATE TABLE images (img_path TEXT, img_data BLOB, img_label INTEGER)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The table that most tutorials write."""
    return write(tmp_path / "photos.db")


def write(path: Path, *statements: str) -> Path:
    rows = [(f"a/{number}.jpg", image, label) for number, (image, label) in enumerate(SAMPLES)]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(PRACTITIONERS)
        database.executemany("INSERT INTO images VALUES (?, ?, ?)", rows)
        for statement in statements:
            database.execute(statement)
    return path


@pytest.mark.slow
def test_the_table_of_tutorials(path: Path, tmp_path: Path) -> None:
    paths = [f"a/{number}.jpg" for number in range(20)]
    reader = check(path, expected_of(SAMPLES, fields={"img_path": paths}), tmp_path / "one.records")
    assert list(reader.names)[2:4] == ["000000003.jpg", "000000004.png"]
    assert reader.manifest.source == "sqlite"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.records", "photos.db", "two.records"]


@pytest.mark.slow
def test_every_type_and_distant_rowids(tmp_path: Path) -> None:
    path = tmp_path / "any.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            'CREATE TABLE "my ""photos""" (id INTEGER PRIMARY KEY, name TEXT, Picture BLOB, score REAL,'
            ' "class" INTEGER, note, mask BLOB, late BLOB, twice AS (id * 2), stored AS (id + 1) STORED)'
        )
        for number, (image, label) in enumerate(SAMPLES):
            row = (number**9 - 40, f"é{number}", image, number / 2, label, None if number % 2 else number, b"\0\xff")
            late = b"late" if number == 19 else None
            database.execute('INSERT INTO "my ""photos""" VALUES (?, ?, ?, ?, ?, ?, ?, ?)', (*row, late))
    numbers = [number**9 - 40 for number in range(20)]
    fields = {
        "id": numbers,
        "field_name": [f"é{number}" for number in range(20)],
        "score": [number / 2 for number in range(20)],
        "note": [None if number % 2 else number for number in range(20)],
        "mask": [b"\0\xff"] * 20,
        "late": [*[None] * 19, b"late"],
        "stored": [number + 1 for number in numbers],
    }
    reader = check(path, expected_of(SAMPLES, fields=fields), tmp_path / "one.records")
    assert set(reader.manifest.metadata["sample"]["fields"]) == {"image", "target", *fields}


def test_a_table_without_rowids_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE t (k TEXT PRIMARY KEY, photo BLOB) WITHOUT ROWID")
        database.execute("INSERT INTO t VALUES ('a', ?)", (SAMPLES[0][0],))
    check_refused(path, tmp_path / "one.records", "table 't' has no rowid")


@pytest.mark.slow
def test_the_table_and_the_fields_that_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "photos.db", "CREATE TABLE more AS SELECT img_data AS a, img_data AS b, 3 AS n FROM images")
    check_refused(path, tmp_path / "one.records", "which table of 'images', 'more' is meant", f"{path}/images")
    check_refused(path / "more", tmp_path / "one.records", "'a', 'b' hold images", "--field a=image")
    made = prepared(path / "MORE", tmp_path / "one.records", fields={"b": "image", "n": "target"}, workers=1)
    assert set(RecordReader(made).manifest.blobs) == {"image", "a"}
    with pytest.raises(ArgumentError, match=r"has no table 'imges'.* Did you mean images"):
        prepared(path / "imges", tmp_path / "two.records")
    assert default_place(str(path / "more")) == tmp_path / "more.records"


def test_nothing_of_the_file_is_run(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i, x'ffd8ff' AS img FROM n"
    path = write(tmp_path / "a.db", f"CREATE VIEW photos AS {endless}", "CREATE VIRTUAL TABLE words USING fts5(body)")
    found = find_foreign(str(path), None, {})
    assert isinstance(found, sqlite.SQLiteTable)
    assert found.table == "images"
    check_refused(path / "photos", tmp_path / "one.records", "is a view", "CREATE TABLE")
    check_refused(path / "words", tmp_path / "one.records", "is a table whose rows are computed")
    with closing(sqlite3.connect(path)) as database, database:  # a view that says that it is a table
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'photos'")
    check_refused(path / "photos", tmp_path / "one.records", str(path))


@pytest.fixture
def in_use(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection in WAL mode that has written, and is open."""
    with closing(sqlite3.connect(write(tmp_path / "a.db"))) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("INSERT INTO images SELECT * FROM images")
        database.commit()
        yield database


def test_a_write_ahead_log(in_use: sqlite3.Connection, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    check_refused(path, tmp_path / "one.records", "changes in a.db-wal", "wal_checkpoint(TRUNCATE)")
    in_use.close()
    tmp_path.chmod(0o500)
    try:
        found = find_foreign(str(path), None, {})
        assert found is not None
        assert sum(1 for piece in found.pieces for _ in found.read(piece)) == 40
    finally:
        tmp_path.chmod(0o700)
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]


def test_a_tree_that_leads_to_the_same_page_again(path: Path, tmp_path: Path) -> None:
    """Twenty levels of 400 pointers to one page would be 400**20 rows."""
    data = bytearray(path.read_bytes())
    root = 4096
    assert data[root] == 5, "the root of the table is no interior page"
    cells = int.from_bytes(data[root + 3 : root + 5], "big")
    assert cells > 2
    child = data[root + int.from_bytes(data[root + 12 : root + 14], "big") :][:4]
    for cell in range(cells):
        at = root + int.from_bytes(data[root + 12 + 2 * cell : root + 14 + 2 * cell], "big")
        data[at : at + 4] = child
    path.write_bytes(data)
    check_refused(path, tmp_path / "one.records", str(path))


def test_a_locked_database(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_LOCK_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        check_refused(path, tmp_path / "one.records", str(path), "database is locked", "Another program is writing")


def test_a_forged_length(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    kind = 2 * len(SAMPLES[12][0]) + 12  # of a BLOB in a record's header, as a variable-length integer
    text = data.index(b"a/12.jpg")
    place = data.rindex(bytes([0x80 | kind >> 7, kind & 0x7F]), 0, text)
    assert text - place < 6
    data[place : place + 2] = b"\xff\x7e"  # 8,185 bytes: more than the row has
    path.write_bytes(data)
    check_refused(path, tmp_path / "one.records", str(path), "malformed")
