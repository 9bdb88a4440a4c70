"""Processor time and bytes that `merge` takes to add 1 % to a record set of ImageNet's length: target, under 3 s.

    python -m benchmarks.growing [--records 1281167] [--repeats 5]

Values are 1 KiB of random bytes: `merge` links shards, so the size of the images does not matter. Imports are not
counted. Prints one line.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.common import fresh_folder, in_fresh_process, machine, median
from benchmarks.open_cost import NUM_CLASSES, NUM_RECORDS
from recordzoo import RecordWriter

VALUE_BYTES = 1024
_MERGE = """
import sys, time, recordzoo
start = time.process_time()
recordzoo.merge(sys.argv[1:3], sys.argv[3])
print(time.process_time() - start)
"""


def write(path: Path, first: int, count: int) -> None:
    """Write records with names and labels like ImageNet's."""
    random = np.random.default_rng(first)
    classes = [f"n{label:08d}" for label in range(NUM_CLASSES)]
    with RecordWriter(path, classes=classes) as writer:
        for number in range(first, first + count):
            label = number % NUM_CLASSES
            name = f"{classes[label]}/{classes[label]}_{number:07d}.JPEG"
            writer.write({"name": name, "data": random.bytes(VALUE_BYTES), "target": label})


def own_bytes(records: Path) -> int:
    """Sum the sizes of the files that no other record set shares."""
    return sum(path.stat().st_size for path in records.rglob("*") if path.is_file() and path.stat().st_nlink == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=NUM_RECORDS)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    folder = fresh_folder("growing")
    more = options.records // 100
    write(folder / "first.records", 0, options.records)
    write(folder / "more.records", options.records, more)
    took, written = [], 0
    for number in range(options.repeats):
        grown = folder / f"grown-{number}.records"
        took.append(float(in_fresh_process(_MERGE, folder / "first.records", folder / "more.records", grown)))
        written = own_bytes(grown)
    print(
        f"merge {options.records:,} and {more:,} records: {median(took):.2f} s ({min(took):.2f} to {max(took):.2f}), "
        f"{written / 1e6:.1f} MB written, all shards shared. {machine()}"
    )


if __name__ == "__main__":
    main()
