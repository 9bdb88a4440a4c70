"""The section of the benchmark from object storage and its charts, made of the numbers in a file beside the page."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import machine, median
from benchmarks.object_storage.contestants import CONTESTANTS
from benchmarks.svg import Group, draw

NUMBERS = pages.DOCS / "benchmarks-object-storage.json"
SECTION = "object storage"
REQUIREMENTS = Path(__file__).parent.parent / "object-storage.txt"

TITLES = {"read": "Reading alone", "decode": "Batches for training"}
WHAT = {
    "read": "The bytes of each photograph are read, and not decoded: decoding on two cores would hide the link.",
    "decode": "Decoded, cropped at random to 224 x 224, flipped at random, normalised: batches of 64 in float32.",
}
OURS, LOCAL = "records", "local"
COLD_OF_LINK, CACHED_OF_LOCAL = 0.9, 0.98

_TEXT = """\
{answer}

Requests are delayed by {latency_ms:.0f} ms, and all connections share {link_mb:.0f} MB/s; four connections that throw
the bytes away get {measured_mb:.0f} MB/s of it. The data: {photos}, repeated up to {num_photos:,} files, {mb:,.0f} MB,
written by each library itself into files of about {shard_mb:.0f} MiB.

Tables: photographs a second, 1,000 of which have {per_1000:.0f} MB.

{works}

{targets}

Medians of {repeats}. {machine}; {versions}
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
        """Keep a measurement, and write section and charts."""
        self.runs(line).append(run)
        self._found |= {"machine": machine(), "versions": _versions()}
        NUMBERS.write_text(json.dumps(self._found, indent=1) + "\n", encoding="utf-8")
        pages.write(render())


def render() -> dict[str, str]:
    """Make the section and the charts of the stored numbers, by their names."""
    found = _stored()
    if not found:
        return {SECTION: "Not measured yet: run `make bench-object-storage` as root."}
    files: dict[str, str] = {}
    settings, link = found["settings"], found["lines"].get("link", [])
    medians = {work: _medians(found["lines"], work) for work in TITLES}
    files[SECTION] = _TEXT.format(
        answer=_answer(medians, settings, link),
        latency_ms=settings["latency_s"] * 1000,
        link_mb=settings["link_bytes_per_s"] / 1e6,
        measured_mb=median(link) / 1e6 if link else 0,
        mb=settings["num_bytes"] / 1e6,
        per_1000=settings["num_bytes"] / settings["num_photos"] / 1000,
        shard_mb=settings["shard_bytes"] / (1 << 20),
        repeats=max((len(runs) for runs in found["lines"].values()), default=0),
        works="\n\n".join(
            _section(work, medians[work], settings, link, _chart(work, medians[work], settings, files))
            for work in TITLES
        ),
        targets=_targets(medians, settings, link),
        **{name: settings[name] for name in ("photos", "num_photos")},
        machine=found["machine"],
        versions=", ".join(each for each in found["versions"].split(", ") if each not in found["machine"]),
    )
    return files


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


def _chart(
    work: str, table: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], files: dict[str, str]
) -> str:
    """Draw a work's chart, whose numbers are those of its table; returns what shows it on the page."""
    mb = settings["num_bytes"] / 1e6
    groups = [
        Group(CONTESTANTS[name].label, [mb / each["cold_s"], mb / each["cached_s"]], is_ours=name == OURS)
        for name, each in table.items()
        if "problem" not in each
    ]
    file, title = f"benchmarks-object-storage-{work}.svg", f"{TITLES[work]}: MB/s"
    files[file] = draw(groups, title, ("cold", "from the cache"))
    return f"![{title}]({file})"


def _section(
    work: str, table: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], link: Sequence[float], chart: str
) -> str:
    lines = []
    for name, each in table.items():
        label = CONTESTANTS[name].label
        if "problem" in each:
            lines.append((label, "did not run", each["problem"], "", ""))
            continue
        cold, cached = (f"{settings['num_photos'] / each[key]:,.0f}" for key in ("cold_s", "cached_s"))
        if link and not CONTESTANTS[name].is_local:
            cold += f" ({_times(_bytes_per_s(each, 'cold_s', settings) / median(link))})"
        cpu_ms = each["cold_cpu_s"] * 1000 / settings["num_photos"]
        lines.append((label, cold, f"{each['first_batch_s']:.2f}", f"{cpu_ms:.2f}", cached))
    head = ("loader", "cold (of the link)", "first batch, s", "CPU a photograph, ms", "from the cache")
    return f"### {TITLES[work]}\n\n{WHAT[work]}\n\n{chart}\n\n{pages.table(head, lines, numbers=True)}"


def _targets(medians: Mapping[str, Any], settings: Mapping[str, Any], link: Sequence[float]) -> str:
    found = []

    def add(what: str, wanted: float, times: float) -> None:
        found.append((what, f"{wanted:g}x", _times(times), times >= wanted))

    for work, each in medians.items():
        ours, local = each.get(OURS, {}), each.get(LOCAL, {})
        if "cold_s" not in ours:
            continue
        cold, cached = f"{TITLES[work]}, cold, against", f"{TITLES[work]}, from the cache, against"
        if link:
            of_link = _bytes_per_s(ours, "cold_s", settings) / median(link)
            add(f"{cold} what the link gives", COLD_OF_LINK, of_link)
        if "cached_s" in local:
            add(f"{cached} local records", CACHED_OF_LOCAL, local["cached_s"] / ours["cached_s"])
        for name, theirs in each.items():
            if CONTESTANTS[name].module != CONTESTANTS[OURS].module and "cold_s" in theirs:
                add(f"{cold} {CONTESTANTS[name].label}", 1, theirs["cold_s"] / ours["cold_s"])
                add(f"{cached} {CONTESTANTS[name].label}", 1, theirs["cached_s"] / ours["cached_s"])
    return pages.missed(found)


def _answer(table: Mapping[str, Any], settings: Mapping[str, Any], link: Sequence[float]) -> str:
    """Say the two ratios that most readers ask for, of both works."""
    parts = []
    for work, found in table.items():
        ours, local = found.get(OURS, {}), found.get(LOCAL, {})
        if "cold_s" in ours and "cached_s" in local and link:
            of_link = _bytes_per_s(ours, "cold_s", settings) / median(link)
            of_local = local["cached_s"] / ours["cached_s"]
            parts.append(
                f"{TITLES[work]}: when cold, records reach {_times(of_link)} of the link's speed; from the cache, "
                f"{_times(of_local)} of the speed of local records."
            )
    return "\n".join(parts)


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
