"""What a dataset of ImageNet's length costs to construct, to hold, to pickle, and to unpickle in a worker.

Against a list of (path, class) tuples of that length, which is what ImageFolder carries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import WORK, Line, arguments, fresh_folder, in_fresh_process, interleaved, median
from recordzoo.prepare import ensure
from recordzoo.recipes.base import BlobField
from recordzoo.recipes.folder import FolderRecipe
from recordzoo.records.reader import is_record_set
from recordzoo.sources.member import Member, Unit

NUM_RECORDS = 1_281_167
NUM_CLASSES = 1000


def name_of(number: int) -> str:
    """Return a name like ImageNet's."""
    wnid = f"n{number * NUM_CLASSES // NUM_RECORDS:08d}"
    return f"{wnid}/{wnid}_{number:07d}.JPEG"


class TinyUnit:
    """Members of a few bytes each, made up while they are read."""

    size_bytes = NUM_RECORDS * 16

    def members(self) -> Iterator[Member]:
        for number in range(NUM_RECORDS):
            data = number.to_bytes(16, "big")
            yield Member(name_of(number), len(data), lambda data=data: data)


@dataclass(frozen=True)
class TinySource:
    """`NUM_RECORDS` tiny members that nobody has on disk."""

    description = "tiny records"
    size_bytes = TinyUnit.size_bytes
    archives: tuple[Path, ...] = ()

    def fingerprint(self) -> str:
        return "tiny"

    def units(self, target_bytes: int) -> list[Unit]:
        return [TinyUnit()]


class TinyRecipe(FolderRecipe):
    """ImageFolder's recipe over them; "bytes", because no decoder would take them."""

    fields = {"image": BlobField("bytes")}  # noqa: RUF012

    def find(self, root: Path) -> TinySource:
        return TinySource()


_PRELUDE = """
import sys, time, pickle, os
def private_mb():
    return sum(int(l.split()[1]) for l in open("/proc/self/smaps_rollup") if l.startswith("Private_")) / 1000
"""

_OURS = (
    _PRELUDE
    + """
from recordzoo import ImageFolderRecord
from recordzoo.datasets import folder
before = private_mb()
start = time.perf_counter()
dataset = ImageFolderRecord(sys.argv[1])
length, label = len(dataset), dataset.targets[640_000]
took = time.perf_counter() - start
held = private_mb() - before
data = pickle.dumps(dataset)
print(took, held, len(data), length)
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
print(took, held, len(data), len(samples))
open(sys.argv[2], "wb").write(data)
"""
)

_UNPICKLE = (
    _PRELUDE
    + """
import torchvision.datasets, recordzoo.datasets.folder  # a worker has imported the user's script already
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
        fresh_folder("tiny-build")
        ensure(TinyRecipe(), WORK, records_dir=target, workers=1)
    held: dict[str, list[float]] = {"ours": [], "list": []}
    size: dict[str, int] = {}

    def construct(kind: str, code: str) -> float:
        took, megabytes, num_bytes, length = in_fresh_process(code, target, WORK / f"{kind}.pickle").split()
        assert int(length) == NUM_RECORDS
        held[kind].append(float(megabytes))
        size[kind] = int(num_bytes)
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
    what = f"{NUM_RECORDS:,} records: "
    wanted = ("50 ms", "50 ms", "10 MB", "2 KB")
    measured = (
        (f"{1000 * median(times['construct ours']):.1f} ms", "(scanning not counted)"),
        (
            f"{1000 * median(times['unpickle ours']):.1f} ms",
            f"{1000 * median(times['unpickle list']):.0f} ms",
        ),
        (f"{median(held['ours']):.1f} MB", f"{median(held['list']):.0f} MB"),
        (f"{size['ours']:,} bytes", f"{size['list'] / 1e6:.0f} MB"),
    )
    rows = ("construct, first label read", "unpickle in a new process", "private memory", "pickle")
    return [
        Line(what + row, f"list of (path, class): {theirs}", limit, ours)
        for row, limit, (ours, theirs) in zip(rows, wanted, measured, strict=True)
    ]


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(options.repeats):
        print(line)
