"""`docs/benchmarks-peers.md` and its charts, written from the numbers that the rows left in a file beside it."""

import contextlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.common import machine, median
from benchmarks.peers.rows import ROWS
from benchmarks.svg import draw
from recordzoo.bench.chart import Group

DOCS = Path(__file__).parent.parent.parent / "docs"
NUMBERS = DOCS / "benchmarks-peers.json"
PAGE = DOCS / "benchmarks-peers.md"
PEERS = Path(__file__).parent.parent / "peers.txt"

_HEAD = """# Benchmarks against others

How many photographs a second become training batches: decoded, cropped at random to 224 x 224 (torchvision's scale and
ratio), flipped at random, batches of 64 in uint8, on two cores.

{chart}

{answer}

Everybody's loader does the same work on the same photographs, in turns, each time in a fresh process with two worker
processes or threads; warm, the first epoch not counted (FFCV compiles in it), medians. Machines differ and are noisy:
the ratios are what counts.

```
make bench-peers PHOTOS=folder-with-photographs
```

makes a virtual environment of its own with the peers at the versions of `benchmarks/peers.txt`; FFCV is compiled there
and needs `libturbojpeg0-dev libopencv-dev pkg-config`. SPDL needs the libraries of FFmpeg (`ffmpeg`). One row alone:
`ROW=fast`. dataloader-rs needs Python 3.13, and so an environment of its own:

```
make bench-peers PYTHON=python3.13 PEERS=benchmarks/.venv-peers-313 ROW=python313 PHOTOS=folder-with-photographs
```

How each peer is used is in `benchmarks/peers/`, a short file each.
"""

_FIRST = "fast"
"""The row whose chart opens the page."""

_EXACT = "exact"
"""The row with the same pixels as torchvision."""

_SHORT = """Where less than the target was reached (what is said of parts was measured by hand, on the machine below):

- Decoding a crop of an original is nine tenths Huffman decoding of all bits up to the crop's last row (0.81 of 0.87 ms
  for 107 KB), at the same speed in every decoder that is built on libjpeg-turbo. FFCV reads files
  that it has encoded anew, of 61 KB; `full` is the comparison with the same encoding on both sides.
- Of stored images of 256 pixels, decoding takes 0.27 ms of a crop's 0.38, so two cores that did nothing else would make
  7,500 images a second.
- Tried in November 2026 and left out, because it gave too little. *Huffman tables kept from image to image*: all that
  a JPEG costs besides its pixels (header, tables, Python) is 33 us, 4 % of a whole image of 256 pixels. *A batch sorted
  by size*, so that threads end together: 1,777 images a second of 1.10 ms already keep two cores busy for 98 % of the
  time. *Fewer DCT coefficients at half the size*: libjpeg-turbo decodes all bits in any case. *Huge pages for batches*:
  six pairs of runs, between 12 % slower and 10 % faster, no trend. Not tried: prefetching into the processor's cache,
  because a decoder reads a file once, from its start to its end: reading a value and comparing its CRC takes 17 us
  (58,214 a second in random order, above).
- Of an image of 16 x 16 pixels, decoding and resizing in compiled code take a tenth. The rest is Python, which decides
  for each image alone, in 140 calls. More images a second need decisions made for a whole batch at once.
"""


def keep(name: str, document: Mapping[str, Any]) -> None:
    """Put a row's numbers into the file, with the machine, the versions and the date."""
    rows = _rows()
    rows[name] = {"machine": machine(), "versions": _versions(), **document}
    NUMBERS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    """Write the page and the charts of all rows that there are."""
    for name, text in render().items():
        (DOCS / name).write_text(text, encoding="utf-8")


def render() -> dict[str, str]:
    """Make the page and the charts of all rows that there are: by the names of their files."""
    rows = _rows()
    files: dict[str, str] = {}
    sections = [_head(rows, files)]
    sections += [_row_section(name, rows[name], files) for name in ROWS if name in rows]
    if "cold" in rows:
        sections.append(_cold_section(rows["cold"]))
    if "storage" in rows:
        sections.append(_storage_section(rows["storage"], files))
    sections.append(_targets(rows))
    sections.append("## Where and with what\n\n" + "\n".join(_origins(rows)))
    files[PAGE.name] = "\n\n".join(section.strip() for section in sections) + "\n"
    return files


def ratios(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Divide the speed of a row's own loader by each of its contestants'; None where one of them did not run."""
    speeds = {
        each["label"]: each["median"]["images_per_s"] if "median" in each else None for each in row["contestants"]
    }
    ours = speeds[row["ours"]]
    return {label: ours / speed if ours and speed else None for label, speed in speeds.items()}


def _rows() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    return found


def answer() -> str:
    """Say in two sentences how many times as many images a second the loader makes as the others."""
    return _answer(_rows())


def _head(rows: Mapping[str, Any], files: dict[str, str]) -> str:
    """Open the page with the row that answers most readers' question."""
    chart = _chart(_FIRST, rows[_FIRST], files) if _FIRST in rows else ""
    return _HEAD.format(chart=chart, answer=_answer(rows))


def _answer(rows: Mapping[str, Any]) -> str:
    row = rows.get(_FIRST)
    if row is None:
        return ""
    base, found = relative(row)
    others = [f"{label} {_times(times)}" for label, times in found.items() if label not in (row["ours"], base)]
    mine = f"On two cores, `RecordLoader` in fast precision makes {_times(found[row['ours']])} as many as {base}"
    answer = "; ".join([mine, *others]) + "."
    if _EXACT in rows:
        base, found = relative(rows[_EXACT])
        answer += (
            f" In a run of its own, `RecordLoader` in exact precision, with torchvision's own pixels, makes "
            f"{_times(found[rows[_EXACT]['ours']])} as many as {base} in that run."
        )
    return answer


def _targets(rows: Mapping[str, Any]) -> str:
    lines = []
    for name in ROWS:
        row = rows.get(name)
        if row is None:
            continue
        found = ratios(row)
        for each in row["contestants"]:
            if each["wanted"]:
                lines.append((row["title"], each["label"], f"{each['wanted']:g}x", _times(found[each["label"]])))
        if row["wanted_per_s"]:
            lines.append((row["title"], "", f"{row['wanted_per_s']:,.0f}/s", f"{_speed(row['contestants'][0])}/s"))
    return "## What we aimed at\n\n" + _table(("work", "against", "target", "ours / theirs"), lines) + f"\n\n{_SHORT}"


def relative(row: Mapping[str, Any]) -> tuple[str, dict[str, float | None]]:
    """Divide each contestant's speed by that of ImageFolder, or of the first that is not ours and ran.

    Returns:
        Whom the others are compared to, and the ratios by label; None where one did not run.
    """
    speeds = {
        each["label"]: each["median"]["images_per_s"] if "median" in each else None for each in row["contestants"]
    }
    others = [label for label, speed in speeds.items() if speed and label != row["ours"]] or [row["ours"]]
    base = next((label for label in others if label.startswith("ImageFolder")), others[0])
    return base, {label: speed / speeds[base] if speed and speeds[base] else None for label, speed in speeds.items()}


def _chart(name: str, row: Mapping[str, Any], files: dict[str, str]) -> str:
    """Draw a row's chart, whose numbers are those of its table; returns what shows it on the page."""
    _, found = relative(row)
    groups = [
        Group(
            each["label"],
            [each["median"]["images_per_s"]],
            _times(found[each["label"]]),
            each["label"] == row["ours"],
        )
        for each in row["contestants"]
        if "median" in each
    ]
    file = f"benchmarks-{name}.svg"
    files[file] = draw(groups, "Images a second")
    return f"![{_title(row)}: images a second]({file})"


def _title(row: Mapping[str, Any]) -> str:
    title: str = row["title"]
    return title[0].upper() + title[1:]


def _row_section(name: str, row: Mapping[str, Any], files: dict[str, str]) -> str:
    base, found = relative(row)
    lines = [
        (
            each["label"],
            _speed(each),
            _times(found[each["label"]]),
            f"{each['median']['cpu_ms']:.2f} ms",
            f"{each['median']['first_batch_s']:.2f} s",
            f"{each['median']['memory_bytes'] / 1e6:,.0f} MB",
            each["batch"],
        )
        if "median" in each
        else (each["label"], "did not run", each["problem"], "", "", "", "")
        for each in row["contestants"]
    ]
    head = ("loader", "images/s", f"times {base}", "CPU an image", "first batch", "memory", "batches")
    chart = "" if name == _FIRST else f"{_chart(name, row, files)}\n\n"
    note = f" {ROWS[name].note}" if ROWS[name].note else ""
    return f"## {_title(row)}\n\n{chart}{_table(head, lines)}\n\nMedians of {row['repeats']} (`{name}`).{note}"


def _cold_section(cold: Mapping[str, Any]) -> str:
    if "problem" in cold:
        return f"## A cold epoch in random order\n\nDid not run: {cold['problem']}"
    slower = min(median(cold["sequential"]), median(cold["warm"]))
    lines = [(name, f"{median(cold[name]):,.0f}") for name in ("sequential", "warm", "cold")]
    return (
        "## A cold epoch in random order\n\n"
        f"{cold['num_images']:,} photographs, {cold['num_bytes'] / 1e9:.2f} GB; caches dropped before each cold epoch. "
        f"Target: 0.8 of the slower of the other two; measured: {median(cold['cold']) / slower:.2f}.\n\n"
        + _table(("", "images/s"), lines)
    )


def _storage_section(stores: Mapping[str, Any], files: dict[str, str]) -> str:
    lines, groups = [], []
    for name, store in stores.items():
        label = name.replace("_", " ")
        if not isinstance(store, dict):
            continue
        if "problem" in store:
            lines.append((label, "did not run", store["problem"], "", "", "", ""))
            continue
        speeds = [store[key] for key in ("in_order", "random", "cold", "workers")]
        size, written = f"{store['size_bytes'] / 1e6:,.0f} MB", f"{store['write_s']:.2f} s"
        lines.append((label, size, written, *(f"{speed:,.0f}" for speed in speeds)))
        groups.append(Group(label, [store["cold"], store["workers"]], size, name == "records"))
    title = "The bytes alone: values a second"
    series = ("in random order from a cold disk", "warm, by two workers of a DataLoader")
    files["benchmarks-storage.svg"] = draw(groups, "Values a second", series)
    head = ("store", "size", "written in", "in order", "random", "random, cold", "DataLoader, 2 workers")
    return (
        "## The bytes alone\n\n"
        f"![{title}](benchmarks-storage.svg)\n\n"
        "Values a second, nothing decoded (of raw pixels nothing is left to decode); records in batches that are "
        "announced to the kernel, the others one by one. Records are written with checksums and synced to the disk, "
        "and every value's checksum is compared when it is read. TFRecord in random order is what its index allows; "
        "its own readers go through files in order.\n\n" + _table(head, lines) + f"\n\nMedians of {stores['repeats']}."
    )


def _origins(rows: Mapping[str, Any]) -> list[str]:
    """Say of each machine and set of versions which rows were measured there."""
    where: dict[str, list[str]] = {}
    for name, row in rows.items():
        where.setdefault(f"{row['machine']}; {row['versions']}", []).append(f"`{name}`")
    return [f"- {', '.join(names)}: {place}" for place, names in where.items()]


def _versions() -> str:
    """List the peers that are installed, with their versions."""
    found = []
    for line in PEERS.read_text(encoding="utf-8").splitlines():
        name = line.partition("#")[0].partition("==")[0].strip()
        if name and name not in ("torch", "torchvision", "pillow", "numpy"):  # which `machine` names
            with contextlib.suppress(PackageNotFoundError):
                found.append(f"{name} {version(name)}")
    return ", ".join(found)


def _speed(contestant: Mapping[str, Any]) -> str:
    return f"{contestant['median']['images_per_s']:,.0f}" if "median" in contestant else "did not run"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))
