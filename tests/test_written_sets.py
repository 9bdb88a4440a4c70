"""Record sets that `append`, `add_field` and earlier `merge` and `subset` made: they open, verify and merge as then.

`written/sets/` has each as text: what is in the set, and its files; all but JSON are base64 of zlib. recordzoo wrote
them before `append` and `add_field` were removed. With `write_set` of `tests/combining.py`:

    a, c = write_set("a.records", 3), write_set("c.records", 3)
    b = write_set("b.records", 2, seed=1, classes=("owl", "ant"))
    merge(["a.records", "b.records"], "merged.records", classes="union", num_shards=2)
    subset("a.records", indices=[2, 0], output="subset.records")
    append("a.records", "b.records")
    add_field("c.records", {"0002.jpg": 70, "0000.jpg": 7, "0001.jpg": 33}, "age")
"""

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from recordzoo import RecordReader
from recordzoo.errors import ArgumentError
from recordzoo.records.verify import verify
from tests.combining import assert_holds, every
from tests.running import run

WRITTEN = Path(__file__).parent / "written" / "sets"
NAMES = sorted(path.stem for path in WRITTEN.iterdir())


def rebuilt(name: str, folder: Path) -> tuple[RecordReader, dict[str, Any]]:
    """Write the files of a set into a folder; return its reader, and what must be in it."""
    document = json.loads((WRITTEN / f"{name}.json").read_text(encoding="utf-8"))
    path = folder / f"{name}.records"
    path.mkdir()
    for file, text in document["files"].items():
        data = text.encode() if file.endswith(".json") else zlib.decompress(base64.b64decode(text))
        (path / file).write_bytes(data)
    return RecordReader(path), document["expected"]


@pytest.mark.parametrize("name", NAMES)
def test_it_opens(name: str, tmp_path: Path) -> None:
    reader, expected = rebuilt(name, tmp_path)
    places = range(len(reader))
    assert {
        "digest": reader.digest,
        "names": list(reader.names),
        "classes": list(reader.manifest.classes or ()),
        "targets": reader.array("target").tolist(),
        "splits": {split: reader.split(split).tolist() for split in reader.manifest.splits},
        "images": [hashlib.sha256(reader.read("image", place)).hexdigest()[:16] for place in places],
        "words": [reader[place]["words"] for place in places],
        **({"age": reader.array("age").tolist()} if "age" in reader.columns else {}),
    } == expected
    dataset = recordzoo.open(reader.path)
    assert dataset.targets == expected["targets"]
    assert dataset[0][0].size[0] == 11


@pytest.mark.parametrize("name", NAMES)
def test_it_is_verified(name: str, tmp_path: Path) -> None:
    reader, _ = rebuilt(name, tmp_path)
    assert verify(reader.path, full=True).problems == []
    done = run("verify", reader.path, "--full", cwd=tmp_path)
    assert (done.returncode, "combined.json" in done.stderr) == (0, False), done.stderr
    assert "made of:" in run("info", reader.path, cwd=tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_merged(name: str, tmp_path: Path) -> None:
    first, _ = rebuilt(name, tmp_path)
    (tmp_path / "more").mkdir()
    others = [
        rebuilt(other, tmp_path / "more")[0] for other in NAMES if (other == "with-field") == (name == "with-field")
    ]
    new = RecordReader(
        recordzoo.merge([first.path, *(other.path for other in others)], tmp_path / "all.records", classes="union")
    )
    assert_holds(new, every(first, *others))
    assert verify(new.path, full=True).problems == []


@pytest.mark.slow
def test_a_field_that_was_added_is_a_field(tmp_path: Path) -> None:
    reader, expected = rebuilt("with-field", tmp_path)
    other, _ = rebuilt("appended", tmp_path)
    with pytest.raises(ArgumentError, match=r"the field 'age' is int64 \[\] in the first, absent in the second"):
        recordzoo.merge([reader.path, other.path], tmp_path / "all.records")
    some = RecordReader(recordzoo.subset(reader.path, indices=[2, 0], output=tmp_path / "some.records"))
    assert some.array("age").tolist() == [expected["age"][2], expected["age"][0]]
    parts = RecordReader(recordzoo.subset(reader.path, classes=["owl"], output=tmp_path / "owl.records"))
    assert parts.array("age").tolist() == [70]
