"""Every dataset class against torchvision's on the same extracted tree: constructing, an epoch, size on disk.

Trees are the tests' fakes with more samples, up to `SAMPLES`, and `SIDE` times as wide and high pictures. An epoch
takes every sample of the first configuration once, without transforms, in random order, through a `DataLoader` with 2
workers that are there already. All is in the page cache. Each class has a process of its own.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.common import interleaved, median, wait_for_compiling

ROOT = Path(__file__).parent.parent
NUMBERS = pages.DOCS / "benchmarks-zoo.json"
SECTION = "zoo"
SIDE, SAMPLES = 12, 2000
PROCESSES = 3
"""How many processes measure a class, one after another. How memory is laid out in a process, and nothing else, makes
decoding the same file in it up to a quarter faster or slower."""
MOST = 250  # times as many samples as in the tests; the other splits grow too
_BY_HAND = {"ImageFolder": "folder", "DatasetFolder": "folder"}
_HEAD = ("times torchvision's", "classes", "which")


def rows() -> dict[str, Any]:
    """Return the contract's rows with all that is tried, by the name of the dataset class."""
    from tests.contract import DECLARED, ROWS

    return {row.name: row for row in (*ROWS, *DECLARED) if not row.is_brief and " " not in row.name}


def _fake(name: str) -> str:
    """Return which fake has a class's raw files."""
    return _BY_HAND[name] if name in _BY_HAND else rows()[name].build.args[0].dataset


def _pair(row: Any, folder: str) -> Any:
    return row.build(Path(folder), "tree" if "tree" in row.sources else row.sources[0])


def _times(name: str) -> int:
    """Return how many times as many samples as in the tests are needed."""
    row = rows()[name]
    with tempfile.TemporaryDirectory() as folder:
        return min(MOST, math.ceil(SAMPLES / len(_pair(row, folder).both(**row.arguments)[1])))


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Measure a class in this process; times are in seconds, one for each repetition."""
    import torch
    from torch.utils.data import DataLoader

    row = rows()[name]
    with tempfile.TemporaryDirectory() as folder:
        pair = _pair(row, folder)
        theirs, ours = pair.both(**row.arguments)
        order = torch.randperm(len(ours), generator=torch.Generator().manual_seed(0)).tolist()[:SAMPLES]
        loaders = {
            kind: DataLoader(each, 32, sampler=order, num_workers=2, persistent_workers=True, collate_fn=_load)
            for kind, each in (("theirs", theirs), ("ours", ours))
        }

        def epoch(kind: str) -> float:
            begun = time.perf_counter()
            assert sum(loaders[kind]) == len(order)
            return time.perf_counter() - begun

        def construct(kind: str) -> float:
            make = pair.theirs if kind == "theirs" else pair.ours
            root = pair.their_root if kind == "theirs" else pair.our_root
            begun = time.perf_counter()
            make(root, **row.arguments)
            return time.perf_counter() - begun

        for kind in loaders:
            epoch(kind)  # starts the workers, fills the page cache
        runs: dict[str, Callable[[], float]] = {
            f"{what.__name__} {kind}": lambda what=what, kind=kind: what(kind)  # type: ignore[misc]  # defaults
            for what in (construct, epoch)
            for kind in loaders
        }
        times = interleaved(runs, repeats)
        records = sum(_bytes(path) for path in pair.our_root.parent.rglob("*.records"))
        return {"samples": len(order), "tree": _bytes(pair.their_root), "records": records, **times}


def _load(samples: list[Any]) -> int:  # Any: what the dataset gives
    """Decode images that torchvision's class left undecoded; give their number."""
    for sample in samples:
        image = sample[0] if isinstance(sample, tuple) else sample
        if hasattr(image, "load"):
            image.load()
    return len(samples)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of a class: the medians, and the ratios to torchvision's."""
    construct = found["construct ours"], found["construct theirs"]
    epoch = found["epoch ours"], found["epoch theirs"]
    return {
        "samples": found["samples"],
        "construct_ms": round(1000 * construct[0], 1),
        "construct_times": round(construct[0] / construct[1], 2),
        "samples_per_s": round(found["samples"] / epoch[0]),
        "speed_times": round(epoch[1] / epoch[0], 2),
        "size_times": round(found["records"] / found["tree"], 2),
    }


def render() -> str:
    """Make the section of the stored numbers: how many classes are how fast, and which are slowest."""
    stored = json.loads(NUMBERS.read_text(encoding="utf-8"))["rows"]
    speeds = sorted((row["speed_times"], name) for name, row in stored.items())
    bounds = ((0.0, 0.7, "below 0.70x"), (0.7, 0.9, "to 0.90x"), (0.9, 1.1, "to 1.10x"), (1.1, math.inf, "more"))
    lines = []
    for low, high, what in bounds:
        found = [(times, name) for times, name in speeds if low <= times < high]
        ends = found if high == bounds[0][1] else [found[0], found[-1]]
        lines.append((what, str(len(found)), ", ".join(f"{name} {times:.2f}x" for times, name in ends)))
    construct, size = (sorted(row[key] for row in stored.values()) for key in ("construct_ms", "size_times"))
    return (
        f"{pages.table(_HEAD, lines)}\n\n"
        f"Medians: {median(construct):.1f} ms to construct (at most {construct[-1]:.0f} ms), "
        f"{median(size):.2f} times the tree's bytes. Each class, with machine and date: "
        f"[benchmarks-zoo.json](benchmarks-zoo.json)."
    )


def write_page(repeats: int, names: Sequence[str] = ()) -> None:
    """Measure all classes, or some, and write the section."""
    run = f"{PROCESSES} processes, medians of {repeats}"
    pages.keep(NUMBERS, {name: {"run": run, **in_process(name, repeats)} for name in names or rows()})
    pages.write_section(SECTION, render())


def in_process(name: str, repeats: int, side: int = SIDE) -> dict[str, Any]:
    """Measure a class in processes whose fake is large; the others are left out or small."""
    sizes = {"COUNT": _times(name), "SIDE": side, "ONLY": _fake(name)}
    environment = {**os.environ, **{f"RECORDZOO_FAKE_{key}": str(value) for key, value in sizes.items()}}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.zoo", "--here", name, f"--repeats={repeats}"]
    runs = []
    for _ in range(PROCESSES):
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    times = {what: median([each for run in runs for each in run[what]]) for what in runs[0] if " " in what}
    result = numbers({**runs[0], **times})
    print(name, result, flush=True)
    return result


def main() -> None:
    wait_for_compiling()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="classes, without their 'Record'; default: all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", type=int, default=SIDE, help="how many times as wide and high pictures are")
    parser.add_argument("--page", action="store_true", help="store the numbers of these classes and write the section")
    parser.add_argument("--here", action="store_true", help="measure in this process and print the numbers as JSON")
    options = parser.parse_args()
    if options.page:
        write_page(options.repeats, options.names)
        return
    for name in options.names or rows():
        if options.here:
            print(json.dumps(measure(name, options.repeats)))
        else:
            in_process(name, options.repeats, options.side)


if __name__ == "__main__":
    main()
