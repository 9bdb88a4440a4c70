"""`add_field`: joined by name and by position, the kinds of values, and what is not matched."""

import json
from pathlib import Path

import numpy as np
import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.verify import verify
from tests.combining import FIELDS, plain, write_set
from tests.running import run

pytestmark = pytest.mark.slow


@pytest.fixture
def old(tmp_path: Path) -> RecordReader:
    return write_set(tmp_path / "a.records", 4)


def test_by_name(old, tmp_path):
    (tmp_path / "ages.csv").write_text("age,name\n3,0003.jpg\n0,0000.jpg\n2,0002.jpg\n1,0001.jpg\n7,other.jpg\n")
    new = RecordReader(recordzoo.add_field(old.path, tmp_path / "ages.csv", "age", output=tmp_path / "b.records"))
    assert new.array("age").tolist() == [0, 1, 2, 3]
    assert new.manifest.fields["age"] == FieldSpec(FieldKind.INT)
    assert {**new.manifest.fields} == {**old.manifest.fields, "age": FieldSpec(FieldKind.INT)}
    for position in range(4):
        assert {**plain(old[position]), "age": position} == plain(new[position])
    assert [shard.hash for shard in new.manifest.shards] == [shard.hash for shard in old.manifest.shards]
    assert verify(new.path, full=True).problems == []
    assert recordzoo.add_field(old.path, {name: i for i, name in enumerate(old.names)}, "age") == old.path
    assert RecordReader(old.path).array("age").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("values", "stored", "spec"),
    [
        ([1, 2, 3, -4], np.int64([1, 2, 3, -4]), FieldSpec(FieldKind.INT)),
        ([True, False, True, True], np.int64([1, 0, 1, 1]), FieldSpec(FieldKind.INT)),
        (np.float32([1, np.nan, 2.5, 0]), np.float32([1, np.nan, 2.5, 0]), FieldSpec(FieldKind.FLOAT)),
        (np.ones((4, 2)), np.ones((4, 2)), FieldSpec(FieldKind.FLOAT)),
        (["b", "a", "b", "c"], np.int64([1, 0, 1, 2]), FieldSpec(FieldKind.CLASS, ("a", "b", "c"))),
    ],
)
def test_by_position(values, stored, spec, old):
    new = RecordReader(recordzoo.add_field(old.path, values, "more"))
    np.testing.assert_array_equal(new.array("more"), stored)
    assert new.array("more").dtype == stored.dtype
    assert new.manifest.fields["more"] == spec
    assert verify(new.path, full=True).problems == []
    assert new.manifest.default_target == "target"


def test_files_by_position(old, tmp_path):
    (tmp_path / "x.tsv").write_text("other\tx\n1\t0.5\n2\t1\n3\t2\n4\t-1e3\n")
    np.save(tmp_path / "y.npy", np.arange(4, dtype=np.uint8))
    recordzoo.add_field(old.path, tmp_path / "x.tsv", "x")
    new = RecordReader(recordzoo.add_field(old.path, tmp_path / "y.npy", "y"))
    assert (new.array("x").tolist(), new.array("x").dtype) == ([0.5, 1, 2, -1000], np.float32)
    assert new.array("y").tolist() == [0, 1, 2, 3]
    assert set(new.manifest.fields) == {*FIELDS, "x", "y"}


def test_postcodes_are_texts(old, tmp_path):
    (tmp_path / "a.csv").write_text("name,a\n0000.jpg,01234\n0001.jpg,99999\n0002.jpg,01234\n0003.jpg,5\nother.jpg,\n")
    new = RecordReader(recordzoo.add_field(old.path, tmp_path / "a.csv", "a"))
    assert new.array("a").tolist() == [0, 2, 0, 1]
    assert new.manifest.fields["a"] == FieldSpec(FieldKind.CLASS, ("01234", "5", "99999"))


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            "name,age\n0000.jpg,1\n0002.jpg,\n",
            ArgumentError,
            "3 of 4 records .* no value: 0001.jpg, 0002.jpg, 0003",
        ),
        ("name,age\n0000.jpg,1\n0000.jpg,2\n", SourceError, "several rows of one name: 0000.jpg"),
        ("age\n1\n2\n", ArgumentError, r"There are 2 values, and .*a\.records has 4 records"),
        ("age\n1\n2\n \n4\n", ArgumentError, "1 records have no value: position 2"),
        ("b,c\n1,2\n", SourceError, "has the columns b, c: none is called 'age'"),
        ("name,age\n0000.jpg,1,2\n", SourceError, "row 2: it has not 2 columns"),
        ("", SourceError, "cannot be read as values"),
    ],
)
def test_what_is_not_matched_is_listed(text, error, said, old, tmp_path):
    (tmp_path / "ages.csv").write_text(text)
    with pytest.raises(error, match=said):
        recordzoo.add_field(old.path, tmp_path / "ages.csv", "age")
    assert RecordReader(old.path).digest == old.digest


def test_arguments(old, tmp_path):
    for name in ("name", "names_offsets", "Age", "split", ""):
        with pytest.raises(ArgumentError, match="cannot be a field's name"):
            recordzoo.add_field(old.path, [1, 2, 3, 4], name)
    with pytest.raises(ArgumentError, match="has a field 'weight' already"):
        recordzoo.add_field(old.path, [1, 2, 3, 4], "weight")
    with pytest.raises(ArgumentError, match=r"must be a \.csv, \.tsv or \.npy file"):
        recordzoo.add_field(old.path, tmp_path / "ages.xml", "age")
    with pytest.raises(SourceError, match="cannot be read as values"):
        recordzoo.add_field(old.path, tmp_path / "gone.npy", "age")
    with pytest.raises(ArgumentError, match="a field holds numbers"):
        recordzoo.add_field(old.path, [1j] * 4, "age")
    with pytest.raises(ArgumentError, match="several shapes"):
        recordzoo.add_field(old.path, [[1], [2, 3], [1], [1]], "age")


def test_the_command(old, tmp_path):
    rows = [f"{name},{i}" for i, name in enumerate([*old.names, "other.jpg"])]
    (tmp_path / "ages.csv").write_text("\n".join(["name,age", *rows]))
    done = run("add-field", "a.records", "ages.csv", "--as", "age", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 names are no record's: other.jpg." in done.stderr
    assert json.loads(done.stdout)["digest"] == RecordReader(old.path).digest != old.digest
