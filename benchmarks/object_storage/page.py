"""The section of the benchmark from object storage, made of the numbers in a file beside the page."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import machine, median
from benchmarks.object_storage.contestants import CONTESTANTS

NUMBERS = pages.DOCS / "benchmarks-object-storage.json"
SECTION = "object-storage"
REQUIREMENTS = Path(__file__).parent.parent / "object-storage.txt"

TITLES = {"read": "bytes", "decode": "batches"}
_TEXT = """\
{table}

Requests wait {latency_ms:.0f} ms; connections share {link_mb:.0f} MB/s (four get {measured_mb:.0f}).
{num_photos:,} files, {mb:,.0f} MB; shards of {shard_mb:.0f} MiB. Medians of {repeats}; {machine}
"""


class Numbers:
    """The measured numbers: stored after each measurement, for the section and to go on after an interruption.

    Args:
        settings: What was measured with; numbers of other settings are dropped.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        stored = _stored()
        self._found = stored if stored.get("settings") == settings else {"settings": settings, "lines": {}}

    def forget(self, lines: Sequence[str]) -> None:
        """Drop what lines have."""
        for line in lines:
            self._found["lines"].pop(line, None)

    def runs(self, line: str) -> list[Any]:
        """Return what was measured of a line."""
        runs: list[Any] = self._found["lines"].setdefault(line, [])
        return runs

    def is_done(self, line: str, repeats: int) -> bool:
        """Whether a line was measured so often, or cannot be."""
        runs = self.runs(line)
        return len(runs) >= repeats or any(_problem(run) for run in runs)

    def add(self, line: str, run: Any) -> None:
        """Keep a measurement, and write the section."""
        self.runs(line).append(run)
        self._found |= {"machine": machine(), "versions": _versions()}
        NUMBERS.write_text(json.dumps(self._found, indent=1) + "\n", encoding="utf-8")
        pages.write(render())


def render() -> dict[str, str]:
    """Make the section of the stored numbers, by its name."""
    found = _stored()
    if not found:
        return {SECTION: "Not measured yet: run `make bench-object-storage` as root."}
    settings, link = found["settings"], found["lines"].get("link", [])
    medians = {work: _medians(found["lines"], work) for work in TITLES}
    text = _TEXT.format(
        table=_table(medians, settings, link),
        latency_ms=settings["latency_s"] * 1000,
        link_mb=settings["link_bytes_per_s"] / 1e6,
        measured_mb=median(link) / 1e6 if link else 0,
        mb=settings["num_bytes"] / 1e6,
        shard_mb=settings["shard_bytes"] / (1 << 20),
        repeats=max((len(runs) for runs in found["lines"].values()), default=0),
        num_photos=settings["num_photos"],
        machine=pages.in_short(found["machine"]),
    )
    return {SECTION: text}


def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    return found


def _problem(run: Any) -> str:
    return str(run.get("problem", "")) if isinstance(run, dict) else ""


def _medians(lines: Mapping[str, Any], work: str) -> dict[str, dict[str, Any]]:
    """Return the medians of each contestant that was measured, or what its problem is."""
    found: dict[str, dict[str, Any]] = {}
    for name in CONTESTANTS:
        runs = lines.get(f"{work}/{name}", [])
        problem = next(filter(None, map(_problem, runs)), "")
        if problem:
            found[name] = {"problem": problem}
        elif runs:
            found[name] = {key: median([run[key] for run in runs]) for key in runs[0]}
    return found


def _table(
    medians: Mapping[str, Mapping[str, Mapping[str, Any]]], settings: Mapping[str, Any], link: Sequence[float]
) -> str:
    lines = []
    for name, contestant in CONTESTANTS.items():
        cells = [
            _cells(found[name], settings, [] if contestant.is_local else link)
            for found in medians.values()
            if name in found
        ]
        if cells:
            lines.append((contestant.label, *(cell for pair in cells for cell in pair)))
    head = [f"{title}, {how}" for title in TITLES.values() for how in ("cold (of the link)", "cached")]
    return pages.table(("photographs a second", *head), lines, numbers=True)


def _cells(each: Mapping[str, Any], settings: Mapping[str, Any], link: Sequence[float]) -> tuple[str, str]:
    """Return the cells of a loader's work: photographs a second from the store and from the cache."""
    if "problem" in each:
        return "did not run", str(each["problem"])
    cold, cached = (f"{settings['num_photos'] / each[key]:,.0f}" for key in ("cold_s", "cached_s"))
    of_link = f" ({_times(_bytes_per_s(each, 'cold_s', settings) / median(link))})" if link else ""
    return cold + of_link, cached


def _bytes_per_s(run: Mapping[str, Any], key: str, settings: Mapping[str, Any]) -> float:
    speed: float = settings["num_bytes"] / run[key]
    return speed


def _versions() -> str:
    """List the packages of the environment with the versions that are installed, or that they are not."""
    found = []
    for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines():
        if name := line.partition("#")[0].partition("==")[0].strip():
            try:
                found.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                found.append(f"{name} not installed")
    return ", ".join(found)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x"
