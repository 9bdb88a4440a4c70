"""The page of the benchmark: a table with a column for each number of samples, made of the stored numbers."""

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent.parent / "docs"
NUMBERS = DOCS / "benchmarks-scale.json"
PAGE = DOCS / "benchmarks-scale.md"

_TEXT = """# 100 million samples

How a record set grows from a million samples to 100 million: opening, shuffling, resuming, memory. Samples are JPEGs
of 64 pixels, whose shard files are many names of one file; index, names and labels are real arrays of that length.
Each measure runs in a fresh process, without its imports. The files are in the page cache.

```
python -m benchmarks.scale --samples 1_000_000 10_000_000 100_000_000
```

{machine}

"s" and "ms" are CPU seconds of the process, of all its threads: other work on the machine does not change them. "MB" is
private memory that was added; of torch's samplers the peak. Of workers it is all that they have, torch included.

{tables}

## What the numbers say

- **Opening, shuffling and resuming do not grow with the number of samples**; the manifest does, with the numbers of
  shards and classes (here 10,000 and 100,000 for 100 million samples). A sampler's order is computed place by place,
  and its state is a few numbers. torch's samplers make a list of all indices in each epoch.
- **`shuffle="block"` reads the index once**, to see whether samples lie in the order of their indices. If they do,
  nothing is kept; otherwise, as with samples of less than 2 KB, 4 bytes a sample.
- **The first sample costs the CRC-32 of the index**, 24 bytes a sample, once a process. Labels, names and their offsets
  are compared when they are first used; names only if you ask for them.
- **The index is mapped**, so all processes share one copy, and it is page cache: the kernel may drop it and read it
  again.
- **Lists are Python's**: `samples` and `targets` of 100 million samples do not fit most machines. Use
  `RecordReader.array("target")` and `RecordReader.names`, which need no memory.
- **Preparing holds the names of all samples** as Python strings. At its peak, putting a set together takes
  {prepared}. The list of a tree's files, with
  sizes and times, takes about 300 bytes more for each sample (estimated from its columns).

## Why the index is one file

An index in parts, or with a checksum for each block, would save comparing all of it at the first sample. It was
measured above what that costs: the CRC-32 of the whole index, once a process. An epoch over so many samples takes
hours, and a shuffled one reads all of the index anyway. So the format stays as it is. If that changes, a file of
checksums of blocks can be added beside the index, without another version of the format: the blocks' CRC-32s, combined,
must give the one in the manifest.
"""

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


def write_page() -> None:
    PAGE.write_text(render(), encoding="utf-8")


def render() -> str:
    """Make the page of the stored numbers."""
    known: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8"))
    columns = [known[name] for name in sorted(known, key=int)]
    head = ["", *(f"{int(name):,}" for name in sorted(known, key=int))]
    tables = []
    for title, lines in _TABLES.items():
        rows = [head, ["---", *["---:"] * len(columns)]]
        rows += [[what, *(_cell(column, *where) for column in columns)] for what, *where in lines]
        tables.append(f"## {title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return _TEXT.format(machine=columns[-1]["machine"], tables="\n\n".join(tables), prepared=_prepared(known))


def _prepared(known: dict[str, Any]) -> str:
    """Say what putting together takes, by the most samples with which that was measured."""
    most = max(int(name) for name, column in known.items() if "preparation" in column)
    per_sample = known[str(most)]["preparation"]["assemble_peak_mb"] * 1e6 / most
    return f"{per_sample:.0f} bytes a sample, so about {per_sample / 10:.0f} GB for 100 million"


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
