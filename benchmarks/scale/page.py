"""The section of the benchmark: a table with a column for each number of samples, made of the stored numbers."""

import json
from typing import Any

from benchmarks import pages

NUMBERS = pages.DOCS / "benchmarks-scale.json"
SECTION = "scale"

_LITTLE_MB = 10
"""Less memory than this is left out where there is a time."""

_LINES: list[tuple[str, str, str, str]] = [  # what, measure, number, unit
    ("index on disk", "files", "image.index.npy", "file"),
    ("names and their offsets on disk", "files", "names.npy+names_offsets.npy", "file"),
    ("`recordzoo.open` and `len`", "opened", "open", "both"),
    ("first sample, with the index's CRC-32", "opened", "first_sample", "both"),
    ("`RecordSampler`: first 1,000 indices", "sampler", "first_1000", "both"),
    ("torch's `RandomSampler`: first 1,000 indices", "torch random", "first_1000", "both"),
    ("`RecordLoader(shuffle=True)`: first batch", "loader", "first_batch", "both"),
]


def render() -> str:
    """Make the section of the stored numbers."""
    known: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    names = sorted(known, key=int)
    columns = [known[name] for name in names]
    rows = [[what, *(_cell(column, *where) for column in columns)] for what, *where in _LINES]
    made = pages.table(("samples", *(f"{int(name):,}" for name in names)), rows, numbers=True)
    return f"{made}\n\n{_prepared(known)} {pages.in_short(columns[-1]['machine'])}"


def _prepared(known: dict[str, Any]) -> str:
    """Say what putting together takes, by the most samples with which that was measured."""
    most = max(int(name) for name, column in known.items() if "preparation" in column)
    per_sample = known[str(most)]["preparation"]["assemble_peak_mb"] * 1e6 / most
    return f"Putting a record set together takes {per_sample:.0f} bytes of memory a sample."


def _cell(column: dict[str, Any], measure: str, name: str, unit: str) -> str:
    found = column.get(measure, {})
    if unit == "file":
        return _megabytes(sum(found.get(each, 0) for each in name.split("+")) / 1e6)
    if unit == "bytes":
        return f"{found[name]:,} bytes" if name in found else ""
    if unit == "mb":
        return _megabytes(found[name]) if name in found else ""
    time = _seconds(found[f"{name}_cpu_s"]) if f"{name}_cpu_s" in found else ""
    extra = found.get(f"{name}_mb")
    parts = [time, "" if extra is None or (time and extra < _LITTLE_MB) else _megabytes(extra)]
    return ", ".join(part for part in parts if part)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def _megabytes(value: float) -> str:
    return f"{max(0.0, value):,.0f} MB" if value >= 10 else f"{max(0.0, value):.1f} MB"
