"""The section of the benchmark against other loaders, made of the stored numbers of its rows."""

import contextlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import machine, median
from benchmarks.pages import table
from benchmarks.peers.rows import ROWS

NUMBERS = pages.DOCS / "benchmarks-peers.json"
PEERS = Path(__file__).parent.parent / "peers.txt"

_FIRST = "fast"
"""The row of which the page also says what its loaders take."""


def keep(name: str, document: Mapping[str, Any]) -> None:
    """Put a row's numbers into the file, with the machine, the versions and the date."""
    rows = _rows()
    rows[name] = {"machine": machine(), "versions": _versions(), **document}
    NUMBERS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def render() -> dict[str, str]:
    """Make the section of all rows that there are, by its name."""
    return {"loaders": _loaders(_rows())}


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


def _targets(rows: Mapping[str, Any]) -> str:
    found = []
    for name in (name for name in ROWS if name in rows):
        row, times = rows[name], ratios(rows[name])
        for each in row["contestants"]:
            if wanted := each["wanted"]:
                reached = times[each["label"]] or 0
                what = f"`{name}`/{_brief(each['label'])}"
                found.append((what, f"{wanted:g}x", _times(times[each["label"]]), reached >= wanted))
        if wanted := row["wanted_per_s"]:
            ours = row["contestants"][0]
            is_reached = "median" in ours and ours["median"]["images_per_s"] >= wanted
            found.append((f"`{name}`", f"{wanted:,.0f}/s", f"{_speed(ours)}/s", is_reached))
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


def _title(name: str) -> str:
    title = ROWS[name].title
    return title[0].upper() + title[1:]


def _loaders(rows: Mapping[str, Any]) -> str:
    """Make the table of all rows, and say where they were measured."""
    names = [name for name in ROWS if name in rows]
    lines = [(f"`{name}`", _title(name), "; ".join(_line(rows[name]))) for name in names]
    parts = [table(("`ROW`", "work", "images a second (ratio to that without one)"), lines)]
    parts += [_costs(rows[_FIRST])] if _FIRST in rows else []
    parts += [_cold(rows["cold"])] if "cold" in rows else []
    notes = [ROWS[name].note for name in names if ROWS[name].note]
    origins = pages.origins({f"`{name}`": row for name, row in rows.items()})
    return "\n\n".join([*parts, " ".join([*notes, _targets(rows), origins])])


def _line(row: Mapping[str, Any]) -> list[str]:
    base, found = relative(row)
    lines = []
    for each in row["contestants"]:
        name = "" if each["label"] == row["ours"] else f"{_brief(each['label'])} "
        times = "" if each["label"] == base or "median" not in each else f" ({_times(found[each['label']])})"
        lines.append(f"{name}{_speed(each)}{times}")
    return [f"**{lines[0]}**", *lines[1:]]


def _brief(label: str) -> str:
    """Shorten a loader's label by what the row says already."""
    for said in ("RecordLoader, fast, ", "channels last, ", " + DataLoader", ", tiny"):
        label = label.replace(said, "")
    return label


def _costs(row: Mapping[str, Any]) -> str:
    """Make the table of what a row's loaders take."""
    lines = [
        (
            each["label"].partition(",")[0].removesuffix(" + DataLoader"),
            f"{each['median']['first_batch_s']:.2f}",
            f"{each['median']['memory_bytes'] / 1e6:,.0f}",
        )
        for each in row["contestants"]
        if "median" in each
    ]
    return table((f"`{_FIRST}`", "first batch, s", "memory, MB"), lines, numbers=True)


def _cold(cold: Mapping[str, Any]) -> str:
    if "problem" in cold:
        return f"Did not run: {cold['problem']}"
    slower = min(median(cold["sequential"]), median(cold["warm"]))
    of_slower = median(cold["cold"]) / slower
    speeds = {name: f"{median(cold[name]):,.0f}" for name in ("cold", "warm", "sequential")}
    return (
        f"`cold`: {cold['num_images']:,} photographs ({cold['num_bytes'] / 1e9:.2f} GB) in random order: "
        f"{speeds['cold']} a second from a cold disk, {speeds['warm']} warm; the disk in order gives "
        f"{speeds['sequential']}. Cold is {of_slower:.2f} of the slower of the other two."
    )


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
