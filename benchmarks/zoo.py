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

from benchmarks.common import interleaved, machine, median, wait_for_compiling

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks-zoo.md"
SIDE, SAMPLES = 12, 2000
PROCESSES = 3
"""How many processes measure a class, one after another. How memory is laid out in a process, and nothing else, makes
decoding the same file in it up to a quarter faster or slower."""
MOST = 250  # times as many samples as in the tests; the other splits grow too
_BY_HAND = {"ImageFolder": "folder", "DatasetFolder": "folder", "CUB200": "cub200", "ImageNet": "imagenet"}
_BY_HAND |= {"VOCDetection": "voc", "VOCSegmentation": "voc"}
_HEAD = (
    "class",
    "samples",
    "processes",
    "construct",
    "its time / torchvision's",
    "samples/s",
    "its speed / torchvision's",
    "size / tree's",
)
_TEXT = """# Every class against torchvision's

Made by `make bench PAGE=zoo`; `python -m benchmarks.zoo --page CIFAR10 MNIST` measures some lines again. Each class and
torchvision's (for datasets that torchvision lacks: a plain reading of the tree) read one extracted tree and take turns;
medians of {repeats} repetitions in each process. How memory is laid out in a process makes decoding the same file up to
a quarter faster or slower, so lines of one process may be that far off. The trees are generated: about {samples:,}
samples with pictures of some hundred pixels, arrays of their real shape. An epoch takes each sample once, in random
order, through a `DataLoader` with 2 workers, without transforms. All is in the page cache: on a cold disk the
difference is [larger](benchmarks.md).

"Construct" is the time of the constructor once the record set is there; less than 1.00x is faster. "Samples/s" is of an
epoch; more than 1.00x is faster. "Size" is that of the record sets, beside that of the whole tree: some trees also hold
splits or archives that are not converted.

{machine}

{table}

## What the numbers say

- **Photographs: about the same speed.** Decoding takes most of the time on both sides. Opening a file that is in the
  page cache takes a few microseconds, so datasets with a file for each sample (iNaturalist, Caltech) are not twice as
  fast here. [RecordLoader](training.md) is what makes batches faster. `WIDERFaceRecord` reads the faces of each image
  from its record, torchvision has them all in memory.
- **HDF5: many times as fast.** torchvision's `PCAM` opens two files for each sample.
- **Small arrays: about three quarters of the speed.** torchvision's CIFAR, MNIST and the like hold all pixels in
  memory; here a record is read and its checksum compared, which takes some 20 µs more. After the first access to
  `data` our classes take samples from memory, too. `MovingMNIST` is the extreme: torchvision gives a view of an array
  in memory, ours reads and checks 82 kB. `DSprites` decodes a PNG for each sample: as pixels it would take 6 GB.
- **Construct: milliseconds.** It is slower than torchvision's where that does next to nothing for {samples:,} samples:
  Caltech, PCAM, idx files, short lists. `DatasetFolderRecord` scans the tree, too, if it is given a function that
  selects files. With COCO both read the annotation file; ours also looks up the record of each image.
"""


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


def line(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Make a line of the table."""
    construct = found["construct ours"], found["construct theirs"]
    epoch = found["epoch ours"], found["epoch theirs"]
    return (
        f"`{name}Record`",
        f"{found['samples']:,}",
        str(found["processes"]),
        f"{1000 * construct[0]:.1f} ms",
        f"{construct[0] / construct[1]:.2f}x",
        f"{found['samples'] / epoch[0]:,.0f}",
        f"{epoch[1] / epoch[0]:.2f}x",
        f"{found['records'] / found['tree']:.2f}x",
    )


def write_page(repeats: int, names: Sequence[str] = ()) -> None:
    """Measure all classes, or some, whose lines replace those of the page, and write the page."""
    old = PAGE.read_text(encoding="utf-8") if names else ""
    rest = [line.strip("| ").split(" | ") for line in old.splitlines() if line.startswith("| `")]
    lines: dict[str, Sequence[str]] = {cells[0]: cells for cells in rest}
    lines |= {f"`{name}Record`": in_process(name, repeats) for name in names or rows()}
    table = "\n".join(
        "| " + " | ".join(cells) + " |"
        for cells in (_HEAD, ["---"] * len(_HEAD), *(lines[name] for name in sorted(lines, key=str.lower)))
    )
    PAGE.write_text(_TEXT.format(repeats=repeats, samples=SAMPLES, machine=machine(), table=table), encoding="utf-8")


def in_process(name: str, repeats: int, side: int = SIDE) -> tuple[str, ...]:
    """Measure a class in processes whose fake is large; the others are left out or small."""
    sizes = {"COUNT": _times(name), "SIDE": side, "ONLY": _fake(name)}
    environment = {**os.environ, **{f"RECORDZOO_FAKE_{key}": str(value) for key, value in sizes.items()}}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.zoo", "--here", name, f"--repeats={repeats}"]
    runs = []
    for _ in range(PROCESSES):
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    times = {what: median([each for run in runs for each in run[what]]) for what in runs[0] if " " in what}
    cells = line(name, {**runs[0], **times, "processes": PROCESSES})
    print(" | ".join(cells), flush=True)
    return cells


def main() -> None:
    wait_for_compiling()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="classes, without their 'Record'")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", type=int, default=SIDE, help="how many times as wide and high pictures are")
    parser.add_argument("--page", action="store_true", help="write the lines of these classes into the page")
    parser.add_argument("--here", action="store_true", help="measure in this process and print the numbers as JSON")
    options = parser.parse_args()
    if options.page:
        write_page(options.repeats, options.names)
        return
    for name in options.names:
        if options.here:
            print(json.dumps(measure(name, options.repeats)))
        else:
            in_process(name, options.repeats, options.side)


if __name__ == "__main__":
    main()
