"""The section of `benchmarks.recipes`, made of stored numbers: a recipe may be measured by itself."""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import pages

NUMBERS = pages.DOCS / "benchmarks-recipes.json"

TREES, EXACT, DALI = "torchvision, DataLoader", "RecordLoader, exact", "DALI, CPU"
STOCK = "records, DataLoader"
READERS = (TREES, STOCK, EXACT, "RecordLoader, fast")
_OTHERS = ((STOCK, TREES), (READERS[3], EXACT))

# Any: rows of the file.

_TEXT = """\
{table}

{others} Medians of {repeats}; {machine}.
"""


def keep(rows: Mapping[str, Mapping[str, Any]], about: Mapping[str, Any]) -> None:
    """Add rows to the stored ones, or replace these, and write the section."""
    pages.keep(NUMBERS, rows, about)
    pages.write(render())


def render() -> dict[str, str]:
    """Return the section, by its name."""
    stored = json.loads(NUMBERS.read_text(encoding="utf-8"))
    rows = stored["rows"]
    text = _TEXT.format(
        table=table(rows),
        others=_others(rows),
        machine=pages.in_short(stored["machine"]),
        repeats=" or ".join(map(str, sorted({row["repeats"] for row in rows.values()}))),
    )
    return {"recipes": text}


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
