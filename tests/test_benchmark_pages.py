"""The page of benchmarks: sections made of the stored numbers, and a chart of the numbers of its table."""

import ast
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as lines
from benchmarks import cluster, files_or_records, pages, recipes, recipes_page, scaling, zoo
from benchmarks.formats import page as formats
from benchmarks.object_storage import page as object_storage
from benchmarks.peers import page
from benchmarks.peers.rows import ROWS
from benchmarks.scale import page as scale
from benchmarks.svg import LABEL_PX, WIDTH

PHONE_PX = 358
"""What a page of 390 pixels leaves for a picture."""

NUMBERS = page.NUMBERS


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def rendered() -> dict[str, str]:
    """All sections of which numbers are stored, and the chart, by their names."""
    made = page.render() | object_storage.render() | recipes_page.render()
    made |= {scale.SECTION: scale.render(), zoo.SECTION: zoo.render(), lines.SECTION: lines.render()}
    for script in (files_or_records, scaling):  # numbers of a script that was not run yet are of no machine
        if script.NUMBERS.exists():
            stored = json.loads(script.NUMBERS.read_text(encoding="utf-8"))
            made[script.SECTION] = script.section(stored)
    return made


def test_sections_and_chart_are_those_of_the_stored_numbers() -> None:
    made = rendered()
    for name, text in made.items():
        found = (
            (pages.DOCS / name).read_text(encoding="utf-8") if name == recipes_page.CHART else pages.read_section(name)
        )
        assert found.strip() == text.strip(), f"{name} is stale"
    written = [name for name in made if name != recipes_page.CHART] + [cluster.SECTION, formats.SECTION]
    written += [] if scaling.SECTION in written else [scaling.SECTION]
    found = re.findall(r"^<!--(\w.*)-->$", pages.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(written)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the page, to which sections and the chart are written."""
    (tmp_path / pages.PAGE.name).write_text(pages.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "PAGE", tmp_path / pages.PAGE.name)
    return tmp_path


def test_a_section_is_replaced_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", tmp_path / "page.md")
    before = "# Page\n\n<!--a-->\nold\n<!--/a-->\n\n<!--c-->\n<!--/c-->\n"
    pages.PAGE.write_text(before, encoding="utf-8")
    for _ in range(2):
        pages.write_section("a", "\nnew\\1\n\n## With a heading\n")
        text = pages.PAGE.read_text(encoding="utf-8")
        assert text == before.replace("\nold\n", "\n\nnew\\1\n\n## With a heading\n\n")
    assert pages.read_section("a") == "new\\1\n\n## With a heading"
    pages.write_section("a", "")
    assert pages.PAGE.read_text(encoding="utf-8") == before.replace("old\n", "")
    assert pages.read_section("c") == ""
    with pytest.raises(KeyError, match=r"page\.md has no <!--b-->"):
        pages.write_section("b", "text")


def test_usual_versions_are_named_once() -> None:
    assert all(f"{each}" in pages.PAGE.read_text(encoding="utf-8") for each in pages.USUAL)
    usual = "AMD EPYC, 2 cores, Linux 6.1, Python 3.11.7, torch 2.15.0, torchvision 0.29.2, numpy 2.4.6; 2026-11-21"
    assert pages.in_short(usual) == "AMD EPYC, 2026-11-21"
    assert pages.in_short(usual.replace("3.11.7", "3.13.0")) == "AMD EPYC, Python 3.13.0, 2026-11-21"


def test_files_and_records_are_compared_with_the_first_reader() -> None:
    def row(measured: str, *values: float) -> dict[str, Any]:
        return {"measured": measured, "repeats": 3, "medians": dict(zip(files_or_records.READERS, values, strict=True))}

    rows = {"cold": row("first epoch", 400.0, 1000.0, 1250.0), "start": row("first batch", 6.0, 5.0, 0.5)}
    text = files_or_records.section({"photos": "3 photographs", "machine": "a machine", "rows": rows})
    assert "| cold | 400/s | 1,000/s (2.50x) | 1,250/s (3.12x) |" in text
    assert "| start | 6.00 s | 5.00 s (1.20x) | 0.50 s (12.00x) |" in text


def test_the_chart_says_what_its_row_says() -> None:
    made = recipes_page.render()
    row = next(line for line in made["recipes"].splitlines() if line.startswith("| RandomResizedCrop 224, flip |"))
    theirs, ours, dali = (cell.strip().partition(" ")[0] for cell in row.strip("|").split("|")[1:])
    shown = texts(made[recipes_page.CHART])
    assert [text.partition(" ")[0] for text in shown[2::2]] == [ours, dali, theirs]


def test_object_storage_is_compared_with_the_link_and_with_local_records(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "NUMBERS", copy / "numbers.json")
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
    text = pages.read_section(object_storage.SECTION)
    assert "| records, RecordLoader | 1,000 (1.00x) | 4,000 |" in text
    assert "| local records, RecordLoader | 2,500 | 5,000 |" in text
    assert "| MosaicML Streaming | did not run | ImportError: no such module |" in text


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
    monkeypatch.setattr(page, "NUMBERS", tmp_path / "numbers.json")
    page.NUMBERS.write_text(NUMBERS.read_text(encoding="utf-8"), encoding="utf-8")
    return page.NUMBERS


def test_a_row_comes_to_the_page_with_its_numbers_and_its_note(stored: Path) -> None:
    def section(rows: dict[str, Any]) -> str:
        stored.write_text(json.dumps(rows), encoding="utf-8")
        return page.render()["loaders"].partition("| `loaders` |")[2].partition("\n")[0]

    rows = json.loads(stored.read_text(encoding="utf-8"))
    rows.pop("loaders", None)
    assert section(rows) == ""
    row = ROWS["loaders"]
    ran, *others = ({"label": each.label, "wanted": None} for each in row.contestants)
    ran |= {"batch": "uint8, NCHW in memory", "median": rows["fast"]["contestants"][0]["median"]}
    others = [other | {"problem": "ModuleNotFoundError: No module named 'x'"} for other in others]
    rows["loaders"] = rows["fast"] | {"title": row.title, "ours": row.ours.label, "contestants": [ran, *others]}
    found = section(rows)
    assert f" **{ran['median']['images_per_s']:,.0f}**; SPDL did not run;" in found
    assert row.note in page.render()["loaders"]


def test_recipes_that_dali_lacks_have_an_empty_cell() -> None:
    assert set(recipes.DALI_RECIPES) < set(recipes.RECIPES)
    assert set(recipes.WANTED) < set(recipes.RECIPES)
    ours = dict.fromkeys(recipes_page.READERS, 100.0)

    def table(**rates: dict[str, float]) -> str:
        return recipes_page.table({name: {"wanted": None, "rates": each} for name, each in rates.items()})

    assert recipes_page.DALI not in table(crop=ours)
    lines = table(crop=ours | {recipes_page.DALI: 150.0}, own=ours).splitlines()
    assert lines[0].endswith(" | RecordLoader, exact | DALI, CPU |")
    assert lines[2].endswith(" | 100 (1.00x) | 150 (1.50x) |")
    assert lines[3].endswith(" | 100 (1.00x) |  |")


def test_the_chart_can_be_read_on_a_phone_and_in_the_dark() -> None:
    svg = recipes_page.render()[recipes_page.CHART]
    root = ET.fromstring(svg)
    assert LABEL_PX * PHONE_PX / float(root.attrib["width"]) >= 11
    assert "prefers-color-scheme: dark" in svg
    assert max(len(text) for text in texts(svg)) * LABEL_PX * 0.55 < WIDTH


def test_some_classes_are_measured_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(zoo.NUMBERS.read_text(encoding="utf-8"))["rows"]
    assert set(stored) == set(zoo.rows())
    (copy / "numbers.json").write_text(zoo.NUMBERS.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(zoo, "NUMBERS", copy / "numbers.json")
    names = ("samples", "construct_ms", "construct_times", "samples_per_s", "speed_times", "size_times")
    monkeypatch.setattr(zoo, "in_process", lambda name, repeats: dict(zip(names, range(1, 7), strict=True)))
    monkeypatch.setattr(zoo, "machine", lambda: "a machine; today")

    zoo.write_page(3, ["MovingMNIST"])
    assert "| below 0.70x | 9 | DSprites" in pages.read_section(zoo.SECTION)
    kept = json.loads((copy / "numbers.json").read_text(encoding="utf-8"))["rows"]
    assert kept["MovingMNIST"]["run"] == "a machine; today; 3 processes, medians of 3"
    assert {name for name in kept if kept[name] != stored[name]} == {"MovingMNIST"}


def test_peers_are_what_ours_is_divided_by():
    row = {
        "ours": "ours",
        "contestants": [
            {"label": "ours", "median": {"images_per_s": 300.0}},
            {"label": "slower", "median": {"images_per_s": 200.0}},
            {"label": "broken", "problem": "ImportError: No module named 'broken'"},
        ],
    }
    assert page.ratios(row) == {"ours": 1.0, "slower": 1.5, "broken": None}
    assert page.ratios({**row, "ours": "broken"}) == {"ours": None, "slower": None, "broken": None}
