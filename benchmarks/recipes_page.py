"""The section of `benchmarks.recipes`, made of stored numbers: a recipe may be measured by itself."""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import pages
from benchmarks.svg import Group, draw

CHART = "benchmarks-crops.svg"
NUMBERS = pages.DOCS / "benchmarks-recipes.json"

TREES, EXACT, DALI = "torchvision, DataLoader", "RecordLoader, exact", "DALI, CPU"
STOCK = "records, DataLoader"
READERS = (TREES, STOCK, EXACT, "RecordLoader, fast")
_OTHERS = ((STOCK, TREES), (READERS[3], EXACT))
_USUAL = "RandomResizedCrop 224, flip"
"""The recipe of the chart: README's first block, with Normalize."""

TITLE = "Images a second of RecordLoader, DALI on the CPU, and ImageFolder with DataLoader"

# Any: rows of the file.

_TEXT = """\
{table}

{others} {origins}
"""


def keep(rows: Mapping[str, Mapping[str, Any]], photos: str) -> None:
    """Add rows to the stored ones, or replace these, and write the section."""
    pages.keep(NUMBERS, rows, photos=photos)
    pages.write(render())


def render() -> dict[str, str]:
    """Return the sections and the chart, by their names."""
    rows = _stored()["rows"]
    text = _TEXT.format(table=table(rows), others=_others(rows), origins=pages.origins(rows))
    return {"answer": f"![{TITLE}]({CHART})\n\n{answer()}", "recipes": text, CHART: _chart(rows[_USUAL]["rates"])}


def answer() -> str:
    """Say in a sentence how many times as many images a second the loader makes as the others, and where."""
    stored = _stored()
    row = stored["rows"][_USUAL]
    rates = row["rates"]
    dali = f"; DALI on the CPU, with pixels of its own, {rates[DALI] / rates[TREES]:.1f} times" if DALI in rates else ""
    return (
        f"RandomResizedCrop(224), flip, ToTensor, Normalize over {stored['photos']}: "
        f"RecordLoader makes {rates[EXACT] / rates[TREES]:.1f} times as many images a second as DataLoader{dali}. "
        f"{pages.in_short(row['machine'])}, two cores."
    )


def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return found


def _chart(rates: Mapping[str, float]) -> str:
    shown = [reader for reader in (EXACT, DALI, TREES) if reader in rates]
    labels = {EXACT: "RecordLoader", TREES: "ImageFolder + DataLoader"}
    notes = {reader: f"{rates[reader] / rates[TREES]:.1f}x" for reader in shown if reader != TREES}
    groups = [Group(labels.get(each, each), [rates[each]], notes.get(each, ""), each == EXACT) for each in shown]
    return draw(groups, "Images a second, two cores")


def _others(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Say how fast the readers are that the table has not."""
    stock, fast = ([row["rates"][one] / row["rates"][other] for row in rows.values()] for one, other in _OTHERS)
    return (
        f"Record sets with torch's `DataLoader`: {min(stock):.2f}x to {max(stock):.2f}x. Fast precision: "
        f"{min(fast):.2f}x to {max(fast):.2f}x of exact."
    )


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the table; a reader that did not run is left out, or its cell is empty."""
    readers = [reader for reader in (TREES, EXACT, DALI) if any(reader in row["rates"] for row in rows.values())]
    lines = []
    for name, row in rows.items():
        rates = row["rates"]
        base = rates[TREES]
        cells = [f"{rates[each]:,.0f} ({rates[each] / base:.2f}x)" if each in rates else "" for each in readers[1:]]
        lines.append((name.partition(":")[0] if name.count(" ") > 4 else name, f"{base:,.0f}", *cells))
    return pages.table(("recipe", *readers), lines, numbers=True)
