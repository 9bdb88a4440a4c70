"""The sections of the benchmark against other loaders, and its charts, made of the stored numbers of its rows."""

import contextlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import machine, median
from benchmarks.pages import folded, in_short, table
from benchmarks.peers.rows import ROWS
from benchmarks.svg import Group, draw

NUMBERS = pages.DOCS / "benchmarks-peers.json"
PEERS = Path(__file__).parent.parent / "peers.txt"

_FIRST = "fast"
"""The row whose chart opens the page."""

_EXACT = "exact"
"""The row with the same pixels as torchvision."""


def keep(name: str, document: Mapping[str, Any]) -> None:
    """Put a row's numbers into the file, with the machine, the versions and the date."""
    rows = _rows()
    rows[name] = {"machine": machine(), "versions": _versions(), **document}
    NUMBERS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def render() -> dict[str, str]:
    """Make the sections and the charts of all rows that there are, by their names."""
    rows, files = _rows(), dict[str, str]()
    chart = _chart(_FIRST, rows[_FIRST], files) if _FIRST in rows else ""
    files["answer"] = f"{chart}\n\n{_answer(rows)}"
    files["loaders"] = "\n\n".join(_row_section(name, rows[name], files) for name in ROWS if name in rows)
    files["loaders, targets"] = _targets(rows)
    files["loaders, versions"] = folded("All versions, by row", "\n".join(_origins(rows)))
    files["cold epoch"] = _cold_section(rows["cold"]) if "cold" in rows else ""
    files["stores"] = _storage_section(rows["storage"], files) if "storage" in rows else ""
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
        times = _times(found[rows[_EXACT]["ours"]])
        answer += (
            f" In another run, with torchvision's own pixels (exact precision), it makes {times} as many as {base}."
        )
    return answer


def _targets(rows: Mapping[str, Any]) -> str:
    found = []
    for row in (rows[name] for name in ROWS if name in rows):
        times = ratios(row)
        for each in row["contestants"]:
            if wanted := each["wanted"]:
                reached = times[each["label"]] or 0
                what = f"{_title(row)}, against {each['label']}"
                found.append((what, f"{wanted:g}x", _times(times[each["label"]]), reached >= wanted))
        if wanted := row["wanted_per_s"]:
            ours = row["contestants"][0]
            is_reached = "median" in ours and ours["median"]["images_per_s"] >= wanted
            found.append((_title(row), f"{wanted:,.0f}/s", f"{_speed(ours)}/s", is_reached))
    return pages.missed(found)


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
            f"{_speed(each)} ({_times(found[each['label']])})",
            f"{each['median']['cpu_ms']:.2f}",
            f"{each['median']['first_batch_s']:.2f}",
            f"{each['median']['memory_bytes'] / 1e6:,.0f}",
            each["batch"].partition(", ")[2].removesuffix(" in memory"),
        )
        if "median" in each
        else (each["label"], "did not run", each["problem"], "", "", "")
        for each in row["contestants"]
    ]
    head = ("loader", f"images/s (times {base})", "CPU an image, ms", "first batch, s", "memory, MB", "layout")
    shown = table(head, lines, numbers=True)
    if name != _FIRST:  # whose chart opens the page
        shown = f"{_chart(name, row, files)}\n\n{folded('CPU, first batch, memory', shown)}"
    note = f"\n\n{ROWS[name].note}" if ROWS[name].note else ""
    return f"### {_title(row)}\n\n{shown}{note}\n\n{_measured(name, row, row['repeats'])}"


def _measured(name: str, row: Mapping[str, Any], repeats: int) -> str:
    return f"`ROW={name}`; medians of {repeats}; {in_short(row['machine'])}."


def _cold_section(cold: Mapping[str, Any]) -> str:
    if "problem" in cold:
        return f"Did not run: {cold['problem']}"
    slower = min(median(cold["sequential"]), median(cold["warm"]))
    lines = [(name, f"{median(cold[name]):,.0f}") for name in ("sequential", "warm", "cold")]
    of_slower = median(cold["cold"]) / slower
    return (
        f"{cold['num_images']:,} photographs, {cold['num_bytes'] / 1e9:.2f} GB. Cold: {of_slower:.2f} of the slower of "
        "the other two (target: 0.8).\n\n"
        f"{table(('', 'images/s'), lines, numbers=True)}\n\n{_measured('cold', cold, len(cold['cold']))}"
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
        size = f"{store['size_bytes'] / 1e6:,.0f}"
        lines.append((label, size, f"{store['write_s']:.2f}", *(f"{speed:,.0f}" for speed in speeds)))
        groups.append(Group(label, [store["cold"], store["workers"]], f"{size} MB", name == "records"))
    series = ("in random order from a cold disk", "warm, by two workers of a DataLoader")
    files["benchmarks-storage.svg"] = draw(groups, "Values a second", series)
    head = ("store", "size, MB", "written in, s", "in order", "random", "random, cold", "DataLoader, 2 workers")
    return (
        "![The bytes alone: values a second](benchmarks-storage.svg)\n\n"
        f"{table(head, lines, numbers=True)}\n\n{_measured('storage', stores, stores['repeats'])}"
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
