"""The page and the chart of `benchmarks.recipes`, made of stored numbers: a recipe may be measured by itself."""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import sections
from benchmarks.svg import draw
from recordzoo.bench.chart import Group

DOCS = sections.DOCS
NUMBERS = DOCS / "benchmarks-recipes.json"
PAGE = "benchmarks-recipes.md"
CHART = "benchmarks-training-recipes.svg"

TREES, EXACT, DALI = "torchvision, DataLoader", "RecordLoader, exact", "DALI, CPU"
READERS = (TREES, "records, DataLoader", EXACT, "RecordLoader, fast")

# Any: rows of the file.

_TEXT = """# Benchmarks of recipes

Images per second on two cores, with the transforms that people train with. `RecordLoader` compiles what it knows of
them and runs the rest as it is written, in threads or in worker processes, whichever it finds faster: [what is
compiled](guides/transforms.md). In exact precision the images are torchvision's.

![{title}]({chart})

Two workers: processes of `DataLoader`; threads or processes of `RecordLoader`. Batches of 64, everything in the page
cache. The readers of a recipe take turns, each in a fresh process that has run through one epoch before; medians.
"torchvision" is `ImageFolder`, for boxes `VOCDetection`; the ratio is to it. "Wanted" is what we aimed at in exact
precision. Rows may have been measured on different days: compare the numbers within a row.

{table}

{dali}The photographs: {photos}, three times. {machine}

```
python -m benchmarks.recipes --photos folder-with-photographs
```

measures all; `--recipe` with the beginning of a name measures one. Repetitions: {repeats}.
"""
_DALI_TEXT = (
    "DALI has operations of its own for these recipes: pixels and magnitudes differ from torchvision's, colours change "
    "in a fixed order, and only the crop is decoded. It has none for the recipes where its cell is empty.\n\n"
)


def keep(rows: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Add rows to the stored ones, or replace these, and write the page."""
    sections.keep(NUMBERS, rows, about)
    for name, text in render().items():
        (DOCS / name).write_text(text, encoding="utf-8")


def render() -> dict[str, str]:
    """Return the page and its chart, by file name."""
    stored = json.loads(NUMBERS.read_text(encoding="utf-8"))
    rows, title = stored["rows"], "Images per second, exact, and the ratio to torchvision with DataLoader"
    bars = [
        Group(
            name.partition(":")[0],
            [row["rates"][EXACT]],
            f"{row['rates'][EXACT] / row['rates'][TREES]:.2f}x",
            is_ours=True,
        )
        for name, row in rows.items()
    ]
    repeats = sorted({row["repeats"] for row in rows.values()})
    text = _TEXT.format(
        title=title,
        chart=CHART,
        table=(made := table(rows)),
        dali=_DALI_TEXT if DALI in made else "",
        photos=stored["photos"],
        machine=stored["machine"],
        repeats=" or ".join(map(str, repeats)),
    )
    return {PAGE: text, CHART: draw(bars, "Images per second; times torchvision's")}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the page's table; a reader that did not run is left out, or its cell is empty."""
    readers = [reader for reader in (*READERS, DALI) if any(reader in row["rates"] for row in rows.values())]
    lines = ["| recipe | wanted | " + " | ".join(readers) + " |", "| --- | --- |" + " --- |" * len(readers)]
    for name, row in rows.items():
        rates = row["rates"]
        base = rates[TREES]
        cells = [f"{rates[each]:,.0f} ({rates[each] / base:.2f}x)" if each in rates else "" for each in readers[1:]]
        wanted = f"{row['wanted']}x" if row["wanted"] else ""
        lines.append(f"| {name} | {wanted} | {base:,.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
