"""A warm epoch through the stock DataLoader with the usual PIL transforms for training, checksums on.

Against torchvision's ImageFolder with the same seeds; the tensors must be the same.
"""

from benchmarks.common import (
    Line,
    arguments,
    fresh_folder,
    in_fresh_process,
    interleaved,
    many,
    median,
    photographs,
    ratio,
)
from recordzoo.preparing import ensure
from recordzoo.recipes.folder import recipe

_CODE = """
import sys, time, random, torch, zlib
torch.set_num_threads(1)
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from recordzoo import ImageFolderRecord
folder, kind, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                       T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
dataset = (ImageFolder if kind == "files" else ImageFolderRecord)(folder, transform)
torch.manual_seed(3)
loader = torch.utils.data.DataLoader(dataset, 64, shuffle=True, num_workers=workers, persistent_workers=workers > 0,
                                     generator=torch.Generator().manual_seed(5))
pixels = 0
for images, labels in loader:  # warms caches and workers, and proves that both give the same
    pixels = zlib.crc32(images.numpy().tobytes() + labels.numpy().tobytes(), pixels)
start, count = time.perf_counter(), 0
for images, labels in loader:
    count += len(labels)
print((time.perf_counter() - start) / count, pixels)
"""


def measure(photos: list[bytes], repeats: int) -> list[Line]:
    folder = fresh_folder("warm")
    count = 0
    for count, data in enumerate(many(photos, 110_000_000), 1):
        path = folder / "tree" / f"class{count % 40:02d}" / f"{count:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    ensure(recipe(), folder / "tree", prepare=True)
    lines = []
    for workers in (0, 2):
        seen: set[str] = set()

        def run(kind: str, workers: int = workers, seen: set[str] = seen) -> float:
            took, pixels = in_fresh_process(_CODE, folder / "tree", kind, workers).split()
            seen.add(pixels)
            return float(took)

        times = interleaved({"records": lambda: run("records"), "files": lambda: run("files")}, repeats)
        if len(seen) != 1:
            raise AssertionError(f"the two loaders gave other pixels: {seen}")
        lines.append(
            Line(
                f"warm DataLoader, {count:,} photographs, RandomResizedCrop 224, flip, float32, {workers} workers",
                f"ImageFolder: {1 / median(times['files']):.0f} images/s",
                "0.97x, same pixels",
                f"{1 / median(times['records']):.0f} images/s: {ratio(times['files'], times['records']):.3f}x, "
                "same pixels",
            )
        )
    return lines


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(photographs(options.photos), options.repeats):
        print(line)
