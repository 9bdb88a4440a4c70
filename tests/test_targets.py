"""Tables with several targets: their kinds, what opens them, and the batches that they become."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from PIL import Image
from pyarrow import parquet
from torch.utils.data import default_collate
from torchvision.transforms import v2

import recordzoo
from recordzoo import ImageFolderRecord, RecordLoader, RecordReader
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.records.manifest import FieldKind, FieldSpec
from recordzoo.records.verify import verify
from tests.fakes.lists import NAMES, write_images
from tests.preparing import REPOSITORY, prepared
from tests.running import run

TARGETS = {"breed": "class", "age": "float", "tags": "multilabel", "note": "text", "count": "int"}
ROWS: list[dict[str, Any]] = [
    {
        "photo": name,
        "breed": "abc"[number % 3],
        "age": number / 4,
        "tags": ["", "red", "red,big", "blue"][number % 4],
        "note": f"note {number}",
        "count": number * 10,
        "weight": number / 8,
        "split": "train" if number % 2 else "val",
    }
    for number, name in enumerate(NAMES)
]
TAGS = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]], np.float32)  # big, blue, red


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_images(tmp_path)
    return tmp_path


def write(folder: Path, ending: str = ".csv", rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
    path = folder / f"table{ending}"
    if ending == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    elif ending == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        pandas.DataFrame(rows).to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    return path


def table_set(folder: Path, **options: Any) -> Path:
    """The record set of the table with all targets."""
    return prepared(write(folder), **{"image": "photo", "targets": TARGETS, "workers": 1, **options})


def check(path: Path) -> None:
    """Compare a record set with `ROWS`."""
    reader = RecordReader(path)
    assert list(reader.names) == list(NAMES)
    assert reader.manifest.default_target == "breed"
    assert {name: reader.manifest.fields[name] for name in TARGETS} == {
        "breed": FieldSpec(FieldKind.CLASS, ("a", "b", "c")),
        "age": FieldSpec(FieldKind.FLOAT),
        "tags": FieldSpec(FieldKind.MULTILABEL, ("big", "blue", "red")),
        "note": FieldSpec(FieldKind.TEXT),
        "count": FieldSpec(FieldKind.INT),
    }
    assert [reader.array(name).dtype.str for name in ("age", "weight")] == ["<f4", "<f8"]
    assert reader.array("weight").tolist() == [row["weight"] for row in ROWS]
    assert reader.split("val").tolist() == [0, 2, 4, 6, 8]
    assert verify(path, full=True).problems == []
    dataset = ImageFolderRecord(path, target_type=list(TARGETS))
    for number, (_, (breed, age, tags, note, count)) in enumerate(dataset):
        row = ROWS[number]
        assert (type(breed), type(age), type(count)) == (int, np.float32, int)
        assert (breed, age, note, count) == (number % 3, row["age"], row["note"], row["count"])
        assert tags.dtype == np.float32
        assert tags.tolist() == TAGS[number % 4].tolist()


class TestForms:
    @pytest.mark.parametrize("ending", [".tsv", ".jsonl", ".parquet"])  # and .csv by the command, below
    def test_files(self, ending: str, folder: Path) -> None:
        check(prepared(write(folder, ending), image="photo", targets=TARGETS, workers=1))

    @pytest.mark.parametrize("kind", [list, pandas.DataFrame, pyarrow.Table.from_pylist])
    def test_tables_in_memory(self, kind: Any, folder: Path) -> None:
        table, place = kind(ROWS), folder / "sets" / "my.records"
        options: dict[str, Any] = {"image": "photo", "targets": TARGETS, "workers": 1}
        for _ in range(2):
            assert recordzoo.prepare(table, folder, output=place, **options) == [place]
        check(place)
        assert ImageFolderRecord(place).samples[1] == (str(folder / "a.jpg"), 1)
        with pytest.raises(OtherSourceError, match="was made from another list than"):
            recordzoo.prepare(kind(ROWS[1:]), folder, output=place, **options)

    def test_lists_and_missing_values_in_rows(self, folder: Path) -> None:
        rows = [
            {"path": NAMES[0], "tags": ["b", "a"], "age": None, "code": "7"},
            {"path": NAMES[1], "tags": [], "age": 2, "code": "07"},
            {"path": NAMES[2], "age": float("nan"), "code": "x"},
        ]
        targets: dict[str, str | None] = {"tags": "multilabel", "age": "float", "code": None}
        for data, root in ((write(folder, ".jsonl", rows), None), (rows, folder), (pandas.DataFrame(rows), folder)):
            (path,) = recordzoo.prepare(data, root, output=folder / "my.records", targets=targets, refresh=True)
            reader = RecordReader(path)
            assert reader.array("tags").tolist() == [[1, 1], [0, 0], [0, 0]]
            np.testing.assert_array_equal(reader.array("age"), np.array([np.nan, 2, np.nan], np.float32))
            assert reader.manifest.fields["code"].names == ("07", "7", "x")

    def test_texts_of_digits_are_no_numbers_where_the_table_has_types(self, folder: Path) -> None:
        rows = [{"path": name, "label": f"{number}", "code": "5"} for number, name in enumerate(NAMES)]
        assert RecordReader(prepared(write(folder, ".jsonl", rows), workers=1)).manifest.classes == tuple("012345678")
        reader = RecordReader(prepared(write(folder, ".csv", rows), workers=1, refresh=True))
        assert (reader.manifest.classes, reader.array("code").tolist()) == (None, [5] * 9)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{"path": "a.jpg", "label": 1}\n[1]\n{"path"\n', r"line 2: a JSON list, not an object; line 3: no JSON"),
            ('{"path": "a.jpg", "label": {"bbox": [1]}}\n', r"line 1: the label '{\"bbox\": \[1\]}' is an object"),
            ('{"path": "a.jpg", "label": ["a,b"]}\n', r"line 1: 'label' holds a list with a comma in 'a,b'"),
        ],
    )
    def test_what_is_no_table(self, text: str, said: str, folder: Path) -> None:
        (folder / "table.jsonl").write_text(text)
        with pytest.raises(SourceError, match=said):
            prepared(folder / "table.jsonl")
        (folder / "table.parquet").write_bytes(b"PAR1 no table")
        with pytest.raises(SourceError, match="is no table, or damaged"):
            prepared(folder / "table.parquet", targets={"label": None})

    def test_tables_in_memory_need_root_and_output(self, folder: Path) -> None:
        with pytest.raises(ArgumentError, match="A list needs root"):
            recordzoo.prepare(ROWS, output=folder / "my.records")
        with pytest.raises(ArgumentError, match="A DataFrame needs root"):
            recordzoo.prepare(pandas.DataFrame(ROWS), folder)
        with pytest.raises(ArgumentError, match="Argument data is of type NoneType"):
            recordzoo.prepare(None)
        with pytest.raises(ArgumentError, match="columns of equal names"):
            recordzoo.prepare(pandas.DataFrame([[1, 2]], columns=["path", "path"]), folder, output=folder / "a.records")


class TestColumns:
    def test_names_and_splits_of_other_columns(self, folder: Path) -> None:
        rows = [{**row, "fold": f"fold {number % 2}", "id": f"id {number}"} for number, row in enumerate(ROWS)]
        path = write(folder, rows=[*rows, {**rows[0], "id": "again"}])
        columns: Any = {"image": "photo", "targets": {"age": None}, "split_column": "fold", "name_column": "id"}
        reader = RecordReader(prepared(path, workers=1, **columns))
        assert list(reader.names) == [*(f"id {number}" for number in range(9)), "again"]
        assert reader.split("fold-0").tolist() == [0, 2, 4, 6, 8, 9]
        assert reader.read("image", 9) == reader.read("image", 0) == (folder / NAMES[0]).read_bytes()
        assert "split" in reader.manifest.fields

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"targets": {"bred": None}}, r"no column 'bred' \(--target\); it has 'photo', .* Did you mean breed\?"),
            ({"targets": {"photo": "class"}}, "Column 'photo' is named twice"),
            ({"targets": ["breed"]}, "Argument targets is .*; it must be a dict"),
            ({"separator": ""}, "Argument separator is ''; it must be a text between"),
            ({"separator": "|"}, r"separator .* no target has several labels: name .* COLUMN:multilabel"),
            ({"image": "phto"}, r"no column 'phto' \(--image\)"),
            ({"name_column": "x"}, r"no column 'x' \(--name-column\)"),
        ],
    )
    def test_columns_that_are_none(self, options: dict[str, Any], said: str, folder: Path) -> None:
        with pytest.raises(ArgumentError, match=said):
            prepared(write(folder), **{"image": "photo", **options})

    def test_values_of_another_kind_are_named_with_their_lines(self, folder: Path) -> None:
        rows = [{"path": "a.jpg", "age": "1.5", "n": "3"}, {"path": "b.webp", "age": "old", "n": "2.5"}]
        rows += [{"path": "a.jpg", "age": "1e399", "n": ""}]
        path = write(folder, rows=rows)
        for targets, said in (
            ({"age": "float"}, "line 3: the age 'old' is no number; line 4: the age '1e399' fits no type of numbers"),
            ({"n": "int"}, "line 3: the n '2.5' is no whole number; line 4: no n"),
        ):
            with pytest.raises(SourceError, match=said):
                prepared(path, targets=targets)

    @pytest.mark.parametrize(
        ("cells", "dtype"),
        [
            (["8.44", "0.1", "", "1e38", "-inf", "16777216"], np.float32),
            (["8.44", "16777217.5", ""], np.float64),
            (["0.1", "1e39"], np.float64),
            (["0.123456789"], np.float64),
        ],
    )
    def test_floats_keep_their_digits(self, cells: list[str], dtype: type, folder: Path) -> None:
        """As pandas reads them; float32, which models want, only if it has the same digits."""
        path = write(folder, rows=[{"path": NAMES[0], "age": cell, "weight": cell} for cell in cells])
        table = pandas.read_csv(path)
        for name in ("age", "weight"):
            dataset = ImageFolderRecord(prepared(path, targets={"age": "float"}, workers=1), target_type=name)
            found = [target for _, target in dataset]
            assert {type(each) for each in found} == {dtype}
            np.testing.assert_array_equal([float(str(each)) for each in found], table[name])
            dataset.transform = v2.Compose(TO_TENSOR)
            (batch,) = RecordLoader(dataset, len(found), num_workers=0)
            assert batch[1].dtype is default_collate(found).dtype

    def test_another_choice_of_columns_is_another_set(self, folder: Path) -> None:
        path, table = table_set(folder), folder / "table.csv"
        assert prepared(table) == path  # as it was made
        with pytest.raises(OtherSourceError, match="was written with columns --image photo --target breed:class "):
            prepared(table, image="photo", targets={"age": "float"})
        again = prepared(table, image="photo", targets={"age": "float"}, refresh="if-changed", workers=1)
        assert RecordReader(again).manifest.default_target == "age"


class TestMissingFiles:
    def test_rows_without_a_file_are_left_out(self, folder: Path) -> None:
        path = write(folder, rows=[{**ROWS[0], "photo": "gone.jpg"}, *ROWS])
        with pytest.raises(NotPreparedError, match=r"1 of the 10 .*gone\.jpg \(line 2: No such file or directory\)"):
            prepared(path, image="photo", targets=TARGETS)
        made = prepared(path, image="photo", targets=TARGETS, on_error="skip", workers=1)
        check(made)
        assert RecordReader(made).manifest.skipped == {"gone.jpg": "No such file or directory"}
        assert prepared(path, image="photo", targets=TARGETS, on_error="skip") == made


class TestOpening:
    def test_the_first_target_is_the_default(self, folder: Path) -> None:
        path = table_set(folder)
        dataset: Any = recordzoo.open(path)
        assert (dataset[1][1], dataset.classes, dataset.targets) == (1, ["a", "b", "c"], [0, 1, 2] * 3)
        assert len(recordzoo.open(path, split="val", target_type="age")) == 5

    @pytest.mark.parametrize(
        ("target_type", "target", "classes"),
        [
            ("age", np.float32(0.25), []),
            ("note", "note 1", []),
            (["age", "breed"], (np.float32(0.25), 1), ["a", "b", "c"]),
            (["count"], (10,), []),
        ],
    )
    def test_others_are_chosen(self, target_type: Any, target: Any, classes: list[str], folder: Path) -> None:
        dataset = ImageFolderRecord(table_set(folder), target_type=target_type)
        assert (dataset[1][1], dataset.classes, dataset.target_type) == (target, classes, target_type)
        assert type(dataset[1][1]) is type(target)
        assert repr(dataset.samples[1]) == repr((str(folder / "a.jpg"), target))
        few = ImageFolderRecord(dataset.root, target_type=target_type, is_valid_file=lambda path: path.endswith("jpg"))
        assert (len(few), few[0][1]) == (3, target)

    def test_fields_that_are_none(self, folder: Path) -> None:
        path = table_set(folder)
        for target_type in ("bred", ["age", "bred"], "image"):
            with pytest.raises(ArgumentError, match=r"target_type. Valid values .* are age, breed, count, note, tags"):
                ImageFolderRecord(path, target_type=target_type)
        with pytest.raises(ArgumentError, match="must name at least one"):
            ImageFolderRecord(path, target_type=[])
        with pytest.raises(ArgumentError, match="is not a record set"):
            ImageFolderRecord(folder, target_type="age")

    def test_a_view_of_classes_of_another_target(self, folder: Path) -> None:
        rows = [{**row, "color": "ba"[number % 2]} for number, row in enumerate(ROWS)]
        targets = {"breed": "class", "color": "class"}
        path = prepared(write(folder, rows=rows), image="photo", targets=targets, workers=1)
        shown: Any = recordzoo.subset(recordzoo.open(path, target_type="color"), classes=["b"])
        assert (shown.classes, shown.targets) == (["b"], [0] * 5)
        assert [Path(name).name for name, _ in shown.samples] == [Path(name).name for name in NAMES[::2]]

    def test_a_class_by_another_name_is_exported_as_the_label(self, folder: Path) -> None:
        recordzoo.export(table_set(folder), folder / "tree", to="folder", split="train")
        found = {path.name: path.parent.name for path in (folder / "tree").rglob("*.*") if path.suffix != ".json"}
        assert found == {Path(row["photo"]).name: row["breed"] for row in ROWS if row["split"] == "train"}

    def test_fields_of_converted_samples(self, folder: Path) -> None:
        samples = [{"image": (folder / name).read_bytes(), "caption": name, "size": 0.5} for name in NAMES]
        path = recordzoo.convert(samples, folder / "own.records", workers=1)
        dataset = ImageFolderRecord(path, target_type=["caption", "size"])
        assert dataset[1][1] == ("a.jpg", np.float32(0.5))
        with pytest.raises(OtherSourceError, match="target_type chooses one of caption, size"):
            ImageFolderRecord(path)

    def test_of_merged_sets(self, folder: Path) -> None:
        path = prepared(write(folder), image="photo", targets={"age": "float", "breed": "class"}, workers=1)
        both = recordzoo.merge([path, path], folder / "both.records")
        dataset: Any = recordzoo.open(both)
        assert dataset.targets == [row["age"] for row in ROWS] * 2
        assert (type(dataset[0][1]), dataset.classes) == (np.float32, [])


TO_TENSOR = [v2.ToImage(), v2.Resize((8, 8)), v2.ToDtype(torch.float32, scale=True)]


class TestBatches:
    @pytest.mark.parametrize("target_type", ["age", "tags", "note", ["breed", "age", "tags", "note"], None])
    @pytest.mark.parametrize("transform", [v2.Compose(TO_TENSOR), v2.Compose([lambda image: image, *TO_TENSOR])])
    def test_they_are_those_of_torch(self, transform: Any, target_type: Any, folder: Path) -> None:
        dataset = ImageFolderRecord(table_set(folder), transform=transform, target_type=target_type)
        ((_, found),) = RecordLoader(dataset, batch_size=9)
        expected = default_collate([(number, dataset[number][1]) for number in range(9)])[1]
        several = isinstance(target_type, list)
        assert type(found) is type(expected)
        for one, other in zip(found, expected, strict=True) if several else [(found, expected)]:
            assert type(one) is type(other)
            if isinstance(one, torch.Tensor):
                assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())
            else:
                assert one == other


def test_command_line(folder: Path) -> None:
    write(folder)
    words = [word for name, kind in TARGETS.items() for word in ("--target", f"{name}:{kind}")]
    result = run("prepare", "table.csv", "--image", "photo", *words, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "breed (class, 3 names: a, b, c), age (float), tags (multilabel, 3 names: big" in result.stderr
    assert "further fields: weight (float); splits: val, train" in result.stderr
    check(folder / "table.records")
    wrong = run("prepare", "table.csv", "--target", "breed:clas", cwd=REPOSITORY)
    assert (wrong.returncode, "Valid kinds are class, int, float, multilabel, text" in wrong.stderr) == (2, True)


def test_whole_floats_are_whole_numbers(tmp_path: Path) -> None:
    """pandas writes 0.0 to 10.0 for whole numbers, if one of them was missing once."""
    write_images(tmp_path)
    labels = [0, 1, 2, 3, 5, 8, 9, 10, 10]
    pandas.DataFrame({"path": NAMES, "label": [*map(float, labels)]}).to_csv(tmp_path / "list.csv", index=False)
    for kind in ("class", "int"):
        made = prepared(tmp_path / "list.csv", tmp_path / f"{kind}.records", targets={"label": kind}, workers=1)
        assert RecordReader(made).array("label").tolist() == labels
        assert recordzoo.open(made).classes == []


@pytest.mark.parametrize("columns", [{}, {"caption": "a picture"}])
def test_a_set_without_a_target(columns: Mapping[str, str], tmp_path: Path) -> None:
    """Without any other field the target is -1, as for images without classes; otherwise one must be chosen."""
    write_images(tmp_path)
    rows = [{"image": (tmp_path / name).read_bytes(), **columns} for name in NAMES]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    made = prepared(tmp_path / "t.parquet", workers=1)
    if columns:
        with pytest.raises(OtherSourceError, match=r'has no "target".* target_type chooses one of caption'):
            recordzoo.open(made)
        assert recordzoo.open(made, target_type="caption")[0][1] == "a picture"
        return
    dataset = recordzoo.open(made, transform=v2.Compose([v2.Resize((8, 8)), v2.ToImage()]))
    assert (len(dataset), dataset[0][1], dataset.classes, set(dataset.targets)) == (len(NAMES), -1, [], {-1})
    ((_, targets),) = RecordLoader(dataset, len(NAMES))
    assert targets.tolist() == [-1] * len(NAMES)


class TestKaggle:
    """Tables as competitions have them: ids, images in another folder, labels with a bar, pandas's index."""

    def test_ids_of_images_in_another_folder(self, tmp_path: Path) -> None:
        for folder in ("test", "train"):
            (tmp_path / folder).mkdir()
            for number in range(3):
                Image.new("RGB", (4, 5)).save(tmp_path / folder / f"id{number}.png")
        (tmp_path / "train.csv").write_text("image_id,labels\nid0,1\nid1,0\nid2,1\n")
        said = run("prepare", "train.csv", cwd=tmp_path).stderr
        assert "id0 (line 2: No such file" in said
        assert "--image-dir DIR, --image-suffix ENDING" in said
        options = ["--image-dir", "train", "--image-suffix", ".png"]
        for is_said in (True, False):
            done = run("prepare", "train.csv", *options, cwd=tmp_path)
            assert (done.returncode, "made in" in done.stderr) == (0, is_said)
        assert [label for _, label in recordzoo.open(tmp_path / "train.records").samples] == [1, 0, 1]
        assert list(RecordReader(tmp_path / "train.records").names) == [f"id{number}.png" for number in range(3)]

    @pytest.mark.parametrize("columns", ["xmin,ymin,xmax,ymax", "x1,y1,x2,y2", "X,Y,Width,Height", "BBox,a,b,c"])
    def test_a_table_of_boxes_has_no_classes_of_images(self, columns: str, tmp_path: Path) -> None:
        write_images(tmp_path)
        path = tmp_path / "list.csv"
        path.write_text(f"path,{columns},label\n" + "".join(f"{name},1,2,3,4,a\n" for name in (*NAMES, NAMES[0])))
        with pytest.raises(SourceError, match="looks like a table of boxes"):
            prepared(path, workers=1)
        assert len(RecordReader(prepared(path, workers=1, targets={"label": None}))) == len(NAMES) + 1
        path.write_text(f"path,{columns},label\n" + "".join(f"{name},1,2,3,4,a\n" for name in NAMES))  # a box each
        assert len(RecordReader(prepared(path, workers=1, refresh=True))) == len(NAMES)

    def test_images_with_two_labels(self, tmp_path: Path) -> None:
        write_images(tmp_path)
        rows = [(NAMES[0], "a"), (NAMES[1], "b"), (NAMES[0], "b"), *((name, f"a {name}") for name in NAMES[2:] * 3)]
        (tmp_path / "list.csv").write_text("path,label\n" + "".join(f"{name},{label}\n" for name, label in rows))
        assert "; 1 image has rows with different labels: each" in run("prepare", "list.csv", cwd=tmp_path).stderr

    def test_several_labels_in_a_cell(self, tmp_path: Path) -> None:
        write_images(tmp_path)
        labels = ["|".join(label) for label in ("ba", "a", "c", "c", "b", "acb", "c", "a", "b")]
        pandas.DataFrame({"path": NAMES, "label": labels}).to_csv(tmp_path / "list.csv", index=False)
        said = run("prepare", "list.csv", cwd=tmp_path).stderr
        assert "(class, 5 names: a, a|c|b, b and 2 more; another kind (class, int, float, multilabel, text): " in said
        options = ["--target", "label:multilabel", "--separator", "|", "--refresh"]
        assert "label (multilabel, 3 names: a, b, c)" in run("prepare", "list.csv", *options, cwd=tmp_path).stderr
        reader = RecordReader(tmp_path / "list.records")
        assert reader.manifest.fields["label"].names == ("a", "b", "c")
        assert reader.array("label")[5].tolist() == [1, 1, 1]

    def test_whole_numbers_that_may_be_no_classes(self, tmp_path: Path) -> None:
        write_images(tmp_path)
        pandas.DataFrame({"path": NAMES, "age": range(30, 39), "": ""}).to_csv(tmp_path / "list.csv")  # with its index
        said = run("prepare", "list.csv", cwd=tmp_path).stderr
        assert "a column without a name, of row numbers or of empty cells, is left out" in said
        assert [label for _, label in recordzoo.open(tmp_path / "list.records").samples] == list(range(30, 39))
        assert "target from 'age' (class, 30 to 38; another kind " in said
        said = run("prepare", "list.csv", "--target", "age:class", "--refresh", cwd=tmp_path).stderr
        assert "age (class, 30 to 38)" in said
