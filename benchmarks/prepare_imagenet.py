"""Preparing a train archive (a tar of tars) from a cold cache, written through to the disk, its hash included.

Against `torchvision.datasets.ImageNet` preparing the same file; both check its MD5. Imports count: 2.5 s of CPU for
torchvision, which imports torch, and 0.3 s for recordzoo.
"""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path

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

NUM_CLASSES = 40
TRAIN = "ILSVRC2012_img_train.tar"

_OURS = """
import sys, time, os, resource, threading
from pathlib import Path
start = time.perf_counter()
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.net.url import RemoteFile
def peak(pids):
    total = 0
    for pid in pids:
        try:
            total += sum(int(l.split()[1]) for l in open(f"/proc/{pid}/smaps_rollup") if l.startswith("Pss:"))
        except OSError:
            pass
    return total / 1000
def family():
    mine, found = os.getpid(), [os.getpid()]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1]) == mine:
                found.append(int(pid))
        except OSError:
            pass
    return found
highest, stop = 0.0, threading.Event()
def watch():
    global highest
    while not stop.wait(0.25):
        highest = max(highest, peak(family()))
watching = sys.argv[3] == "watch"
if watching:
    threading.Thread(target=watch, daemon=True).start()
root = Path(sys.argv[1])
raw = (RemoteFile(name="ILSVRC2012_img_train.tar", md5=sys.argv[2]),)
ensure(dataset_recipe("imagenet", "train", raw), root, prepare=True)
os.sync()
stop.set()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(time.perf_counter() - start, sum(each.ru_utime + each.ru_stime for each in used), highest)
"""

_TORCHVISION = """
import sys, time, os, resource
start = time.perf_counter()
from torchvision.datasets import imagenet
imagenet.ARCHIVE_META["train"] = ("ILSVRC2012_img_train.tar", sys.argv[2])
imagenet.parse_train_archive(sys.argv[1])
os.sync()
used = resource.getrusage(resource.RUSAGE_SELF)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime)
"""


def build(folder: Path, photos: list[bytes], total_bytes: int) -> str:
    """Write a train archive in the real layout and return its MD5."""
    per_class = total_bytes // NUM_CLASSES
    images = many(photos, 2 * total_bytes)
    number = 0
    with tarfile.open(folder / TRAIN, "w") as outer:
        for label in range(NUM_CLASSES):
            wnid = f"n{1440764 + 331 * label:08d}"
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as inner:
                size = 0
                while size < per_class:
                    data = next(images)
                    info = tarfile.TarInfo(f"{wnid}_{number}.JPEG")
                    info.size = len(data)
                    inner.addfile(info, io.BytesIO(data))
                    size += len(data)
                    number += 1
            info = tarfile.TarInfo(f"{wnid}.tar")
            info.size = buffer.tell()
            buffer.seek(0)
            outer.addfile(info, buffer)
    with open(folder / TRAIN, "rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def measure(photos: list[bytes], repeats: int, total_bytes: int = 1_100_000_000) -> list[Line]:
    folder = fresh_folder("imagenet")
    md5 = build(folder, photos, total_bytes)
    size = (folder / TRAIN).stat().st_size
    cpu: dict[str, list[float]] = {}
    images = 0

    def run(name: str, code: str, *extra: str) -> list[float]:
        for made in ("train", "imagenet.train.records"):
            shutil.rmtree(folder / made, ignore_errors=True)
        drop_caches()
        result = [float(value) for value in in_fresh_process(code, folder, md5, *extra).split()]
        cpu.setdefault(name, []).append(result[1])
        return result

    def ours() -> float:
        nonlocal images
        took = run("recordzoo", _OURS, "")[0]
        images += sum(1 for _ in folder.rglob("*.JPEG"))
        return took

    runs = {"recordzoo": ours, "torchvision": lambda: run("torchvision", _TORCHVISION)[0]}
    times = interleaved(runs, repeats)
    memory = run("watched", _OURS, "watch")[2]
    shutil.rmtree(folder)
    return [
        Line(
            f"ImageNet's archive, {size / 1e9:.2f} GB, MD5 on both sides, imports included",
            f"torchvision: {median(times['torchvision']):.1f} s, {median(cpu['torchvision']):.1f} s of CPU",
            "1.5x; no image file; under 500 MB",
            f"{median(times['recordzoo']):.1f} s: {ratio(times['torchvision'], times['recordzoo']):.2f}x; "
            f"{median(cpu['recordzoo']):.1f} s of CPU; {memory:.0f} MB; {images} image files",
        )
    ]


if __name__ == "__main__":
    parser = arguments(__doc__ or "")
    parser.add_argument("--total-bytes", type=int, default=1_100_000_000)
    options = parser.parse_args()
    for line in measure(photographs(options.photos), options.repeats, options.total_bytes):
        print(line)
