"""The page of the benchmarks against others: made of the stored numbers, its charts of the numbers of its tables."""

import ast
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks import files_or_records, recipes, recipes_page, scaling, zoo
from benchmarks.object_storage import page as object_storage
from benchmarks.peers import __main__ as peers
from benchmarks.peers import page
from benchmarks.peers.rows import ROWS
from benchmarks.sections import replace_section, write_section
from benchmarks.svg import LABEL_PX, WIDTH, draw
from recordzoo.bench.chart import Group

PHONE_PX = 358
"""What a page of 390 pixels leaves for a picture."""

NUMBERS = page.NUMBERS
CHARTS = sorted(name for name in page.render() if name.endswith(".svg"))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_page_and_its_charts_are_those_of_the_stored_numbers() -> None:
    rendered = page.render() | object_storage.render() | recipes_page.render()
    if scaling.NUMBERS.exists():
        rendered |= scaling.charts(json.loads(scaling.NUMBERS.read_text(encoding="utf-8")))
    for name, text in rendered.items():
        assert (page.DOCS / name).read_text(encoding="utf-8") == text, f"{name} is stale"
    assert {path.name for path in page.DOCS.glob("benchmarks-*.svg")} == {n for n in rendered if n.endswith(".svg")}
    # Those of `make bench-formats`, which measures and writes at once.
    formats = {"benchmarks-formats-bytes.png", "benchmarks-formats-images.png"}
    assert {path.name for path in page.DOCS.glob("benchmarks-*.png")} == formats


def test_a_section_is_replaced_and_the_others_stay() -> None:
    page = "# Title\n\n## One\n\nold\n\n## Two\n\nstays\n"
    replaced = replace_section(page, "## One", "\nnew\n")
    assert replaced == "# Title\n\n## One\n\nnew\n\n## Two\n\nstays\n"
    assert replace_section(replaced, "## One", "\nnew\n") == replaced
    added = replace_section(page, "## Three", "\nadded\n")
    assert added == f"{page}\n## Three\n\nadded\n"
    assert replace_section(added, "## Two", "\nother\n").endswith("other\n\n## Three\n\nadded\n")


@pytest.mark.parametrize(("script", "name"), [(files_or_records, "benchmarks.md"), (scaling, "benchmarks-loader.md")])
def test_a_section_is_that_of_its_stored_numbers(script: Any, name: str, tmp_path: Path) -> None:
    """Where there are any: numbers of a script that was not run yet are of no machine."""
    if not script.NUMBERS.exists():
        return
    copy = tmp_path / name
    before = (page.DOCS / name).read_text(encoding="utf-8")
    copy.write_text(before, encoding="utf-8")
    write_section(copy, script.HEADING, script.section(json.loads(script.NUMBERS.read_text(encoding="utf-8"))))
    assert copy.read_text(encoding="utf-8") == before


def test_files_and_records_are_compared_with_the_first_reader() -> None:
    def row(measured: str, *values: float) -> dict[str, Any]:
        return {"measured": measured, "repeats": 3, "medians": dict(zip(files_or_records.READERS, values, strict=True))}

    rows = {"cold": row("first epoch", 400.0, 1000.0, 1250.0), "start": row("first batch", 6.0, 5.0, 0.5)}
    text = files_or_records.section({"photos": "3 photographs", "machine": "a machine", "cores": 2, "rows": rows})
    assert "| cold | 400/s | 1,000/s (2.50x) | 1,250/s (3.12x) |" in text
    assert "| start | 6.00 s | 5.00 s (1.20x) | 0.50 s (12.00x) |" in text


def test_scaling_is_relative_to_one_worker() -> None:
    found = {
        "repeats": 3,
        "rates": {"RecordLoader, exact": {"1": 500.0, "2": 900.0}},
        "problems": {"FFCV": "not installed"},
    }
    stored = {"photos": "3 photographs", "machine": "a machine", "cores": 2, "rows": {"originals": found}}
    text = scaling.section(stored)
    assert "| RecordLoader, exact | 500 (1.00x) | 900 (1.80x) |\n| FFCV | not installed | |" in text
    ((name, svg),) = scaling.charts(stored).items()
    assert f"({name})" in text
    assert texts(svg)[1:] == ["RecordLoader, exact: 1", "500  1.00x", "RecordLoader, exact: 2", "900  1.80x"]


@pytest.mark.parametrize("name", scaling.TREES)
@pytest.mark.parametrize("workers", [1, 8])
def test_each_loader_is_given_the_same_files_and_workers(name: str, workers: int) -> None:
    row = scaling.row(name, workers)
    assert row.work.workers == workers
    assert {each.tree for each in row.contestants} == {scaling.TREES[name][workers > 4]}


@pytest.mark.parametrize("name", [name for name in CHARTS if name != "benchmarks-storage.svg"])
def test_a_chart_says_what_its_table_says(name: str) -> None:
    text = page.render()[page.PAGE.name]
    section = next(part for part in text.split("\n## ") if f"(`{name[len('benchmarks-') : -len('.svg')]}`)" in part)
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d.]+x) \|", section, re.MULTILINE)
    assert len(rows) > 0
    shown = texts(page.render()[name])
    assert shown[1:] == [cell for label, speed, times in rows for cell in (label, f"{speed}  {times}")]


def test_the_page_opens_with_what_its_reader_asks() -> None:
    text = page.render()[page.PAGE.name]
    opening = text.partition("\n## ")[0]
    assert "benchmarks-fast.svg" in opening
    for peer in ("ImageFolder", "FFCV", "DALI"):
        assert peer in opening
    assert "arget" not in opening
    assert text.index("## What we aimed at") > text.index("## The bytes alone")


def test_object_storage_is_compared_with_the_link_and_with_local_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "DOCS", tmp_path)
    monkeypatch.setattr(object_storage, "NUMBERS", tmp_path / "numbers.json")
    settings = {
        "photos": "3 real photographs",
        "num_photos": 5000,
        "num_bytes": 500e6,
        "shard_bytes": 16 << 20,
        "latency_s": 0.02,
        "link_bytes_per_s": 100e6,
    }
    numbers = object_storage.Numbers(settings)
    numbers.add("link", 100e6)
    for name, cold_s, cached_s in (("local", 2.0, 1.0), ("records", 5.0, 1.25), ("litdata", 10.0, 2.5)):
        for late_s in (0, 1, 0.5):  # the median is half a second more
            seconds = {"cold_s": cold_s + late_s - 0.5, "cached_s": cached_s, "first_batch_s": 0.25, "cold_cpu_s": 3}
            numbers.add(f"read/{name}", seconds)
    numbers.add("read/streaming", {"problem": "ImportError: no such module"})
    assert object_storage.Numbers(settings).is_done("read/records", 3)
    assert object_storage.Numbers(settings).is_done("read/streaming", 3)
    assert not object_storage.Numbers(settings | {"latency_s": 0.03}).is_done("read/records", 3)
    text = (tmp_path / "benchmarks-object-storage.md").read_text(encoding="utf-8")
    assert "| records, RecordLoader | 1,000 | 100 | 1.00x | 0.25 s | 0.60 ms | 4,000 | 400 |" in text
    assert "| local records, RecordLoader | 2,500 | 250 |  | 0.25 s | 0.60 ms | 5,000 | 500 |" in text
    assert "| MosaicML Streaming | did not run | ImportError: no such module |" in text
    assert "| Reading alone | cold | what the link gives | 0.9x | 1.00x |" in text
    assert "| Reading alone | from the cache | local records | 0.98x | 0.80x |" in text
    assert "| Reading alone | cold | LitData | more than 1x | 2.00x |" in text
    assert "100" in texts((tmp_path / "benchmarks-object-storage-read.svg").read_text(encoding="utf-8"))


def test_each_contestant_has_a_module_that_takes_its_options() -> None:
    for contestant in (contestant for row in ROWS.values() for contestant in row.contestants):
        source = Path(page.__file__).with_name(f"{contestant.peer}.py").read_text(encoding="utf-8")
        functions = {node.name: node.args for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
        if "write" in functions and functions["write"].kwarg is None:
            assert set(contestant.write) <= {argument.arg for argument in functions["write"].args}, contestant
        assert set(contestant.loader) <= {argument.arg for argument in functions["loader"].args}, contestant


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the peers' numbers, a copy."""
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(page, "NUMBERS", tmp_path / "numbers.json")
    page.NUMBERS.write_text(NUMBERS.read_text(encoding="utf-8"), encoding="utf-8")
    return page.NUMBERS


def test_a_row_comes_to_the_page_with_its_numbers_and_its_note(stored: Path) -> None:
    def section(rows: dict[str, Any]) -> str:
        stored.write_text(json.dumps(rows), encoding="utf-8")
        return page.render()[page.PAGE.name].partition("## Originals, uint8, other loaders")[2].partition("\n## ")[0]

    rows = json.loads(stored.read_text(encoding="utf-8"))
    rows.pop("loaders", None)
    assert section(rows) == ""
    row = ROWS["loaders"]
    ran, *others = ({"label": each.label, "wanted": None} for each in row.contestants)
    ran |= {"batch": "uint8, NCHW in memory", "median": rows["fast"]["contestants"][0]["median"]}
    others = [other | {"problem": "ModuleNotFoundError: No module named 'x'"} for other in others]
    rows["loaders"] = rows["fast"] | {"title": row.title, "ours": row.ours.label, "contestants": [ran, *others]}
    found = section(rows)
    assert f"| {row.ours.label} | {ran['median']['images_per_s']:,.0f} | 1.00x |" in found
    assert "| SPDL | did not run | ModuleNotFoundError: No module named 'x' |" in found
    assert found.rstrip().endswith(row.note)


def test_a_row_is_left_out_by_a_python_that_is_too_old(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(peers, "photographs", lambda folder: [])
    monkeypatch.setattr(peers, "run_row", lambda row, photos, repeats: ran.append(row.title) or {})
    monkeypatch.setattr(page, "write", lambda: None)
    monkeypatch.setattr(sys, "argv", ["peers", "--row", "python313"])
    monkeypatch.setenv("RECORDZOO_COMPILE", "wait")  # which it sets
    before = stored.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "version_info", (3, 12, 9))
    peers.main()
    assert ran == []
    assert stored.read_text(encoding="utf-8") == before
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    peers.main()
    assert ran == [ROWS["python313"].title]
    assert "python313" in json.loads(stored.read_text(encoding="utf-8"))


def test_recipes_that_dali_lacks_have_an_empty_cell() -> None:
    assert set(recipes.DALI_RECIPES) < set(recipes.RECIPES)
    assert set(recipes.WANTED) < set(recipes.RECIPES)
    ours = dict.fromkeys(recipes_page.READERS, 100.0)

    def table(**rates: dict[str, float]) -> str:
        return recipes_page.table({name: {"wanted": None, "rates": each} for name, each in rates.items()})

    assert recipes_page.DALI not in table(crop=ours)
    lines = table(crop=ours | {recipes_page.DALI: 150.0}, own=ours).splitlines()
    assert lines[0].endswith(" | RecordLoader, fast | DALI, CPU |")
    assert lines[2].endswith(" | 100 (1.00x) | 150 (1.50x) |")
    assert lines[3].endswith(" | 100 (1.00x) |  |")


def test_without_dali_its_column_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "python"
    assert recipes.with_dali(python) is None
    python.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")  # what `import nvidia.dali` ends with
    python.chmod(0o755)
    assert recipes.with_dali(python) is None
    assert capsys.readouterr().err == 2 * f"{python}: no DALI; its column is left out\n"
    python.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    assert recipes.with_dali(python) == python


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_can_be_read_on_a_phone_and_in_the_dark(name: str) -> None:
    svg = page.render()[name]
    root = ET.fromstring(svg)
    assert LABEL_PX * PHONE_PX / float(root.attrib["width"]) >= 11
    assert "prefers-color-scheme: dark" in svg
    assert max(len(text) for text in texts(svg)) * LABEL_PX * 0.55 < WIDTH


def test_bars_are_as_long_as_their_numbers() -> None:
    svg = draw([Group("a < b", [10.0, 5.0], is_ours=True), Group("c", [None, 2.5])], "Speed", ("one", "two"))
    bars = [node for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect") if node.get("height") == "16"]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert [bar.attrib["class"] for bar in bars] == ["ours0", "ours1", "others0", "others1"]
    assert [width / widths[0] for width in widths] == pytest.approx([1, 0.5, 0, 0.25], abs=0.01)
    assert texts(svg) == ["Speed", "one", "two", "a < b", "10", "5", "c", "did not run", "2"]


def test_some_lines_of_the_zoos_page_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(zoo.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(zoo, "PAGE", copy)
    monkeypatch.setattr(zoo, "in_process", lambda name, repeats: (f"`{name}Record`", *"abcdef"))
    zoo.write_page(3, ["MNIST"])
    before, after = (
        {line.split(" | ")[0]: line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| `")}
        for path in (zoo.ROOT / "docs" / "benchmarks-zoo.md", copy)
    )
    assert after.pop("| `MNISTRecord`") == "| `MNISTRecord` | a | b | c | d | e | f |"
    assert before.pop("| `MNISTRecord`")
    assert after == before
    assert set(before) == {f"| `{name}Record`" for name in zoo.rows() if name != "MNIST"}
