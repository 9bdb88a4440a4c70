"""Sections of a page that a script writes alone, and stored numbers of which rows may be measured one at a time."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"

# Any: rows of the file.


def keep(numbers: Path, rows: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Add rows to the stored ones, or replace these."""
    stored = json.loads(numbers.read_text(encoding="utf-8")) if numbers.exists() else {"rows": {}}
    stored = {**about, "rows": {**stored["rows"], **rows}}
    numbers.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def replace_section(page: str, heading: str, text: str) -> str:
    """Return a page with a section of that heading replaced, or added at its end."""
    body = f"{heading}\n{text.rstrip()}\n"
    found = re.search(rf"^{re.escape(heading)}$.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        return f"{page.rstrip()}\n\n{body}"
    after = page[found.end() :]
    return page[: found.start()] + body + (f"\n{after}" if after else "")


def write_section(path: Path, heading: str, text: str) -> None:
    """Replace a section of a page, or add it; the others stay."""
    path.write_text(replace_section(path.read_text(encoding="utf-8"), heading, text), encoding="utf-8")
