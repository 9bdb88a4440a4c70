"""Images per second with the transforms that people train with: ``python -m benchmarks.recipes --photos FOLDER``.

Each measurement is a fresh process: an epoch that warms everything, then the one that counts.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import arguments, fresh_folder, in_fresh_process, interleaved, many, median, photographs
from benchmarks.recipes_data import enlarged, write_classes, write_voc
from benchmarks.recipes_page import DALI, READERS, keep, table

WORKERS = 2

_MEAN = "T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])"
_DINO = (
    "T.RandomHorizontalFlip(), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8), T.RandomGrayscale(0.2), "
    f"T.RandomApply([T.GaussianBlur(9, (0.1, 2))], 0.5), T.ToTensor(), {_MEAN}"
)
RECIPES = {
    "eval: Resize 256, CenterCrop 224": f"T.Resize(256), T.CenterCrop(224), T.ToTensor(), {_MEAN}",
    "RandomResizedCrop 224, flip": f"T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), {_MEAN}",
    "the same with v2 on tensors": "v2.ToImage(), v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), "
    f"v2.ToDtype(torch.float32, scale=True), v2.{_MEAN[2:]}",
    "torchvision's reference: crop 176, flip, TrivialAugmentWide, RandomErasing 0.1": "T.RandomResizedCrop(176), "
    f"T.RandomHorizontalFlip(), T.TrivialAugmentWide(), T.ToTensor(), {_MEAN}, T.RandomErasing(0.1)",
    "bicubic crop, flip, RandAugment, RandomErasing": "T.RandomResizedCrop(224, "
    "interpolation=T.InterpolationMode.BICUBIC), "
    f"T.RandomHorizontalFlip(), T.RandAugment(), T.ToTensor(), {_MEAN}, T.RandomErasing()",
    "crop, flip, ColorJitter 0.4": "T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4), "
    f"T.ToTensor(), {_MEAN}",
    "SimCLR: crop, flip, jitter, grey, blur": "T.RandomResizedCrop(224), T.RandomHorizontalFlip(), "
    "T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8), T.RandomGrayscale(0.2), T.GaussianBlur(23), "
    f"T.ToTensor(), {_MEAN}",
    "timm's create_transform(224, is_training=True)": "timm.data.create_transform(224, is_training=True)",
    "DINO: 2 global crops of 224, 6 local ones of 96": "MultiView(2 * [T.Compose([T.RandomResizedCrop(224, (0.4, 1), "
    f"interpolation=CUBIC), {_DINO}])] + 6 * [T.Compose([T.RandomResizedCrop(96, (0.05, 0.4), interpolation=CUBIC), "
    f"{_DINO}])])",
    "RandomPerspective: crop and flip before, ToTensor and Normalize behind": "T.RandomResizedCrop(224), "
    f"T.RandomHorizontalFlip(), T.RandomPerspective(0.2), T.ToTensor(), {_MEAN}",
    "a function of one's own: resize, to_tensor": "lambda image: F.to_tensor(F.resize(image, [224, 224]))",
    "VOC detection: crop, flip, sanitise boxes": "v2.ToImage(), v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), "
    "v2.SanitizeBoundingBoxes(), v2.ToDtype(torch.float32, scale=True)",
    "albumentations: crop, flip, jitter, normalise": "Album([album.RandomResizedCrop(size=(224, 224)), "
    "album.HorizontalFlip(), album.ColorJitter(0.4, 0.4, 0.4, 0), album.Normalize(), ToTensorV2()])",
}
LARGE = {f"photographs enlarged to {size} megapixels: crop, flip": size for size in (6, 12)}
RECIPES |= dict.fromkeys(LARGE, RECIPES["RandomResizedCrop 224, flip"])
DALI_PYTHON = Path(__file__).parent / ".venv-peers" / "bin" / "python"
DALI_RECIPES: dict[str, dict[str, object]] = {
    "eval: Resize 256, CenterCrop 224": {"crop": False},
    "RandomResizedCrop 224, flip": {},
    "the same with v2 on tensors": {},
    "torchvision's reference: crop 176, flip, TrivialAugmentWide, RandomErasing 0.1": {
        "size": 176,
        "change": "trivial",
        "erased": 0.1,
    },
    "bicubic crop, flip, RandAugment, RandomErasing": {"cubic": True, "change": "rand", "erased": 0.5},
    "crop, flip, ColorJitter 0.4": {"change": "jitter"},
    "SimCLR: crop, flip, jitter, grey, blur": {"change": "simclr"},
    **{name: {} for name in LARGE},
}
"""The recipes that DALI has, as options of `benchmarks.recipes_dali`."""

WANTED = {
    "eval: Resize 256, CenterCrop 224": 2.6,
    "the same with v2 on tensors": 2.3,
    "torchvision's reference: crop 176, flip, TrivialAugmentWide, RandomErasing 0.1": 2.1,
    "bicubic crop, flip, RandAugment, RandomErasing": 2.0,
    "crop, flip, ColorJitter 0.4": 2.3,
    "SimCLR: crop, flip, jitter, grey, blur": 3.5,
    "DINO: 2 global crops of 224, 6 local ones of 96": 2.0,
    "timm's create_transform(224, is_training=True)": 1.7,
    "a function of one's own: resize, to_tensor": 1.0,
    "albumentations: crop, flip, jitter, normalise": 1.0,
    "VOC detection: crop, flip, sanitise boxes": 1.5,
}
"""How many times torchvision's speed we aimed at, in exact precision."""

_CODE = """
import sys, time, torch
from torchvision import transforms as T
from torchvision.datasets import ImageFolder, VOCDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import functional as F, v2
from recordzoo import ImageFolderRecord, MultiView, RecordLoader, VOCDetectionRecord
CUBIC = T.InterpolationMode.BICUBIC
if "Album" in sys.argv[4]:
    import albumentations as album
    import numpy as np
    from albumentations.pytorch import ToTensorV2
    def Album(parts):
        chain = album.Compose(parts)
        return lambda image: chain(image=np.asarray(image))["image"]
if "timm" in sys.argv[4]:
    import timm.data
folder, reader, workers, recipe = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
is_voc, is_theirs = folder.endswith("voc"), reader.startswith("torchvision")
transform = (v2 if is_voc else T).Compose(eval(f"[{recipe}]"))
options = {"shuffle": True, "num_workers": workers, "persistent_workers": True}
if is_voc:
    kind = VOCDetection if is_theirs else VOCDetectionRecord
    dataset = wrap_dataset_for_transforms_v2(kind(folder, transforms=transform))
    options["collate_fn"] = lambda samples: tuple(zip(*samples))
else:
    kind = ImageFolder if is_theirs else ImageFolderRecord
    dataset = kind(folder, transform)
torch.manual_seed(3)
if "DataLoader" in reader:
    loader = torch.utils.data.DataLoader(dataset, 64, **options)
else:
    loader = RecordLoader(dataset, 64, precision=reader.split()[-1], **options)
for images, labels in loader:
    pass
start, count = time.perf_counter(), 0
for images, labels in loader:
    count += len(labels)
print(count / (time.perf_counter() - start))
"""


def with_dali(python: Path) -> Path | None:
    """Return an interpreter if it is there and has DALI; None otherwise."""
    if python.exists():
        with contextlib.suppress(RuntimeError):
            in_fresh_process("import nvidia.dali", python=python)
            return python
    print(f"{python}: no DALI; its column is left out", file=sys.stderr)
    return None


def measure(
    photos: list[bytes], repeats: int, names: list[str], dali: Path | None = None, readers: Sequence[str] = READERS
) -> dict[str, dict[str, Any]]:
    """Return images per second by recipe and reader; `dali` is an interpreter that has DALI."""
    folder = fresh_folder("recipes")
    thrice = list(many(photos, 3 * sum(map(len, photos))))
    write_classes(thrice, folder / "tree")
    write_voc(thrice, folder / "voc")
    for megapixels in {LARGE[name] for name in names if name in LARGE}:
        write_classes(enlarged(photos, megapixels), folder / f"{megapixels}")
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        tree = folder / ("voc" if name.startswith("VOC") else str(LARGE.get(name, "tree")))
        runs = {
            reader: lambda reader=reader, name=name, tree=tree: float(  # type: ignore[misc]  # defaults
                in_fresh_process(_CODE, tree, reader, WORKERS, RECIPES[name])
            )
            for reader in readers
        }
        if dali is not None and name in DALI_RECIPES:
            runs[DALI] = lambda name=name, tree=tree: float(  # type: ignore[misc]  # defaults
                in_fresh_process(
                    "from benchmarks.recipes_dali import main; main()",
                    tree,
                    WORKERS,
                    json.dumps(DALI_RECIPES[name]),
                    python=dali,
                )
            )
        rates = {reader: median(values) for reader, values in interleaved(runs, repeats).items()}
        found[name] = {"wanted": WANTED.get(name), "repeats": repeats, "rates": rates}
        print(name, {reader: f"{rate:,.0f}" for reader, rate in rates.items()}, flush=True)
    return found


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--recipe", action="append", help="a recipe, by the beginning of its name; default: all")
    parser.add_argument(
        "--dali", type=Path, default=DALI_PYTHON, help="interpreter that has DALI; default: that of make bench-peers"
    )
    parser.add_argument("--reader", action="append", choices=READERS, help="only this, and no page; may be repeated")
    parser.add_argument("--page", action="store_true", help="write the section 'recipes'")
    options = parser.parse_args()
    chosen = [name for name in RECIPES if any(name.startswith(each) for each in options.recipe or [""])]
    photos = photographs(options.photos)
    if options.reader:
        measure(photos, options.repeats, chosen, readers=options.reader)
        return
    found = measure(photos, options.repeats, chosen, with_dali(options.dali))
    print(table(found))
    if options.page:
        kind = "real photographs" if options.photos else "generated photographs"
        mean = sum(map(len, photos)) // len(photos) // 1000
        keep(found, f"{len(photos)} {kind} (mean {mean} KB)")


if __name__ == "__main__":
    main()
