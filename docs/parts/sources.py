"""What the last check of the addresses of raw files found (`tools/check_sources.py`): a page, and a badge per dataset.

The check writes `docs/sources.json`, which is no part of the repository; without it nothing is checked yet.
"""

import functools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docs.parts.markdown import table
from recordzoo import catalogue
from recordzoo.base.text import public_url
from recordzoo.catalogue import Entry

RESULT = Path(__file__).parent.parent / "sources.json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answered.

    Attributes:
        state: "ok", "gone", ...
        bad: Whether a maintainer has to look at it.
        said: What is wrong with it; "" if all is well.
    """

    state: str
    bad: bool
    said: str


@dataclass(frozen=True)
class Result:
    """A check of all addresses.

    Attributes:
        date: The day, "2026-11-24".
        answers: The answers by address.
    """

    date: str
    answers: dict[str, Answer]

    def of(self, entry: Entry) -> list[tuple[str, str, Answer | None]]:
        """List file, address and answer of each address of a dataset; None: it is newer than the check."""
        addresses = [(file.name, public_url(url)) for file in entry.files for url in file.urls]
        return [(name, url, self.answers.get(url)) for name, url in addresses]


@functools.cache
def result() -> Result | None:
    """Read the result; None if there is none."""
    if not RESULT.exists():
        return None
    read = json.loads(RESULT.read_text(encoding="utf-8"))
    answers = {row["url"]: Answer(row["state"], row["bad"], row["said"]) for row in read["addresses"]}
    return Result(read["date"], answers)


def badge(entry: Entry) -> str:
    """Return the badge of a dataset, a link to the page; "" for one without addresses."""
    if not any(file.urls for file in entry.files):
        return ""
    checked = result()
    if checked is None:
        return _badge("addresses: not checked yet", "unknown")
    answers = [answer for _, _, answer in checked.of(entry)]
    bad, unknown = sum(answer is not None and answer.bad for answer in answers), answers.count(None)
    if bad:
        return _badge(f"{bad} of {len(answers)} addresses failed on {checked.date}", "bad")
    if unknown:
        return _badge(f"{unknown} of {len(answers)} addresses: not checked yet", "unknown")
    return _badge(f"all addresses answered on {checked.date}", "good")


def _badge(text: str, kind: str) -> str:
    return f"[{text}](../sources.md){{ .badge .{kind} }}"


def page() -> str:
    """Return the generated part of the page: how many addresses answered what, and those that failed."""
    checked = result()
    if checked is None:
        return "Not checked yet."
    rows = [(entry, *row) for entry in map(catalogue.entry, catalogue.names()) for row in checked.of(entry)]
    counts = Counter("not checked yet" if answer is None else answer.state for *_, answer in rows)
    said = ", ".join(f"{state} {count:,}" for state, count in counts.most_common())
    failed = [
        (f"[{entry.title}](datasets/{entry.name}.md)", f"[`{name}`]({url})", answer.state, answer.said)
        for entry, name, url, answer in rows
        if answer is not None and answer.bad
    ]
    return f"Checked on {checked.date}: {len(rows):,} addresses: {said}.\n\n{_failed(failed)}"


def _failed(rows: Sequence[tuple[str, ...]]) -> str:
    return table(("dataset", "file", "state", "what it said"), rows) if rows else "None failed."
