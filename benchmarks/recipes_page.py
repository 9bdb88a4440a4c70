"""The section and the chart of `benchmarks.recipes`, made of stored numbers: a recipe may be measured by itself."""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import pages
from benchmarks.svg import Group, draw

NUMBERS = pages.DOCS / "benchmarks-recipes.json"
CHART = "benchmarks-training-recipes.svg"

TREES, EXACT, DALI = "torchvision, DataLoader", "RecordLoader, exact", "DALI, CPU"
READERS = (TREES, "records, DataLoader", EXACT, "RecordLoader, fast")

# Any: rows of the file.

_TEXT = """\
![Images per second, exact, and the ratio to torchvision with DataLoader]({chart})

{table}

{targets}

Medians of {repeats}; {photos}, three times. {machine}
"""


def keep(rows: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Add rows to the stored ones, or replace these, and write the section."""
    pages.keep(NUMBERS, rows, about)
    pages.write(render())


def render() -> dict[str, str]:
    """Return the section and its chart, by their names."""
    stored = json.loads(NUMBERS.read_text(encoding="utf-8"))
    rows = stored["rows"]
    bars, targets = [], []
    for name, row in rows.items():
        times = row["rates"][EXACT] / row["rates"][TREES]
        bars.append(Group(name.partition(":")[0], [row["rates"][EXACT]], f"{times:.2f}x", is_ours=True))
        if row["wanted"]:
            targets.append((name, f"{row['wanted']}x", f"{times:.2f}x", times >= row["wanted"]))
    text = _TEXT.format(
        chart=CHART,
        table=table(rows),
        targets=pages.missed(targets),
        photos=stored["photos"],
        machine=stored["machine"],
        repeats=" or ".join(map(str, sorted({row["repeats"] for row in rows.values()}))),
    )
    return {"recipes": text, CHART: draw(bars, "Images per second; times torchvision's")}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the table; a reader that did not run is left out, or its cell is empty."""
    readers = [reader for reader in (*READERS, DALI) if any(reader in row["rates"] for row in rows.values())]
    lines = []
    for name, row in rows.items():
        rates = row["rates"]
        base = rates[TREES]
        cells = [f"{rates[each]:,.0f} ({rates[each] / base:.2f}x)" if each in rates else "" for each in readers[1:]]
        lines.append((name, f"{base:,.0f}", *cells))
    return pages.table(("recipe", *readers), lines, numbers=True)
