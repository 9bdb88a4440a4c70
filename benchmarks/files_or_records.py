"""A folder of files or a record set, with which loader: ``python -m benchmarks.files_or_records --photos FOLDER``.

From a cold disk, where opening a file takes long, at the start with a million files, and from the page cache.
"""

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks import pages
from benchmarks.common import (
    arguments,
    can_drop_caches,
    fresh_folder,
    in_fresh_process,
    interleaved,
    many,
    median,
    photographs,
)
from benchmarks.recipes_data import write_classes
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe

NUMBERS = pages.DOCS / "benchmarks-files.json"
SECTION = "files"
READERS = ("files, DataLoader", "files, RecordLoader", "records, RecordLoader")
WORKERS = 2
SMALL_BYTES, FEW_BYTES, WARM_BYTES, COLD_BYTES = 10_000_000, 50_000_000, 110_000_000, 1_000_000_000
NUM_FILES, NUM_CLASSES = 1_280_000, 1_000
OPENS_MS = (1, 5, 20)

_TEXT = """\
{table}

{origins}
"""

_CODE = f"""
import sys, time
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from benchmarks.common import drop_caches
from recordzoo import ImageFolderRecord, RecordLoader
reader, measured, tree, small = sys.argv[1:]
transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                       T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
def opened(tree):
    dataset = (ImageFolderRecord if reader.startswith("records") else ImageFolder)(tree, transform)
    kind = RecordLoader if reader.endswith("RecordLoader") else DataLoader
    return kind(dataset, 64, shuffle=True, num_workers={WORKERS}, persistent_workers=True)
def count(loader):
    return sum(len(labels) for images, labels in loader)
count(opened(small))
if measured == "second epoch":
    loader = opened(tree)
    count(loader)
else:
    drop_caches()
start = time.perf_counter()
if measured == "first batch":
    next(iter(opened(tree)))
    print(time.perf_counter() - start, flush=True)
else:
    print(count(loader if measured == "second epoch" else opened(tree)) / (time.perf_counter() - start), flush=True)
"""

Row = dict[str, Any]  # Any: numbers by reader, and what they are


def readers(measured: str, tree: Path, small: Path, repeats: int) -> Row:
    """Measure the readers of a tree: images per second, or seconds to the first batch."""
    runs: dict[str, Callable[[], float]] = {
        reader: lambda reader=reader: float(in_fresh_process(_CODE, reader, measured, tree, small))
        for reader in READERS
    }
    values = interleaved(runs, repeats)
    medians = {reader: median(values[reader]) for reader in READERS}
    return {"measured": measured, "repeats": repeats, "medians": medians}


def write_links(photos: list[bytes], tree: Path, num_files: int) -> None:
    """Write class folders of hard links to small images, and their record set."""
    seeds = tree.parent / "seeds"
    seeds.mkdir()
    for number, data in enumerate(photos):
        buffer = io.BytesIO()
        Image.open(io.BytesIO(data)).convert("RGB").resize((32, 32)).save(buffer, "JPEG")
        (seeds / f"{number}.jpg").write_bytes(buffer.getvalue())
    for label in range(NUM_CLASSES):
        (tree / f"n{label:08d}").mkdir(parents=True)
    sources = itertools.cycle(sorted(map(str, seeds.iterdir())))
    for number in range(num_files):
        wnid = f"n{number % NUM_CLASSES:08d}"
        os.link(next(sources), f"{tree}/{wnid}/{wnid}_{number}.JPEG")
    start = time.perf_counter()
    ensure(FolderRecipe(), tree, prepare=True)
    print(f"  {num_files:,} files prepared in {time.perf_counter() - start:.0f} s", file=sys.stderr)


@contextlib.contextmanager
def slow_opens(folder: Path, delay_ms: int, python: Path) -> Iterator[None]:
    """Put over a folder a file system of the same contents, in which each `open` takes longer."""
    behind = folder.with_name(f"{folder.name}-behind")
    folder.rename(behind)
    folder.mkdir()
    script = Path(__file__).with_name("slow_opens.py")
    server = subprocess.Popen([python, script, behind, folder, str(delay_ms)])
    try:
        while not folder.is_mount():
            if server.poll() is not None:
                raise RuntimeError(f"{script} ended with {server.returncode}")
            time.sleep(0.05)
        yield
    finally:
        subprocess.run(["umount", folder], check=False)
        server.wait()
        folder.rmdir()
        behind.rename(folder)


def build(name: str, photos: list[bytes], num_bytes: float) -> Path:
    """Write class folders and their record set; return the folders' parent."""
    folder = fresh_folder(f"files-{name}")
    write_classes(many(photos, int(num_bytes)), folder / "tree")
    return folder


def measure_cold(photos: list[bytes], small: Path, repeats: int, scale: float, python: Path) -> dict[str, Row]:
    folder = build("cold", photos, scale * COLD_BYTES)
    found = readers("first epoch", folder / "tree", small, repeats)
    shutil.rmtree(folder)
    return {f"cold local disk, {scale * COLD_BYTES / 1e9:g} GB": found}


def measure_opens(photos: list[bytes], small: Path, repeats: int, scale: float, python: Path) -> dict[str, Row]:
    folder, found = build("opens", photos, scale * FEW_BYTES), {}
    for delay_ms in OPENS_MS:
        with slow_opens(folder, delay_ms, python):
            found[f"{delay_ms} ms an open"] = readers("second epoch", folder / "tree", small, repeats)
    return found


def measure_first(photos: list[bytes], small: Path, repeats: int, scale: float, python: Path) -> dict[str, Row]:
    folder, num_files = fresh_folder("files-linked"), int(scale * NUM_FILES)
    try:
        write_links(photos, folder / "tree", num_files)
        found = readers("first batch", folder / "tree", small, repeats)
        return {f"first batch of {num_files:,} small files, cold": found}
    finally:
        shutil.rmtree(folder)


def measure_warm(photos: list[bytes], small: Path, repeats: int, scale: float, python: Path) -> dict[str, Row]:
    return {"warm": readers("second epoch", build("warm", photos, scale * WARM_BYTES) / "tree", small, repeats)}


MEASURES = {"cold": measure_cold, "opens": measure_opens, "first": measure_first, "warm": measure_warm}
NEEDING_ROOT = ("cold", "opens", "first")


def table(rows: dict[str, Row]) -> str:
    """Make the table; a ratio above 1 is faster than the first reader."""
    lines = []
    for name, row in rows.items():
        values, is_time = [row["medians"][reader] for reader in READERS], row["measured"] == "first batch"
        cells = [f"{value:.2f} s" if is_time else f"{value:,.0f}/s" for value in values]
        ratios = [values[0] / value if is_time else value / values[0] for value in values]
        others = [f"{cell} ({ratio:.2f}x)" for cell, ratio in list(zip(cells, ratios, strict=True))[1:]]
        lines.append((name, cells[0], *others))
    return pages.table(("", *READERS), lines, numbers=True)


def section(stored: Row) -> str:
    """Make the section from stored numbers."""
    return _TEXT.format(table=table(stored["rows"]), origins=pages.origins(stored["rows"]))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.set_defaults(repeats=3)
    parser.add_argument("--only", action="append", choices=MEASURES, help="may be repeated; default: all")
    parser.add_argument("--fuse", type=Path, default=Path(sys.executable), help="a Python that has mfusepy and libfuse")
    parser.add_argument("--scale", type=float, default=1, help="0.01: a hundredth of the data, to try the script")
    parser.add_argument("--page", action="store_true", help=f"write the section {SECTION!r}")
    options = parser.parse_args()
    if options.page and options.scale != 1:
        parser.error("--page: only with all of the data, without --scale")
    photos, is_root = photographs(options.photos), can_drop_caches()
    small, rows = build("small", photos, SMALL_BYTES) / "tree", {}
    for name in options.only or MEASURES:
        if name in NEEDING_ROOT and not is_root:
            print(f"{name}: needs root; left out", file=sys.stderr)
            continue
        rows |= MEASURES[name](photos, small, options.repeats, options.scale, options.fuse)
    print(table(rows))
    if options.page:
        kind = "real" if options.photos else "generated"
        of = f"{len(photos)} {kind} photographs (mean {sum(map(len, photos)) // len(photos) // 1000} KB)"
        pages.keep(NUMBERS, rows, photos=of)
        pages.write_section(SECTION, section(json.loads(NUMBERS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
