"""Images per second by the number of cores: ``python -m benchmarks.scaling --photos FOLDER --page``.

1, 2, 4, ... cores of the machine, as `taskset` would choose them, with as many workers; and an estimate for 16. Run it
with the Python of ``make bench-peers`` to have FFCV and DALI beside the others.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import arguments, photographs
from benchmarks.peers.rows import Contestant, Row
from benchmarks.peers.run import AT_LEAST_S, folder_of, run_once, write_and_check
from benchmarks.peers.trees import find_tree
from benchmarks.peers.work import Work

NUMBERS = pages.DOCS / "benchmarks-scaling.json"
SECTION = "cores"
COUNTS = (1, 2, 4, 8, 16, 32)
ESTIMATED = 16
"""The number of cores to estimate, where a machine has fewer."""
LONGEST_S = 180
FEW = 4
"""Up to so many workers a small tree makes epochs that are long enough."""
TREES = {"originals": ("photos", "gigabyte"), "256": ("jpeg256", "many256")}
TITLES = {"originals": "Original photographs", "256": "256 pixels on the shorter side, JPEG 90"}

_TEXT = """\
## By the number of cores

Images a second on that many cores, with as many workers (times one core). Estimate: Amdahl's law.
`python -m benchmarks.scaling --photos ... --page`

{parts}

{origins}
"""

Numbers = dict[str, Any]  # Any: rows of the file


def row(name: str, workers: int) -> Row:
    """Declare what is compared, with so many workers."""
    tree = TREES[name][workers > FEW]
    others = [Contestant(*each, tree) for each in (("ImageFolder + DataLoader", "imagefolder"), ("FFCV", "ffcv"))]
    others.append(Contestant("DALI, CPU", "dali", tree))
    ours = Contestant("RecordLoader, exact", "record_loader", tree)
    return Row(TITLES[name], Work("uint8", workers=workers), ours, tuple((other, None) for other in others))


def measure(name: str, photos: Path | None, repeats: int, counts: list[int]) -> Numbers:
    """Return images per second by loader and number of cores, or why a loader did not run."""
    rates: dict[str, dict[str, float]] = {}
    problems: dict[str, str] = {}
    for workers in counts:
        found: dict[str, list[float]] = {}
        for _, (number, contestant) in itertools.product(range(repeats), enumerate(row(name, workers).contestants)):
            if contestant.label in problems:
                continue
            command = ["taskset", "--cpu-list", f"0-{workers - 1}", sys.executable, "-m", "benchmarks.scaling"]
            command += ["--only", name, "--one", str(number), str(workers)]
            command += ["--photos", os.fspath(photos)] if photos else []
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True, timeout=LONGEST_S
                )
            except subprocess.TimeoutExpired:
                problems[contestant.label] = f"no end in {LONGEST_S} s, cores: {workers}"
                continue
            except subprocess.CalledProcessError as err:
                last = (err.stderr.strip().splitlines() or ["?"])[-1]
                problems[contestant.label] = "not installed" if last.startswith("ModuleNotFoundError") else last
                continue
            last = done.stdout.splitlines()[-1]
            found.setdefault(contestant.label, []).append(float(last))
            print(f"{name}, {workers} cores, {contestant.label}: {float(last):,.0f} images/s", flush=True)
        for label, each in found.items():
            rates.setdefault(label, {})[str(workers)] = statistics.median(each)
    return {"repeats": repeats, "rates": rates, "problems": problems}


def measure_one(name: str, number: int, workers: int, photos: Sequence[bytes]) -> float:
    """Return the images per second of one loader, in this process and on its cores."""
    what = row(name, workers)
    contestant = what.contestants[number]
    tree = find_tree(contestant.tree, photos)
    if not folder_of(contestant, tree).exists():
        write_and_check(contestant, what.work, tree)
    return run_once(contestant, what.work, tree, AT_LEAST_S).images_per_s


def section(stored: Numbers) -> str:
    """Make the section, with its heading: nothing is on the page before it is measured."""
    rows = stored["rows"]
    parts = [f"{TITLES[name]}\n\n{table(found)}" for name, found in rows.items()]
    return _TEXT.format(parts="\n\n".join(parts), origins=pages.origins(rows))


def table(found: Numbers) -> str:
    """Make the table of a row, with an estimate, and with the loaders that did not run."""
    counts = sorted({count for rates in found["rates"].values() for count in rates}, key=int)
    is_estimated = len(counts) > 1 and int(counts[-1]) < ESTIMATED
    head = ("cores", *counts, *[f"{ESTIMATED}, estimate"] * is_estimated)
    lines = []
    for label, rates in found["rates"].items():
        cells = [_cell(rates[each], rates["1"]) if each in rates else "" for each in counts]
        lines.append([label, *cells, *[_cell(estimate(rates), rates["1"])] * is_estimated])
    lines += [[label, problem, *[""] * (len(head) - 2)] for label, problem in found["problems"].items()]
    return pages.table(head, lines, numbers=True)


def _cell(rate: float, one: float) -> str:
    return f"{rate:,.0f} ({rate / one:.2f}x)"


def estimate(rates: dict[str, float]) -> float:
    """Estimate the rate with `ESTIMATED` cores by Amdahl's law, from one core and the most that were measured."""
    most = max(map(int, rates))
    in_turn = (most * rates["1"] / rates[str(most)] - 1) / (most - 1)  # the share of the work that no core shares
    return rates["1"] / (max(0.0, in_turn) + (1 - max(0.0, in_turn)) / ESTIMATED)


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = arguments(__doc__ or "")
    parser.set_defaults(repeats=3)
    parser.add_argument("--only", choices=TITLES, action="append", help="default: both")
    parser.add_argument("--page", action="store_true", help=f"write the section {SECTION!r}")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)  # what `measure` calls: loader, workers
    options = parser.parse_args()
    photos, rows = photographs(options.photos), {}
    if options.one:
        number, workers = options.one
        print(measure_one(options.only[0], number, workers, photos))
        return
    for name in options.only or TITLES:
        rows[name] = measure(name, options.photos, options.repeats, [count for count in COUNTS if count <= cores])
        print(table(rows[name]), flush=True)
    if options.page:
        pages.keep(NUMBERS, rows, photos=len(photos))
        stored = json.loads(NUMBERS.read_text(encoding="utf-8"))
        pages.write_section(SECTION, section(stored))


if __name__ == "__main__":
    main()
