"""CIFAR-10's recipe: torchvision's class and record sets, with both loaders: ``python -m benchmarks.small_images``.

The images are random bytes in CIFAR-10's layout: nothing here depends on what they show. FFCV's loader, with its
example's steps for the same recipe, is measured where it is installed, as in the environment of `make bench-peers`.
"""

import importlib.util
import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import pages
from benchmarks.common import arguments, fresh_folder, in_fresh_process, interleaved, median
from recordzoo import CIFAR10Record

NUMBERS = pages.DOCS / "benchmarks-small.json"
SECTION = "small"
BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
NUM_IMAGES = 10_000  # of each batch
SOURCES = ("CIFAR10", "CIFAR10Record", "CIFAR10 and AutoAugment")
LOADERS = ("DataLoader", "RecordLoader")
FFCV = "FFCV"
WORKERS = (0, 2)

_TEXT = """\
{table}

{origins}
"""

_CODE = """
import sys, time
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import CIFAR10
from recordzoo import CIFAR10Record, RecordLoader
source, loader, workers, root = sys.argv[1:]
augmented = [T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)] if "AutoAugment" in source else []
transform = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), *augmented, T.ToTensor(),
                       T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))])
if "Record" not in source:
    CIFAR10._check_integrity = lambda self: True
    CIFAR10.meta = {**CIFAR10.meta, "md5": None}
    dataset = CIFAR10(root, transform=transform)
else:
    dataset = CIFAR10Record(root, transform=transform, check_hash=False)
kind = DataLoader if loader == "DataLoader" else RecordLoader
loader = kind(dataset, 256, shuffle=True, num_workers=int(workers), persistent_workers=int(workers) > 0)
for _ in loader:
    pass
start = time.perf_counter()
count = sum(len(labels) for images, labels in loader)
print(count / (time.perf_counter() - start), flush=True)
"""

_FFCV_CODE = """
import sys, time
import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from torchvision.datasets import CIFAR10
workers, root = sys.argv[1:]
CIFAR10._check_integrity = lambda self: True
CIFAR10.meta = {**CIFAR10.meta, "md5": None}
fields = {"image": RGBImageField(), "label": IntField()}
DatasetWriter(f"{root}/cifar.beton", fields, num_workers=2).from_indexed_dataset(CIFAR10(root))
mean, std = 255 * np.array((0.4914, 0.4822, 0.4465)), 255 * np.array((0.2470, 0.2435, 0.2616))
image = [SimpleRGBImageDecoder(), RandomTranslate(padding=4), RandomHorizontalFlip(),
         NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(convert_back_int16=False)]
loader = Loader(f"{root}/cifar.beton", 256, num_workers=int(workers), order=OrderOption.RANDOM, os_cache=True,
                drop_last=False, pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]})
for _ in loader:
    pass
start = time.perf_counter()
count = sum(len(labels) for images, labels in loader)
print(count / (time.perf_counter() - start), flush=True)
"""

Row = dict[str, Any]  # Any: numbers by loader


def write_images(root: Path) -> None:
    """Write batches in CIFAR-10's layout, and their record set."""
    folder, rng = root / "cifar-10-batches-py", np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name in BATCHES:
        names = [f"{name}_{number}.png" for number in range(NUM_IMAGES)]
        pixels, labels = rng.integers(0, 256, (NUM_IMAGES, 3072), np.uint8), rng.integers(0, 10, NUM_IMAGES).tolist()
        batch = {"batch_label": name, "labels": labels, "data": pixels, "filenames": names}
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    meta = {
        "label_names": [f"class {label}" for label in range(10)],
        "num_cases_per_batch": NUM_IMAGES,
        "num_vis": 3072,
    }
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, 2))
    CIFAR10Record(root, check_hash=False)


def measure(root: Path, repeats: int, sources: Sequence[str]) -> dict[str, Row]:
    """Measure the second epoch of some sources with each loader: images per second; FFCV beside all of them."""
    keys = [(source, loader, workers) for source in sources for workers in WORKERS for loader in LOADERS]
    runs: dict[str, Callable[[], float]] = {
        " ".join(map(str, key)): lambda key=key: float(in_fresh_process(_CODE, *key, root)) for key in keys
    }
    threads = (1, 2) if importlib.util.find_spec("ffcv") and len(sources) == len(SOURCES) else ()
    runs |= {f"{FFCV} {n}": lambda n=n: float(in_fresh_process(_FFCV_CODE, n, root).split()[-1]) for n in threads}
    values = interleaved(runs, repeats)
    of_ffcv = {
        f"{FFCV}, num_workers={n}": {"repeats": repeats, "medians": {FFCV: median(values[f"{FFCV} {n}"])}}
        for n in threads
    }
    return of_ffcv | {
        f"{source}, num_workers={workers}": {
            "repeats": repeats,
            "medians": {loader: median(values[f"{source} {loader} {workers}"]) for loader in LOADERS},
        }
        for source in sources
        for workers in WORKERS
    }


def table(rows: dict[str, Row]) -> str:
    """Make the table: theirs is `DataLoader` on the same dataset, or FFCV's loader on its own file."""
    lines = []
    for name, row in rows.items():
        if name.startswith(FFCV):
            lines.append((name, f"{row['medians'][FFCV]:,.0f}", ""))
            continue
        theirs, ours = (row["medians"][loader] for loader in LOADERS)
        lines.append((name, f"{theirs:,.0f}", f"{ours:,.0f} ({ours / theirs:.1f}x)"))
    return pages.table(("", "theirs", "RecordLoader"), lines, numbers=True)


def section(stored: Row) -> str:
    """Make the section from stored numbers."""
    return _TEXT.format(table=table(stored["rows"]), origins=pages.origins(stored["rows"]))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.set_defaults(repeats=3)
    parser.add_argument("--source", choices=SOURCES, action="append", help="only this; may be repeated")
    parser.add_argument("--page", action="store_true", help=f"write the section {SECTION!r}")
    options = parser.parse_args()
    root = fresh_folder("small-images")
    write_images(root)
    rows = measure(root, options.repeats, options.source or SOURCES)
    print(table(rows))
    if options.page:
        pages.keep(NUMBERS, rows)
        pages.write_section(SECTION, section(json.loads(NUMBERS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
