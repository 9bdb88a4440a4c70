"""Reading every record once in random order in batches of 64, from a cold cache, in a fresh process.

Against an LMDB of the same values read one by one with ``readahead=False`` (the usual advice), and the files.
"""

import os
import random
from pathlib import Path

import lmdb

from benchmarks.common import (
    Line,
    arguments,
    drop_caches,
    fresh_folder,
    in_fresh_process,
    interleaved,
    many,
    median,
    photographs,
    ratio,
)
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe

BATCH = 64

_COMMON = """
import sys, time, random
folder, count = sys.argv[1], int(sys.argv[2])
order = list(range(count)); random.Random(7).shuffle(order)
"""
_OURS = (
    _COMMON
    + """
from recordzoo.records.reader import RecordReader
start = time.perf_counter()
reader = RecordReader(folder + "/tree.records")
total = 0
for first in range(0, count, 64):
    batch = order[first:first + 64]
    reader.hint("image", batch)
    for position in batch:
        total += len(reader.read("image", position))
print(time.perf_counter() - start, total)
"""
)
_LMDB = (
    _COMMON
    + """
import lmdb
start = time.perf_counter()
env = lmdb.open(folder + "/plain.lmdb", subdir=False, readonly=True, lock=False, readahead=False, meminit=False)
total = 0
with env.begin() as txn:
    for position in order:
        total += len(txn.get(position.to_bytes(4, "big")))
print(time.perf_counter() - start, total)
"""
)
_FILES = (
    _COMMON
    + """
start = time.perf_counter()
names = open(folder + "/names.txt").read().split("\\n")
total = 0
for position in order:
    with open(names[position], "rb") as file:
        total += len(file.read())
print(time.perf_counter() - start, total)
"""
)
_SEQUENTIAL = """
import sys, time
start = time.perf_counter()
total = 0
with open(sys.argv[1] + "/plain.lmdb", "rb", buffering=0) as file:
    while data := file.read(4 << 20):
        total += len(data)
print(time.perf_counter() - start, total)
"""


def build(folder: Path, photos: list[bytes], total_bytes: int) -> int:
    names = []
    env = lmdb.open(str(folder / "plain.lmdb"), subdir=False, lock=False, map_size=4 * total_bytes, sync=False)
    with env.begin(write=True) as txn:
        for number, data in enumerate(many(photos, total_bytes)):
            path = folder / "tree" / f"class{number * 40 // (total_bytes // 100_000):03d}" / f"{number:07d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            names.append(os.fspath(path))
            txn.put(number.to_bytes(4, "big"), data, append=True)
    env.sync(True)
    env.close()
    (folder / "names.txt").write_text("\n".join(names))
    ensure(FolderRecipe(), folder / "tree", prepare=True)
    return len(names)


def measure(photos: list[bytes], repeats: int, total_bytes: int = 1_000_000_000) -> list[Line]:
    folder = fresh_folder("cold")
    count = build(folder, photos, total_bytes)

    def run(code: str) -> float:
        drop_caches()
        took, total = in_fresh_process(code, folder, count).split()
        return float(took) * 1e9 / int(total)  # seconds a GB

    times = interleaved(
        {
            "recordzoo": lambda: run(_OURS),
            "lmdb": lambda: run(_LMDB),
            "files": lambda: run(_FILES),
            "sequential": lambda: run(_SEQUENTIAL),
        },
        repeats,
    )

    def speed(name: str) -> str:
        return f"{1000 / median(times[name]):.0f} MB/s"

    what = f"cold random reads (disk in order: {speed('sequential')})"
    return [
        Line(
            what if name == "lmdb" else "the same",
            f"{label}: {speed(name)}",
            wanted,
            f"{speed('recordzoo')}: {ratio(times[name], times['recordzoo']):.1f}x",
        )
        for name, label, wanted in (("lmdb", "LMDB, one by one", "6x"), ("files", "single files", "1.6x"))
    ]


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    random.seed(0)
    for line in measure(photographs(options.photos), options.repeats):
        print(line)
