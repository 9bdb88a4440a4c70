"""The section of the benchmark: tables with a column for each number of samples, made of the stored numbers."""

import json
from typing import Any

from benchmarks import pages

NUMBERS = pages.DOCS / "benchmarks-scale.json"
SECTION = "scale"

# Of each table: the title and its lines: what, measure, number, unit.
_Line = tuple[str, str, str, str]
_TABLES: dict[str, list[_Line]] = {
    "On disk": [
        ("index", "files", "image.index.npy", "file"),
        ("names and their offsets", "files", "names.npy+names_offsets.npy", "file"),
        ("labels", "files", "target.npy", "file"),
        ("manifest", "files", "manifest.json", "file"),
    ],
    "Opening and reading": [
        ("`recordzoo.open` and `len`", "opened", "open", "both"),
        ("first sample: the index and the labels are compared with their CRC-32", "opened", "first_sample", "both"),
        ("1,000 more samples, spread evenly", "opened", "1000_samples", "both"),
        ("first name: names and offsets are compared with their CRC-32", "opened", "first_name", "both"),
        ("1,000 more names, spread evenly", "opened", "1000_names", "both"),
        ("1,000 samples found by their names", "named", "1000_lookups", "both"),
        ("pickle of the dataset, for spawned workers", "opened", "pickle_bytes", "bytes"),
        ("CRC-32 of the index alone", "checksums", "index", "both"),
    ],
    "Samplers": [
        ("`RecordSampler`: made", "sampler", "made", "both"),
        ("its first 1,000 indices", "sampler", "first_1000", "both"),
        ("resumed in the middle of an epoch, 1,000 indices", "sampler", "resumed_1000", "both"),
        ("its state, as JSON", "sampler", "state_bytes", "bytes"),
        ('`RecordSampler`, `shuffle="block"`: made', "block sampler", "made", "both"),
        ("its first 1,000 indices", "block sampler", "first_1000", "both"),
        ("resumed in the middle of an epoch, 1,000 indices", "block sampler", "resumed_1000", "both"),
        ("torch's `RandomSampler`: first 1,000 indices", "torch random", "first_1000", "both"),
        ("torch's `DistributedSampler`: first 1,000 indices", "torch distributed", "first_1000", "both"),
    ],
    "Loaders (256 images a batch)": [
        ("`RecordLoader(shuffle=True)`: first batch", "loader", "first_batch", "both"),
        ("its next 20 batches", "loader", "20_batches", "both"),
        ("resumed in the middle of an epoch: first batch", "loader", "resumed_batch", "both"),
        ('`RecordLoader(shuffle="block")`: made', "block loader", "made", "both"),
        ("its first batch", "block loader", "first_batch", "both"),
        ("its next 20 batches", "block loader", "20_batches", "both"),
        ("resumed in the middle of an epoch: first batch", "block loader", "resumed_batch", "both"),
        ("`DataLoader`, 2 forked workers: private memory of each", "forked", "worker0_mb", "mb"),
        ("its share of mapped files (PSS)", "forked", "worker0_mapped_mb", "mb"),
        ("`DataLoader`, 2 spawned workers: private memory of each", "spawned", "worker0_mb", "mb"),
        ("its share of mapped files (PSS)", "spawned", "worker0_mapped_mb", "mb"),
    ],
    "Lists of all samples, and preparing": [
        ("`dataset.targets`, a list of ints", "lists", "targets", "both"),
        ("`dataset.samples`, a list of (path, label)", "lists", "samples", "both"),
        ("putting a record set together from its rows, peak memory", "preparation", "assemble", "peak"),
    ],
}


def render() -> str:
    """Make the section of the stored numbers."""
    known: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    names = sorted(known, key=int)
    columns = [known[name] for name in names]
    parts = []
    for title, lines in _TABLES.items():
        rows = [[what, *(_cell(column, *where) for column in columns)] for what, *where in lines]
        made = pages.table(("", *(f"{int(name):,}" for name in names)), rows, numbers=True)
        parts.append(f"### {title}\n\n{made}")
    return "\n\n".join([*parts, _prepared(known), columns[-1]["machine"]])


def _prepared(known: dict[str, Any]) -> str:
    """Say what putting together takes, by the most samples with which that was measured."""
    most = max(int(name) for name, column in known.items() if "preparation" in column)
    per_sample = known[str(most)]["preparation"]["assemble_peak_mb"] * 1e6 / most
    return (
        f"Putting a record set together takes {per_sample:.0f} bytes a sample, so about {per_sample / 10:.0f} GB for "
        "100 million: it holds all names as Python strings."
    )


def _cell(column: dict[str, Any], measure: str, name: str, unit: str) -> str:
    found = column.get(measure, {})
    if unit == "file":
        return _megabytes(sum(found.get(each, 0) for each in name.split("+")) / 1e6)
    if unit == "bytes":
        return f"{found[name]:,} bytes" if name in found else ""
    if unit == "mb":
        return _megabytes(found[name]) if name in found else ""
    time = _seconds(found[f"{name}_cpu_s"]) if f"{name}_cpu_s" in found else ""
    extra = found.get(f"{name}_peak_mb" if unit == "peak" else f"{name}_mb")
    parts = [time, "" if extra is None else _megabytes(extra)]
    return ", ".join(part for part in parts if part)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def _megabytes(value: float) -> str:
    return f"{max(0.0, value):,.0f} MB" if value >= 10 else f"{max(0.0, value):.1f} MB"
