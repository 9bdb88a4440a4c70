"""The sections of the benchmark pages. Each is between two comments and written by a script; the rest is by hand.

A section has what was measured: tables, charts, machine, versions and date. It may be moved from one page to the other.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (DOCS / "benchmarks.md", DOCS / "benchmarks-storing.md")
_SECTION = r"(?<=^<!-- section: {0} -->\n).*?(?=^<!-- /section: {0} -->$)"

# Any: rows of the file.


def keep(numbers: Path, rows: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Add rows to the stored ones, or replace these."""
    stored = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {"rows": {}}
    stored = {**about, "rows": {**stored["rows"], **rows}}
    numbers.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def read_section(name: str) -> str:
    """Return the text of a section.

    Raises:
        KeyError: No page has a section of this name.
    """
    return _find(name)[1][0].strip("\n")


def write_section(name: str, text: str) -> None:
    """Replace the text of a section in the page that has it.

    Raises:
        KeyError: No page has a section of this name.
    """
    path, found = _find(name)
    page, body = found.string, text.strip("\n")
    page = page[: found.start()] + (f"\n{body}\n\n" if body else "") + page[found.end() :]
    path.write_text(page, encoding="utf-8")


def write(rendered: Mapping[str, str]) -> None:
    """Write sections, and charts, whose names end in ``.svg``."""
    for name, text in rendered.items():
        if name.endswith(".svg"):
            (DOCS / name).write_text(text, encoding="utf-8")
        else:
            write_section(name, text)


def _find(name: str) -> tuple[Path, re.Match[str]]:
    pattern = re.compile(_SECTION.format(re.escape(name)), re.MULTILINE | re.DOTALL)
    for path in PAGES:
        if found := pattern.search(path.read_text(encoding="utf-8")):
            return path, found
    raise KeyError(f"no page of {', '.join(path.name for path in PAGES)} has <!-- section: {name} -->")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Make a table; with `numbers`, all columns but the first are aligned to the right."""
    rule = ["---", *["---:" if numbers else "---"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def folded(summary: str, text: str) -> str:
    """Make a part of which a reader first sees one line."""
    return f"<details markdown>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def missed(targets: Sequence[tuple[str, str, str, bool]]) -> str:
    """Say how many targets were reached, and list the others.

    Args:
        targets: Of each: what is measured, the target, the measured value, and whether it was reached.
    """
    num_reached = sum(is_reached for *_, is_reached in targets)
    lines = [f"- {what}: {found} (target: {wanted})" for what, wanted, found, is_reached in targets if not is_reached]
    said = f"Targets reached: {num_reached} of {len(targets)}."
    return "\n".join([f"{said} Missed:\n", *lines]) if lines else said


def in_short(machine: str) -> str:
    """Shorten what `common.machine` returned to processor and date."""
    return f"{machine.partition(',')[0]}, {machine.rpartition('; ')[2]}"
