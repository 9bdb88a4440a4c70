"""What list files say in each of their forms, and what is said of those that say nothing."""

import csv
import io
import os
import re
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recordzoo.base.text import NUM_SHOWN
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.own.columns import USUAL, Columns
from recordzoo.own.lists import ListRecipe


class Listed:
    """A list as it was read: its targets, and further columns by how they are stored."""

    def __init__(self, path: Path, asked: Columns = USUAL) -> None:
        file = ListRecipe(columns=asked).read(path)
        self.names, self.lines, self.base, self.splits = file.names, file.lines, file.base, file.splits
        self.digest = file.digest
        first, *others = file.columns.items()
        self.targets: Any = first[1].values  # Any: an array of either dtype
        names = first[1].spec.names
        self.classes = None if names is None else list(names)
        self.arrays = {name: field.values for name, field in others if isinstance(field.values, np.ndarray)}
        self.texts = {name: field.values for name, field in others if not isinstance(field.values, np.ndarray)}


def read(tmp_path: Path, name: str, text: str | bytes, asked: Columns = USUAL) -> Listed:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Listed(path, asked)


def refused(tmp_path: Path, name: str, text: str | bytes) -> str:
    """Read a list that is none; returns what the message says after its path."""
    with pytest.raises(SourceError) as caught:
        read(tmp_path, name, text)
    path = str(tmp_path / name)
    assert caught.value.path == path
    assert str(caught.value).startswith(path)
    return str(caught.value).removeprefix(path)


def rows_of(listed: Listed) -> list[tuple[str, str | int]]:
    labels = [listed.classes[target] if listed.classes else target for target in listed.targets.tolist()]
    return list(zip(listed.names, labels, strict=True))


def test_what_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"list\.lst is no list: .* \.txt, \.csv, \.tsv"):
        Listed(tmp_path / "list.lst")
    with pytest.raises(NotPreparedError, match=r"list\.txt: .* cannot be read \(No such file"):
        Listed(tmp_path / "list.txt")
    os.mkfifo(tmp_path / "fifo.csv")  # its reader waited for ever
    with pytest.raises(NotPreparedError, match="no regular file"):
        Listed(tmp_path / "fifo.csv")


@pytest.mark.parametrize(("ending", "header", "separator"), [(".txt", "", " "), (".csv", "path,label\n", ",")])
def test_memory_does_not_grow_by_an_object_a_line(ending: str, header: str, separator: str, tmp_path: Path) -> None:
    """A million lines took 0.6 GB to read: text, rows, lists of cells, all at once."""
    path = tmp_path / f"many{ending}"
    path.write_text(header + "".join(f"photos/{n % 250:030d}.jpg{separator}{n % 100}\n" for n in range(5000)))
    tracemalloc.start()
    try:
        listed = Listed(path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(listed.names), listed.names[4999], listed.targets[4999]) == (5000, f"photos/{249:030d}.jpg", 99)
    assert kept < 5000 * 50
    assert peak < path.stat().st_size * 2 + 5000 * 60


class TestPlain:
    def test_path_and_label(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.txt", "a b.jpg  dog\n  c.jpg cat \n/abs/d e.jpg\tred dog\n")
        assert rows_of(listed) == [("a b.jpg", "dog"), ("c.jpg", "cat"), ("/abs/d e.jpg", "red dog")]
        assert (listed.classes, list(listed.lines), listed.base) == (["cat", "dog", "red dog"], [1, 2, 3], tmp_path)

    def test_blank_lines_and_comments_are_passed_over(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.txt", "# all\n\n \t \na.jpg 1\n#b.jpg 2\nsub/#c.jpg 3\n")
        assert (rows_of(listed), list(listed.lines)) == ([("a.jpg", 1), ("sub/#c.jpg", 3)], [4, 6])

    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
    def test_marks_and_line_ends_of_all_systems(self, mark: bytes, end: bytes, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.txt", mark + end.join([b"\xc3\xa4.jpg 1", b"b.jpg 2"]))
        assert rows_of(listed) == [("ä.jpg", 1), ("b.jpg", 2)]

    def test_what_is_wrong_is_said_all_at_once(self, tmp_path: Path) -> None:
        text = "one.jpg\na.jpg 1\n\t3\nb.jpg\t\nc.jpg\t1\tx\nd\0.jpg 1\ne.jpg,7\n"
        assert refused(tmp_path, "list.txt", text) == (
            " cannot be used: line 1: no label (a line is: path, space or tab, label); line 3: no path; "
            "line 4: no label; line 5: 3 columns, not 2; line 6: a NUL byte; "
            "line 7: no label (a line is: path, space or tab, label; "
            "with commas, the list's name must end with .csv)."
        )

    def test_cells_are_cut_and_the_first_of_many_faults_shown(self, tmp_path: Path) -> None:
        text = f"path,label,class_name,split\na,0,{'x' * 9999},{'/' * 9999}\nb,0,{'y' * 9999},\n"
        assert len(refused(tmp_path, "list.csv", text)) < 1000
        message = refused(tmp_path, "list.txt", "x\n" * (NUM_SHOWN + 5))
        assert (message.count("no label"), message.endswith("; and 5 more.")) == (1, True)

    def test_what_is_not_utf_8(self, tmp_path: Path) -> None:
        message = refused(tmp_path, "list.txt", b"a.jpg 1\ncaf\xe9.jpg 2\nb.jpg 3\n\xff 1\n")
        assert "line 2: byte 4 (0xe9) is not UTF-8; save it as UTF-8; line 4: byte 1 (0xff)" in message
        for code in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
            message = refused(tmp_path, "list.txt", "\ufeffa.jpg 1\n".encode(code))
            assert f"line 1: the file is {code[:6].upper()}; save it as UTF-8" in message

    @pytest.mark.parametrize(("name", "text"), [("list.txt", "# nothing\n"), ("list.TSV", "path\tlabel\n\n")])
    def test_a_list_of_nothing(self, name: str, text: str, tmp_path: Path) -> None:
        assert "the list names no files" in refused(tmp_path, name, text)


class TestTables:
    def test_commas(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", 'path,label\n"a, b.jpg", dog \n\n,\nc.jpg,"red ""cat"""\n')
        assert (rows_of(listed), list(listed.lines)) == ([("a, b.jpg", "dog"), ("c.jpg", 'red "cat"')], [2, 5])

    @pytest.mark.parametrize("path_column", ["path", "Image", "FILE", "filename", "filepath"])
    @pytest.mark.parametrize("label_column", ["label", "Class", "target", "category"])
    def test_names_of_the_columns(self, path_column: str, label_column: str, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", f"\ufeff{label_column},{path_column}\n3,a.jpg\n")
        assert rows_of(listed) == [("a.jpg", 3)]
        assert (listed.arrays, listed.texts) == ({}, {})

    def test_of_two_possible_columns_the_plainer_name_counts(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", "class,label,file,path\nbird,3,x,a.jpg\n")
        assert rows_of(listed) == [("a.jpg", 3)]
        assert listed.texts == {"class": ["bird"], "file": ["x"]}

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            *((text, "") for text in ("a.jpg,3\n", "", "path,lable,x\na.jpg,3,4\n")),
            ("path;label\na.jpg;3\n", ". Write commas between the columns, not semicolons or tabs. Such as"),
            ("path,name,x1,x2\na.jpg,cat,1,2\n", ". It looks like a table of boxes: boxes are read from COCO's JSON"),
            ("path,cat,dog\na.jpg,1,0\n", ". If 'cat', 'dog' mark the labels of an image with 1, write them into one"),
        ],
    )
    def test_without_a_header_it_is_said_what_is_wanted(self, text: str, hint: str, tmp_path: Path) -> None:
        message = refused(tmp_path, "list.csv", text)
        assert hint in message
        assert message.startswith(", line 1: the first line must name the columns, one of them '")
        assert (repr(text.split("\n")[0].split(",")[-1]) if text else "nothing") in message

    def test_what_is_wrong_is_said_all_at_once(self, tmp_path: Path) -> None:
        text = 'path,label,Größe!,,image,日本,size,Size\na,1\n,2,1,1,1,1,1,1\nb,,1,1,1,1,1,1\n"c\nd,1'
        assert re.sub("cannot become a field: [^;]*", "is no field", refused(tmp_path, "list.csv", text)) == (
            " cannot be used: line 1: column 4, '', is no field; line 1: column 5, 'image', is no field; "
            "line 1: column 6, '日本', is no field; line 1: column 8, 'Size', is no field; "
            "line 2: 2 columns, not 8; line 3: no path; line 4: no label; "
            "line 5: unexpected end of data (a quotation mark that is not closed?)."
        )

    def test_a_record_over_several_lines_counts_from_its_first(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", 'path,label,note\na,1,"x\ny"\nb,2,z\n')
        assert list(listed.lines) == [2, 4]
        assert listed.texts == {"note": ["x\ny", "z"]}
        assert "line 4: 2 columns" in refused(tmp_path, "list.csv", 'path,label,note\na,1,"x\ny"\nb,2\n')


class TestLabels:
    def test_whole_numbers_stay_what_they_are(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.txt", "a 007\nb -3\nc +8\nd 9223372036854775807\n")
        assert (listed.targets.tolist(), listed.classes) == ([7, -3, 8, (1 << 63) - 1], None)
        assert listed.targets.dtype == np.int64

    @pytest.mark.parametrize(("first", "second"), [("007", "7"), ("7", "+7"), ("0", "-0")])
    def test_two_spellings_of_one_number_are_refused(self, tmp_path: Path, first: str, second: str) -> None:
        message = refused(tmp_path, "list.txt", f"a {first}\nb {second}\nc {first}\nd {second}\n")
        assert f"lines 2, 4: the labels {second!r} here and {first!r} above are the same number" in message
        listed = read(tmp_path, "list.txt", f"a {first}\nb {second}\nc x\n")
        assert listed.classes == sorted([first, second, "x"])

    def test_too_large_or_missing(self, tmp_path: Path) -> None:
        assert "the label '9223372036854775808' has more" in refused(tmp_path, "list.txt", f"a 1\nb {1 << 63}\n")
        assert "name of a class has 5,000 letters" in refused(tmp_path, "list.txt", f"a {'x' * 5000}\n")
        assert "line 2: no label." in refused(tmp_path, "list.txt", "a 1\nb NA\nc 3\n")
        assert "no label (for NaN, pass --target label:float)" in refused(tmp_path, "list.txt", "a 1.5\nb NA\n")

    def test_class_names_beside_numbers_are_a_column_like_any_if_there_are_gaps(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", "path,label,class_name\na,1,dog\nb,0,cat\nc,1,dog\n")
        assert (listed.targets.tolist(), listed.classes, listed.texts) == ([1, 0, 1], ["cat", "dog"], {})
        listed = read(tmp_path, "list.csv", "path,label,class_name\na,1,dog\nb,2,cat\n")
        assert (listed.targets.tolist(), listed.classes, listed.texts) == ([1, 2], None, {"class_name": ["dog", "cat"]})

    def test_class_names_that_disagree(self, tmp_path: Path) -> None:
        message = refused(tmp_path, "list.csv", "path,label,class_name\na,0,dog\nb,1,dog\nc,0,cat\nd,1,\n")
        assert "line 3: 'dog' is label 1 here and label 0 above; line 4: label 0 is called 'cat' here" in message
        assert "line 5: no class_name" in message


class TestFurtherColumns:
    # Any: the values of one column.
    @pytest.mark.parametrize(
        ("cells", "values"),
        [
            (["1", "-2", "+3"], np.array([1, -2, 3], np.int64)),
            ([".5", "-inf", "NaN"], np.array([0.5, -np.inf, np.nan])),
            (["1.5", "NA", "3"], np.array([1.5, np.nan, 3])),  # the words and infinities as pandas reads them
            (["1", "None", "-Infinity"], np.array([1, np.nan, -np.inf])),
            (["1", "2", "x"], None),
            (["1_0", "2", "3"], None),
            (["012", "2", "3"], None),  # a postcode
            (["0", "-0.5", "0.0"], np.array([0, -0.5, 0])),
            (["٣", "2", "3"], None),
        ],
    )
    def test_numbers_and_other_text(self, cells: list[str], values: Any, tmp_path: Path) -> None:
        lines = "".join(f"{number}.jpg,1,{cell}\n" for number, cell in enumerate(cells))
        listed = read(tmp_path, "list.csv", f"path,label,My Value!\n{lines}")
        if values is None:
            assert (listed.arrays, listed.texts) == ({}, {"my_value": cells})
        else:
            assert listed.texts == {}
            np.testing.assert_array_equal(pandas.read_csv(tmp_path / "list.csv")["My Value!"], values)
            assert listed.arrays["my_value"].dtype == values.dtype
            np.testing.assert_array_equal(listed.arrays["my_value"], values)

    @pytest.mark.parametrize(
        ("kind", "cells", "wrong"),
        [
            (None, ["1", "2", str(1 << 63)], str(1 << 63)),
            (None, ["1", "", str((1 << 53) + 1)], str((1 << 53) + 1)),  # a float would lose the last digit
            (None, ["0.5", "-1e999"], "-1e999"),
            (None, ["1" * 5000], "1" * 80),  # int() would refuse more
            ("float", ["0.5", str((1 << 53) + 1)], str((1 << 53) + 1)),
            ("class", ["1.0", "1e999"], "1e999"),
        ],
    )
    def test_numbers_that_fit_no_type(self, kind: str | None, cells: list[str], wrong: str, tmp_path: Path) -> None:
        """pandas reads some of them as objects, infinity or a neighbour."""
        lines = "".join(f"{number}.jpg,1,{cell}\n" for number, cell in enumerate(cells))
        asked = USUAL if kind is None else Columns(targets={"value": kind})
        with pytest.raises(SourceError, match=rf"line {len(cells) + 1}: the value '?{re.escape(wrong)}'? (fits|is no)"):
            read(tmp_path, "list.csv", f"path,label,value\n{lines}", asked)
        rows = "".join(f'{{"path": "{n}", "label": 1, "value": {cell or "null"}}}\n' for n, cell in enumerate(cells))
        with pytest.raises(SourceError, match=rf"line {len(cells)}: (the value '?|no JSON \()"):
            read(tmp_path, "list.jsonl", rows, asked)

    def test_splits(self, tmp_path: Path) -> None:
        listed = read(tmp_path, "list.csv", "path,label,Split\na,1,train\nb,1,VAL 2\nc,1,\nd,1,Train\n")
        assert {name: found.tolist() for name, found in listed.splits.items()} == {"train": [0, 3], "val-2": [1]}
        message = refused(tmp_path, "list.csv", "path,label,split\na,1,train\nb,1,a/b\n")
        assert "line 3: 'a/b' cannot be the name of a split" in message


class TestDigest:
    def test_it_is_the_same_however_the_list_is_written(self, tmp_path: Path) -> None:
        one = read(tmp_path, "list.txt", "a.jpg x\nb.jpg y\n")
        assert read(tmp_path, "list.txt", "# c\na.jpg\tx\r\n\nb.jpg  y").digest == one.digest
        assert read(tmp_path, "list.csv", 'path,label\n"a.jpg",x\nb.jpg,y\n').digest == one.digest

    @pytest.mark.parametrize(
        "text",
        [
            "path,label\na.jpg,x\nb.jpg,z\n",
            "path,label\nb.jpg,y\na.jpg,x\n",
            "path,label\na.jpg,x\nb.jpg,y\nb.jpg,y\n",
            "label,path\na.jpg,x\nb.jpg,y\n",
            "path,label,v\na.jpg,x,1\nb.jpg,y,2\n",
        ],
    )
    def test_and_another_for_another_list(self, text: str, tmp_path: Path) -> None:
        digests = {read(tmp_path, "list.csv", t).digest for t in ("path,label\na.jpg,x\nb.jpg,y\n", text)}
        assert len(digests) == 2


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\n", exclude_categories=("Cs", "Zs", "Zl", "Zp", "Cc")),
    min_size=1,
    max_size=8,
)
PATHS = st.lists(CELLS, min_size=1, max_size=3).map(" ".join)


@given(st.lists(st.tuples(PATHS, CELLS), min_size=1, max_size=6))
@example([("a b", "1"), ("#", "2"), ('"', '"')])
def test_any_list_comes_back(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain_rows = [(f"./{path}", label) for path, label in rows]
        (folder / "list.txt").write_text("".join(f"{path} {label}\n" for path, label in plain_rows), "utf-8")
        (folder / "list.csv").write_text(table(["path", "label", "note"], [(p, "1", n) for p, n in rows], ","), "utf-8")
        (folder / "list.tsv").write_text(table(["label", "path"], [(n, p) for p, n in rows], "\t"), "utf-8")
        listed = Listed(folder / "list.txt")
        assert listed.names == [path for path, _ in plain_rows]
        labels = [label for _, label in rows]
        if listed.classes is None:
            assert listed.targets.tolist() == list(map(int, labels))
        else:
            assert [listed.classes[target] for target in listed.targets] == labels
            assert listed.classes == sorted(set(labels))
        commas = Listed(folder / "list.csv")
        assert commas.names == [path for path, _ in rows]
        assert "note" in commas.arrays or commas.texts["note"] == labels
        tabs = Listed(folder / "list.tsv")
        assert (tabs.names, tabs.targets.tolist()) == (commas.names, listed.targets.tolist())


@given(st.binary(max_size=200), st.sampled_from([".txt", ".csv", ".tsv"]), st.booleans())
@example(b"path,label\n" + b'"', ".csv", False)
@example(b"\xef\xbb\xbf", ".txt", False)
def test_any_bytes_are_a_list_or_an_error_that_says_where(data: bytes, ending: str, header: bool) -> None:
    separator = b"\t" if ending == ".tsv" else b","
    data = b"path" + separator + b"label\n" + data if header else data
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"list{ending}"
        path.write_bytes(data)
        lines: list[int]
        try:
            listed = Listed(path)
            lines = list(listed.lines)
            assert len(listed.names) == len(listed.targets) == len(lines)
            assert all(listed.names)
        except SourceError as err:
            lines = err.details["lines"]
        assert lines
        assert all(1 <= line <= data.count(b"\n") + data.count(b"\r") + 1 for line in lines)


def table(header: list[str], rows: list[tuple[str, ...]], separator: str) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows])
    return buffer.getvalue()
