"""The sections of the page of benchmarks. Each is between two comments and written by a script; the rest is by hand.

A section has what was measured: a table, machine, versions and date.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import machine

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
_SECTION = r"(?<=^<!--{0}-->\n).*?(?=^<!--/{0}-->$)"

USUAL = ("Python 3.11.7", "torch 2.15.0", "torchvision 0.29.2", "pillow 13.0.0", "lmdb 3.0.0")
"""Versions that the page names once."""

_NAMED = ("Python ", "torch ", "torchvision ", "pillow ", "lmdb ")

# Any: rows of the file.


def keep(numbers: Path, rows: Mapping[str, Mapping[str, Any]], **about: object) -> None:
    """Add rows to the stored ones, or replace these; each says on which machine and when it was measured."""
    stored = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {"rows": {}}
    dated = {name: {"machine": machine(), **row} for name, row in rows.items()}
    stored = {**about, "rows": {**stored["rows"], **dated}}
    numbers.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def read_section(name: str) -> str:
    """Return the text of a section.

    Raises:
        KeyError: The page has no section of this name.
    """
    return _find(name)[0].strip("\n")


def write_section(name: str, text: str) -> None:
    """Replace the text of a section of the page.

    Raises:
        KeyError: The page has no section of this name.
    """
    found = _find(name)
    page, body = found.string, text.strip("\n")
    page = page[: found.start()] + (f"\n{body}\n\n" if body else "") + page[found.end() :]
    PAGE.write_text(page, encoding="utf-8")


def write(rendered: Mapping[str, str]) -> None:
    """Write sections, and charts, whose names end in ``.svg``."""
    for name, text in rendered.items():
        if name.endswith(".svg"):
            (DOCS / name).write_text(text, encoding="utf-8")
        else:
            write_section(name, text)


def _find(name: str) -> re.Match[str]:
    pattern = re.compile(_SECTION.format(re.escape(name)), re.MULTILINE | re.DOTALL)
    if found := pattern.search(PAGE.read_text(encoding="utf-8")):
        return found
    raise KeyError(f"{PAGE.name} has no <!--{name}-->")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Make a table; with `numbers`, all columns but the first are aligned to the right."""
    rule = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def missed(targets: Sequence[tuple[str, str, str, bool]]) -> str:
    """Say how many targets were reached, and list the others.

    Args:
        targets: Of each: what is measured, the target, the measured value, and whether it was reached.
    """
    lines = [f"{what} {found} ({wanted})" for what, wanted, found, is_reached in targets if not is_reached]
    said = f"Targets reached: {len(targets) - len(lines)} of {len(targets)}."
    return f"{said} Missed: {'; '.join(lines)}." if lines else said


def origins(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Say how often rows were measured, where and when: most of them, then the others by their names."""
    where: dict[str, list[str]] = {}
    for name, row in rows.items():
        where.setdefault(in_short(row["machine"]), []).append(re.split("[:,] ", name)[0])
    (most, _), *others = sorted(where.items(), key=lambda each: -len(each[1]))
    repeats = sorted({row["repeats"] for row in rows.values() if "repeats" in row})
    places = [most, *(f"{', '.join(dict.fromkeys(names))}: {place}" for place, names in others)]
    return f"Medians of {' or '.join(map(str, repeats))}. {'; '.join(places)}."


def in_short(described: str) -> str:
    """Shorten what `machine` returned to the processor, versions that are not the usual ones, and the date."""
    facts, _, date = described.partition("; ")
    cpu, *others = facts.replace("(R)", "").replace(" Processor", "").split(", ")
    unusual = [each for each in others if each.startswith(_NAMED) and each not in USUAL]
    return ", ".join([cpu, *unusual, date])
