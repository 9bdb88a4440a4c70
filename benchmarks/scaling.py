"""Images per second by the number of threads or processes: ``python -m benchmarks.scaling --photos FOLDER --page``.

1, 2, 4, ... workers, as many as the machine has cores at most. Run it with the Python of ``make bench-peers`` to have
FFCV and DALI beside the others.
"""

import json
import os
from typing import Any

from benchmarks import pages
from benchmarks.common import arguments, machine, photographs
from benchmarks.peers.rows import Contestant, Row
from benchmarks.peers.run import run_row
from benchmarks.peers.work import Work

NUMBERS = pages.DOCS / "benchmarks-scaling.json"
SECTION = "cores"
COUNTS = (1, 2, 4, 8, 16, 32)
FEW = 4
"""Up to so many workers a small tree makes epochs that are long enough."""
TREES = {"originals": ("photos", "gigabyte"), "256": ("jpeg256", "many256")}
TITLES = {"originals": "Original photographs", "256": "256 pixels on the shorter side, JPEG 90"}

_TEXT = """\
## By the number of cores

Images per second with 1, 2, 4, ... workers, up to {most} on {cores} cores: processes of `DataLoader`, threads of the
others. RandomResizedCrop 224, flip, batches of 64 in uint8, everything in the page cache. In parentheses: times the
same loader with one worker.

{parts}

All read the same files, or what they stored of them; FFCV re-encodes the images. The loaders take turns, each in a
fresh process, the first epoch not counted; medians of {repeats}. {photos}. {machine}

```
python -m benchmarks.scaling --photos folder-with-photographs --page
```
"""

Numbers = dict[str, Any]  # Any: rows of the file


def row(name: str, workers: int) -> Row:
    """Declare what is compared, with so many workers."""
    tree = TREES[name][workers > FEW]

    def ours(label: str, **loader: str) -> Contestant:
        return Contestant(label, "record_loader", tree, loader=loader)

    others = [Contestant(*each, tree) for each in (("ImageFolder + DataLoader", "imagefolder"), ("FFCV", "ffcv"))]
    others += [ours("RecordLoader, fast", precision="fast", layout="NHWC"), Contestant("DALI, CPU", "dali", tree)]
    work = Work("uint8", workers=workers)
    return Row(TITLES[name], work, ours("RecordLoader, exact"), tuple((other, None) for other in others))


def measure(name: str, photos: list[bytes], repeats: int, counts: list[int]) -> Numbers:
    """Return images per second by loader and number of workers, or why a loader did not run."""
    rates: dict[str, dict[str, float]] = {}
    problems: dict[str, str] = {}
    for workers in counts:
        print(f"{name}, {workers} workers", flush=True)
        for each in run_row(row(name, workers), photos, repeats)["contestants"]:
            if "problem" in each:
                is_absent = each["problem"].startswith("ModuleNotFoundError")
                problems[each["label"]] = "not installed" if is_absent else each["problem"]
            else:
                rates.setdefault(each["label"], {})[str(workers)] = each["median"]["images_per_s"]
    return {"repeats": repeats, "rates": rates, "problems": problems}


def section(stored: Numbers) -> str:
    """Make the section, with its heading: nothing is on the page before it is measured."""
    rows = stored["rows"]
    parts = [f"### {TITLES[name]}\n\n{table(found)}" for name, found in rows.items()]
    counts = [int(count) for found in rows.values() for rates in found["rates"].values() for count in rates]
    return _TEXT.format(
        **{key: stored[key] for key in ("machine", "photos", "cores")},
        parts="\n\n".join(parts),
        most=max(counts),
        repeats=" or ".join(map(str, sorted({found["repeats"] for found in rows.values()}))),
    )


def table(found: Numbers) -> str:
    """Make the table of a row, with the loaders that did not run."""
    counts = sorted({count for rates in found["rates"].values() for count in rates}, key=int)
    lines = []
    for label, rates in found["rates"].items():
        cells = [f"{rates[each]:,.0f} ({rates[each] / rates['1']:.2f}x)" if each in rates else "" for each in counts]
        lines.append([label, *cells])
    lines += [[label, problem, *[""] * (len(counts) - 1)] for label, problem in found["problems"].items()]
    return pages.table(("workers", *counts), lines, numbers=True)


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    parser = arguments(__doc__ or "")
    parser.set_defaults(repeats=3)
    parser.add_argument("--only", choices=TITLES, action="append", help="default: both")
    parser.add_argument("--page", action="store_true", help=f"write the section {SECTION!r}")
    options = parser.parse_args()
    photos, rows = photographs(options.photos), {}
    for name in options.only or TITLES:
        rows[name] = measure(name, photos, options.repeats, [count for count in COUNTS if count <= cores])
        print(table(rows[name]), flush=True)
    if options.page:
        kind = "real" if options.photos else "generated"
        about = {"machine": machine(), "cores": cores, "photos": f"{len(photos)} {kind} photographs, repeated"}
        pages.keep(NUMBERS, rows, about)
        stored = json.loads(NUMBERS.read_text(encoding="utf-8"))
        pages.write_section(SECTION, section(stored))


if __name__ == "__main__":
    main()
