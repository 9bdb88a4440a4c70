"""`docs/benchmarks-object-storage.md` and its charts, written from the numbers in a file beside it."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.common import machine, median
from benchmarks.object_storage.contestants import CONTESTANTS
from benchmarks.svg import draw
from recordzoo.bench.chart import Group

DOCS = Path(__file__).parent.parent.parent / "docs"
NUMBERS = DOCS / "benchmarks-object-storage.json"
PAGE = DOCS / "benchmarks-object-storage.md"
REQUIREMENTS = Path(__file__).parent.parent / "object-storage.txt"

TITLES = {"read": "Reading alone", "decode": "Batches for training"}
WHAT = {
    "read": "The bytes of each photograph are read, and not decoded: decoding on two cores would hide the link.",
    "decode": "Decoded, cropped at random to 224 x 224, flipped at random, normalised: batches of 64 in float32.",
}
OURS, LOCAL = "records", "local"
COLD_OF_LINK, CACHED_OF_LOCAL = 0.9, 0.98

_TITLE = "# Benchmarks from object storage"

_HEAD = """How long an epoch takes when the data is in object storage: the first one, when nothing is on this machine
yet (cold), and the next one, from the cache that the first one filled.

{charts}

{answer}

An S3 server (rclone's) runs on the same machine. A link in front of it delays each request by {latency_ms:.0f} ms, and
all connections share {link_mb:.0f} MB/s; four connections that throw the bytes away get {measured_mb:.0f} MB/s of it.
The data: {photos}, repeated up to {num_photos:,} files, {mb:,.0f} MB, written by each library itself into files of
about {shard_mb:.0f} MiB. Two worker processes or threads; the photographs come in shuffled order, as each library
shuffles what it streams. MB/s are those of the photographs; what a format adds counts against it.

Each run has a fresh process, whose imports are done before the clock starts. Before it the cache is emptied and the
kernel's caches are dropped, but for the server's own files. All take turns; medians of {repeats}. Server and link take
about a quarter of one of the cores from everybody.

```
make bench-object-storage PHOTOS=folder-with-photographs
```

makes an environment of its own with the versions of `benchmarks/object-storage.txt`, and needs root, to drop the
caches. One line alone: `LINE=read/records`. How each library is used is in `benchmarks/object_storage/`, a short file
each.
"""

_NOTES = """## How each library is used

- **recordzoo**: shuffled by blocks of 16 MiB, two of which are mixed at a time.
- **MosaicML Streaming**: its defaults, with `shuffle=True`. Its forked workers inherit the open connection to the
  server and mix up the answers: a shard was stored with the bytes of another one, which only a run with
  `validate_hash` would notice. The benchmark closes the connection before the workers start.
- **LitData**: its defaults, with `shuffle=True`. Its client refuses an endpoint without TLS and has no option for that;
  the benchmark sets the option in its module.
- **WebDataset**: shards in random order, then a buffer of 1,000 samples. It starts `curl` for each shard; for `s3://`
  its pages advise the `aws` program, whose start takes longer than the download of a shard here. With `cache_dir` a
  shard is downloaded before it is read; without, every epoch comes over the link.
"""


class Numbers:
    """The measured numbers: kept in the file after each measurement, for the page and to go on after an interruption.

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
        """Keep a measurement, and write page and charts."""
        self.runs(line).append(run)
        self._found |= {"machine": machine(), "versions": _versions()}
        NUMBERS.write_text(json.dumps(self._found, indent=1) + "\n", encoding="utf-8")
        for name, text in render().items():
            (DOCS / name).write_text(text, encoding="utf-8")


def render() -> dict[str, str]:
    """Make the page and the charts of the stored numbers: by the names of their files."""
    found = _stored()
    if not found:
        return {PAGE.name: f"{_TITLE}\n\nNot measured yet: run `make bench-object-storage` as root.\n"}
    files: dict[str, str] = {}
    settings, link = found["settings"], found["lines"].get("link", [])
    table = {work: _medians(found["lines"], work) for work in TITLES}
    charts = "\n\n".join(_chart(work, table[work], settings, files) for work in TITLES)
    head = _HEAD.format(
        charts=charts,
        answer=_answer(table, settings, link),
        latency_ms=settings["latency_s"] * 1000,
        link_mb=settings["link_bytes_per_s"] / 1e6,
        measured_mb=median(link) / 1e6 if link else 0,
        mb=settings["num_bytes"] / 1e6,
        shard_mb=settings["shard_bytes"] / (1 << 20),
        repeats=max((len(runs) for runs in found["lines"].values()), default=0),
        **{name: settings[name] for name in ("photos", "num_photos")},
    )
    sections = [_TITLE, head, *(_section(work, table[work], settings, link) for work in TITLES)]
    sections += [_targets(table, settings, link), _NOTES]
    sections.append(f"## Where and with what\n\n{found['machine']}; {found['versions']}")
    files[PAGE.name] = "\n\n".join(section.strip() for section in sections) + "\n"
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
    work: str, table: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any], link: Sequence[float]
) -> str:
    lines = []
    for name, each in table.items():
        label = CONTESTANTS[name].label
        if "problem" in each:
            lines.append((label, "did not run", each["problem"], "", "", "", "", ""))
            continue
        speeds = [
            f"{settings[what] / each[seconds] / scale:,.0f}"
            for seconds in ("cold_s", "cached_s")
            for what, scale in (("num_photos", 1), ("num_bytes", 1e6))
        ]
        cold_of_link = _times(_bytes_per_s(each, "cold_s", settings) / median(link)) if link else ""
        if CONTESTANTS[name].is_local:
            cold_of_link = ""
        first, cpu_ms = f"{each['first_batch_s']:.2f} s", each["cold_cpu_s"] * 1000 / settings["num_photos"]
        lines.append((label, *speeds[:2], cold_of_link, first, f"{cpu_ms:.2f} ms", *speeds[2:]))
    head = ("loader", "cold: photographs/s", "MB/s", "of the link", "first batch", "CPU a photograph")
    return f"## {TITLES[work]}\n\n{WHAT[work]}\n\n{_table((*head, 'from the cache: photographs/s', 'MB/s'), lines)}"


def _targets(table: Mapping[str, Any], settings: Mapping[str, Any], link: Sequence[float]) -> str:
    lines = []
    for work, found in table.items():
        ours, local = found.get(OURS, {}), found.get(LOCAL, {})
        if "cold_s" not in ours:
            continue
        if link:
            of_link = _times(_bytes_per_s(ours, "cold_s", settings) / median(link))
            lines.append((TITLES[work], "cold", "what the link gives", f"{COLD_OF_LINK:g}x", of_link))
        if "cached_s" in local:
            of_local = _times(local["cached_s"] / ours["cached_s"])
            lines.append((TITLES[work], "from the cache", "local records", f"{CACHED_OF_LOCAL:g}x", of_local))
        for name, each in found.items():
            if CONTESTANTS[name].module != CONTESTANTS[OURS].module and "cold_s" in each:
                for epoch, key in (("cold", "cold_s"), ("from the cache", "cached_s")):
                    times = _times(each[key] / ours[key])
                    lines.append((TITLES[work], epoch, CONTESTANTS[name].label, "more than 1x", times))
    return f"## What we aimed at\n\n{_table(('work', 'epoch', 'against', 'target', 'ours / theirs'), lines)}"


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


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows))
