"""The page of the benchmarks against others: made of the stored numbers, its charts of the numbers of its tables."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import zoo
from benchmarks.peers import page
from benchmarks.svg import LABEL_PX, WIDTH, draw
from recordzoo.bench.chart import Group

PHONE_PX = 358
"""What a page of 390 pixels leaves for a picture."""

CHARTS = sorted(name for name in page.render() if name.endswith(".svg"))


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_page_and_its_charts_are_those_of_the_stored_numbers() -> None:
    for name, text in page.render().items():
        assert (page.DOCS / name).read_text(encoding="utf-8") == text, f"{name} is stale"
    assert {path.name for path in page.DOCS.glob("benchmarks-*.svg")} == set(CHARTS)
    assert list(page.DOCS.glob("benchmarks-*.png")) == []


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
