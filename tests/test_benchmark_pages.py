"""The pages of benchmarks: sections made of the stored numbers, charts of the numbers of their tables."""

import ast
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as lines
from benchmarks import cluster, files_or_records, pages, recipes, recipes_page, scaling, zoo
from benchmarks.common import Line
from benchmarks.formats import page as formats
from benchmarks.object_storage import page as object_storage
from benchmarks.peers import __main__ as peers
from benchmarks.peers import page
from benchmarks.peers.rows import ROWS
from benchmarks.scale import page as scale
from benchmarks.svg import LABEL_PX, WIDTH, Group, draw

PHONE_PX = 358
"""What a page of 390 pixels leaves for a picture."""

NUMBERS = page.NUMBERS
CHARTS = sorted(name for name in page.render() if name.endswith(".svg"))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def rendered() -> dict[str, str]:
    """All sections and charts of which numbers are stored, by their names."""
    made = page.render() | object_storage.render() | recipes_page.render()
    made |= {scale.SECTION: scale.render(), zoo.SECTION: zoo.render()}
    for script in (files_or_records, scaling):  # numbers of a script that was not run yet are of no machine
        if script.NUMBERS.exists():
            stored = json.loads(script.NUMBERS.read_text(encoding="utf-8"))
            made[script.SECTION] = script.section(stored)
            made |= scaling.charts(stored) if script is scaling else {}
    return made


def sections(path: Path) -> list[str]:
    return re.findall(r"^<!-- section: (.+) -->$", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_sections_and_charts_are_those_of_the_stored_numbers() -> None:
    made = rendered()
    for name, text in made.items():
        is_chart = name.endswith(".svg")
        found = (pages.DOCS / name).read_text(encoding="utf-8") if is_chart else pages.read_section(name)
        assert found.strip() == text.strip(), f"{name} is stale"
    # The others are written when they are measured.
    charts = {formats.chart_name("images"), formats.chart_name("bytes"), *(n for n in made if n.endswith(".svg"))}
    assert {path.name for path in pages.DOCS.glob("benchmarks-*.svg")} == charts


def test_each_section_is_on_one_page_and_has_a_script() -> None:
    written = [*(name for name in rendered() if not name.endswith(".svg")), *lines.SECTIONS]
    written += [cluster.SECTION, formats.SECTION]
    written += [] if scaling.SECTION in written else [scaling.SECTION]
    assert sorted(name for path in pages.PAGES for name in sections(path)) == sorted(written)


def test_tables_that_are_not_stored_have_the_heads_of_their_scripts() -> None:
    for name in lines.SECTIONS:
        head = lines.text([Line("a", "b", "c", "d")], 3, "; photographs").splitlines()[0]
        assert pages.read_section(name).startswith(head)
    assert pages.read_section(cluster.SECTION).startswith(pages.table(cluster._HEAD, [], numbers=True))


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the pages, to which sections and charts are written."""
    for path in pages.PAGES:
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "PAGES", tuple(tmp_path / path.name for path in pages.PAGES))
    return tmp_path


def test_a_section_is_replaced_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES", (tmp_path / "first.md", tmp_path / "second.md"))
    (tmp_path / "first.md").write_text("# First\n\n<!-- section: a -->\n<!-- /section: a -->\n", encoding="utf-8")
    before = "# Second\n\n<!-- section: a b -->\nold\n<!-- /section: a b -->\n\n"
    before += "<!-- section: c -->\n<!-- /section: c -->\n"
    (tmp_path / "second.md").write_text(before, encoding="utf-8")
    for _ in range(2):
        pages.write_section("a b", "\nnew\\1\n\n## With a heading\n")
        text = (tmp_path / "second.md").read_text(encoding="utf-8")
        assert text == before.replace("\nold\n", "\n\nnew\\1\n\n## With a heading\n\n")
    assert pages.read_section("a b") == "new\\1\n\n## With a heading"
    pages.write_section("a b", "")
    assert (tmp_path / "second.md").read_text(encoding="utf-8") == before.replace("old\n", "")
    pages.write_section("a", "text")
    assert pages.read_section("a") == "text"
    assert pages.read_section("c") == ""
    with pytest.raises(KeyError, match=r"no page of first\.md, second\.md has <!-- section: b -->"):
        pages.write_section("b", "text")


def test_targets_that_were_missed_are_listed() -> None:
    reached = ("speed", "2x", "3.00x", True)
    assert pages.missed([reached]) == "Targets reached: 1 of 1."
    text = pages.missed([reached, ("speed, against others", "2x", "1.50x", False)])
    assert text == "Targets reached: 1 of 2. Missed:\n\n- speed, against others: 1.50x (target: 2x)"


def quantities(text: str) -> list[tuple[str, float]]:
    """Find numbers, as they are written and as values; seconds become milliseconds."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?)( s\b)?", text)
    return [(number, float(number.replace(",", "")) * (1000 if is_s else 1)) for number, is_s in found]


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.stem)
def test_a_summary_has_the_numbers_of_the_sections_it_leads_to(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    headings = list(re.finditer(r"^(#{2,3}) (.+)$", text, re.MULTILINE))
    parts = {
        slug(heading[2]): text[heading.start() : next((n.start() for n in headings[place + 1 :]), None)]
        for place, heading in enumerate(headings)
    }
    rows = [row.strip("| ").split(" | ") for row in text[: headings[0].start()].splitlines() if row.startswith("| ")]
    section = ""
    for what, times, ours, theirs in rows[2:]:
        if link := re.search(r"\(#([\w-]+)\)", what):
            section = parts[link[1]]
        shown = [each[-1] for each in (quantities(ours), quantities(theirs)) if each]
        assert {number for number, _ in shown} <= {number for number, _ in quantities(section)}, what
        ((number, ratio),) = quantities(times)
        low, high = sorted(value for _, value in shown) or (1, 0)
        assert f"{number}x" in section or high / low == pytest.approx(ratio, rel=0.02), what


def test_files_and_records_are_compared_with_the_first_reader() -> None:
    def row(measured: str, *values: float) -> dict[str, Any]:
        return {"measured": measured, "repeats": 3, "medians": dict(zip(files_or_records.READERS, values, strict=True))}

    rows = {"cold": row("first epoch", 400.0, 1000.0, 1250.0), "start": row("first batch", 6.0, 5.0, 0.5)}
    text = files_or_records.section({"photos": "3 photographs", "machine": "a machine", "rows": rows})
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
    assert "| RecordLoader, exact | 500 (1.00x) | 900 (1.80x) |\n| FFCV | not installed |  |" in text
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
    text = page.render()["loaders"]
    row = f"`ROW={name[len('benchmarks-') : -len('.svg')]}`"
    section = next(part for part in text.split("\n### ") if row in part)
    assert name == "benchmarks-fast.svg" or f"]({name})" in section
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \(([\d.]+x)\) \|", section, re.MULTILINE)
    assert len(rows) > 0
    shown = texts(page.render()[name])
    assert shown[1:] == [cell for label, speed, times in rows for cell in (label, f"{speed}  {times}")]


@pytest.mark.parametrize("task", ["images", "bytes"])
def test_a_chart_of_formats_says_what_its_table_says(task: str) -> None:
    titles = {"images": "Decoded images, 2 workers", "bytes": "Bytes alone, 2 workers"}
    section = pages.read_section(formats.SECTION).partition(f"{titles[task]}: ")[2].partition("\n\n| ")[2]
    rows = [line.strip("| ").split(" | ") for line in section.partition("\n\n")[0].splitlines()[2:]]
    expected = []
    for label, _, random, cold, _ in rows:
        speed, _, times = random.partition(" (")
        expected += [label.removesuffix(" \\*"), f"{speed}  {times[:-1]}".rstrip(), cold.partition(" (")[0]]
    assert len(rows) == 10
    assert texts((pages.DOCS / formats.chart_name(task)).read_text(encoding="utf-8"))[3:] == expected


def test_the_page_opens_with_what_its_reader_asks() -> None:
    text = pages.PAGES[0].read_text(encoding="utf-8")
    opening = text.partition("\n## ")[0]
    assert "benchmarks-fast.svg" in opening
    for peer in ("ImageFolder", "FFCV", "DALI"):
        assert peer in opening
    assert "arget" not in opening
    assert sections(pages.PAGES[0])[:3] == ["answer", "loaders", "loaders, targets"]


def test_object_storage_is_compared_with_the_link_and_with_local_records(
    copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "NUMBERS", copies / "numbers.json")
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
    assert "| records, RecordLoader | 1,000 (1.00x) | 0.25 | 0.60 | 4,000 |" in text
    assert "| local records, RecordLoader | 2,500 | 0.25 | 0.60 | 5,000 |" in text
    assert "| MosaicML Streaming | did not run | ImportError: no such module |" in text
    assert "1,000 of which have 100 MB" in text
    missed = "- Reading alone, from the cache, against local records: 0.80x (target: 0.98x)\n\n"
    assert f"Targets reached: 3 of 4. Missed:\n\n{missed}" in text
    assert "100" in texts((copies / "benchmarks-object-storage-read.svg").read_text(encoding="utf-8"))


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
        return page.render()["loaders"].partition("### Originals, uint8, other loaders")[2].partition("\n### ")[0]

    rows = json.loads(stored.read_text(encoding="utf-8"))
    rows.pop("loaders", None)
    assert section(rows) == ""
    row = ROWS["loaders"]
    ran, *others = ({"label": each.label, "wanted": None} for each in row.contestants)
    ran |= {"batch": "uint8, NCHW in memory", "median": rows["fast"]["contestants"][0]["median"]}
    others = [other | {"problem": "ModuleNotFoundError: No module named 'x'"} for other in others]
    rows["loaders"] = rows["fast"] | {"title": row.title, "ours": row.ours.label, "contestants": [ran, *others]}
    found = section(rows)
    assert f"| {row.ours.label} | {ran['median']['images_per_s']:,.0f} (1.00x) |" in found
    assert "| SPDL | did not run | ModuleNotFoundError: No module named 'x' |" in found
    assert row.note in found


def test_a_row_is_left_out_by_a_python_that_is_too_old(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(peers, "photographs", lambda folder: [])
    monkeypatch.setattr(peers, "run_row", lambda row, photos, repeats: ran.append(row.title) or {})
    monkeypatch.setattr(page, "render", dict)
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


def test_some_classes_are_measured_again(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(zoo.NUMBERS.read_text(encoding="utf-8"))["rows"]
    assert set(stored) == set(zoo.rows())
    (copies / "numbers.json").write_text(zoo.NUMBERS.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(zoo, "NUMBERS", copies / "numbers.json")
    names = ("samples", "construct_ms", "construct_times", "samples_per_s", "speed_times", "size_times")
    monkeypatch.setattr(zoo, "in_process", lambda name, repeats: dict(zip(names, range(1, 7), strict=True)))
    monkeypatch.setattr(zoo, "machine", lambda: "a machine; today")

    def table() -> dict[str, str]:
        found = pages.read_section(zoo.SECTION).splitlines()
        return {line.split(" | ")[0]: line for line in found if line.startswith("| `")}

    before = table()
    zoo.write_page(3, ["MNIST"])
    after = table()
    assert after.pop("| `MNISTRecord`") == "| `MNISTRecord` | 2.0 (3.00x) | 4 (5.00x) | 6.00x |"
    assert before.pop("| `MNISTRecord`")
    assert after == before
    assert "\n- MNIST: a machine; today; 3 processes, medians of 3\n" in pages.read_section(zoo.SECTION)
    assert json.loads((copies / "numbers.json").read_text(encoding="utf-8"))["rows"]["CIFAR10"] == stored["CIFAR10"]


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
