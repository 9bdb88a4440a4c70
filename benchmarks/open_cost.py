"""What a dataset of ImageNet's length costs to construct, to hold, to pickle, and to unpickle in a worker.

Against a list of (path, class) tuples of that length, which is what ImageFolder carries.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.common import WORK, Line, arguments, fresh_folder, in_fresh_process, interleaved, median
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import Member, Source, Unit
from recordzoo.recipes.folders import TREE_FILE, FolderRecipe
from recordzoo.records.manifest import BlobSpec
from recordzoo.records.reader import is_record_set

NUM_RECORDS = 1_281_167
NUM_CLASSES = 1000
TREE = WORK / "tiny"


def name_of(number: int) -> str:
    """Return a name like ImageNet's."""
    wnid = f"n{number * NUM_CLASSES // NUM_RECORDS:08d}"
    return f"{wnid}/{wnid}_{number:07d}.JPEG"


def tiny_members() -> Iterator[Member]:
    """Yield members of a few bytes each, made up while they are read."""
    for number in range(NUM_RECORDS):
        data = number.to_bytes(16, "big")
        yield Member(name_of(number), len(data), lambda data=data: data)


class TinySource(Source):
    """`NUM_RECORDS` tiny members that nobody has on disk."""

    description = "tiny records"
    size_bytes = NUM_RECORDS * 16

    def fingerprint(self) -> str:
        return "tiny"

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        return NUM_RECORDS * cost(16)

    def units(self, target_bytes: int) -> list[Unit]:
        return [Unit(tiny_members, self.size_bytes)]


class TinyRecipe(FolderRecipe):
    """ImageFolder's recipe over them; "bytes", because no decoder would take them."""

    fields = {"image": BlobSpec("bytes")}  # noqa: RUF012 - declared by Recipe, never changed

    def find(self, root: Path) -> TinySource:
        return TinySource()

    def extras(self) -> dict[str, bytes]:
        tree = {"": TREE} | {folder: TREE / folder for folder in {name_of(i).split("/")[0] for i in range(NUM_RECORDS)}}
        times = {name: path.stat().st_mtime_ns for name, path in tree.items()}
        return {TREE_FILE: json.dumps({"root": str(TREE.resolve()), "directories": times}).encode()}


_PRELUDE = """
import sys, time, pickle, os
def private_mb():
    return sum(int(l.split()[1]) for l in open("/proc/self/smaps_rollup") if l.startswith("Private_")) / 1000
"""

_OURS = (
    _PRELUDE
    + """
from recordzoo import ImageFolderRecord
from recordzoo.records.manifest import BlobSpec
import recordzoo.datasets.image_folder  # torch and all: not counted
before = private_mb()
start = time.perf_counter()
dataset = ImageFolderRecord(sys.argv[1])
length = len(dataset)
took = time.perf_counter() - start
data = pickle.dumps(dataset)
start = time.perf_counter()
dataset.read(640_000)
first = time.perf_counter() - start
held = private_mb() - before
start = time.perf_counter()
dataset.samples
print(took, first, held, len(data), length, time.perf_counter() - start, private_mb() - before)
open(sys.argv[2], "wb").write(data)
"""
)

_LIST = (
    _PRELUDE
    + """
before = private_mb()
start = time.perf_counter()
from benchmarks.open_cost import NUM_RECORDS, NUM_CLASSES, name_of
before = private_mb()
start = time.perf_counter()
samples = [("/data/imagenet/train/" + name_of(i), i * NUM_CLASSES // NUM_RECORDS) for i in range(NUM_RECORDS)]
took = time.perf_counter() - start
held = private_mb() - before
data = pickle.dumps(samples)
print(took, 0, held, len(data), len(samples), 0, 0)
open(sys.argv[2], "wb").write(data)
"""
)

_UNPICKLE = (
    _PRELUDE
    + """
import torchvision.datasets, recordzoo.datasets.image_folder  # a worker has imported the user's script already
data = open(sys.argv[1], "rb").read()
start = time.perf_counter()
thing = pickle.loads(data)
length = len(thing)
print(time.perf_counter() - start)
"""
)


def measure(repeats: int) -> list[Line]:
    target = WORK / "tiny.records"
    if not is_record_set(target):
        fresh_folder("tiny")
        for label in range(NUM_CLASSES):
            (TREE / f"n{label:08d}").mkdir()
        ensure(TinyRecipe(), WORK, records_dir=target, workers=1)
    held: dict[str, list[float]] = {"ours": [], "list": []}
    size: dict[str, int] = {}
    first: list[float] = []
    listing: list[float] = []
    listed: list[float] = []

    def construct(kind: str, code: str) -> float:
        took, more, megabytes, num_bytes, length, list_s, list_mb = in_fresh_process(
            code, TREE, WORK / f"{kind}.pickle"
        ).split()
        assert int(length) == NUM_RECORDS
        held[kind].append(float(megabytes))
        size[kind] = int(num_bytes)
        if kind == "ours":
            first.append(float(more))
            listing.append(float(list_s))
            listed.append(float(list_mb))
        return float(took)

    def unpickle(kind: str) -> float:
        return float(in_fresh_process(_UNPICKLE, WORK / f"{kind}.pickle"))

    times = interleaved(
        {
            "construct ours": lambda: construct("ours", _OURS),
            "construct list": lambda: construct("list", _LIST),
            "unpickle ours": lambda: unpickle("ours"),
            "unpickle list": lambda: unpickle("list"),
        },
        repeats,
    )

    def ms(name: str) -> str:
        return f"{1000 * median(times[name]):.1f} ms"

    index = f"{1000 * median(first):.1f} ms, with the index's CRC-32"
    samples = f"{1000 * median(listing):.0f} ms, {median(listed):.0f} MB"
    memory = f"{median(held['ours']):.1f} MB"
    rows = (
        ("construct, 1,000 directories", f"{ms('construct list')}, without the scan", "50 ms", ms("construct ours")),
        ("first record", "in memory", "", index),
        ("`samples` as a list, if it is accessed", ms("construct list"), "", samples),
        ("unpickle", ms("unpickle list"), "50 ms", ms("unpickle ours")),
        ("private memory", f"{median(held['list']):.0f} MB", "10 MB", memory),
        ("pickle", f"{size['list'] / 1e6:.0f} MB", "2 KB", f"{size['ours']:,} bytes"),
    )
    return [Line(row, theirs, wanted, ours) for row, theirs, wanted, ours in rows]


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(options.repeats):
        print(line)
