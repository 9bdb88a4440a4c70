"""What `precision="fast"` costs: how far its pixels are from the exact ones, and what a network makes of it."""

import math
import statistics
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torchvision import transforms as T

from benchmarks.common import Line, arguments, fresh_folder, photographs
from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.images.decode import open_encoded
from recordzoo.loader.making import uniforms
from recordzoo.loader.plan import decide
from recordzoo.loader.render import PRECISIONS, render
from recordzoo.loader.table import read_plan

_SAME = math.inf

CLASSES, VIEWS, EPOCHS, SIDE, RUNS = 50, 12, 3, 96, 3


def distances(photos: list[bytes], crop: int) -> list[float]:
    """Return the PSNR in dB of a random crop of each photograph, fast against exact; `_SAME` for no difference."""
    plan = read_plan(T.RandomResizedCrop(crop))
    draws = uniforms(1, 0, np.arange(len(photos)), plan.num_draws)
    found = []
    for photo, row in zip(photos, draws.tolist(), strict=True):
        frame = open_encoded(photo)
        actions = decide(plan.steps, (frame.height, frame.width), row)
        exact, fast = (render(frame, actions, precision).double() for precision in PRECISIONS)
        error = float(((exact - fast) ** 2).mean())
        found.append(10 * math.log10(255**2 / error) if error else _SAME)
    return found


def accuracy(folder: Path, precision: str, seed: int) -> float:
    """Train a small network to tell photographs apart by their random crops; test it on other crops, exact ones."""
    torch.manual_seed(seed)
    steps = [T.RandomResizedCrop(SIDE, (0.2, 1.0)), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(0.5, 0.25)]
    train = ImageFolderRecord(folder, T.Compose(steps))
    network = nn.Sequential(
        *(layer for i, o in ((3, 24), (24, 48), (48, 96)) for layer in _block(i, o)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(96, CLASSES),
    )
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    loader = RecordLoader(train, 50, shuffle=True, precision=precision, seed=seed)
    for _ in range(EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
    network.eval()
    hits = count = 0
    with torch.no_grad():
        for images, labels in RecordLoader(train, 50, seed=1_000_000):
            hits += int((network(images).argmax(1) == labels).sum())
            count += len(labels)
    return hits / count


def _block(channels_in: int, channels_out: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels_in, channels_out, 3, 2, 1, bias=False)
    return [convolution, nn.BatchNorm2d(channels_out), nn.ReLU()]


def measure(photos: list[bytes]) -> list[Line]:
    lines = []
    for crop in (224, 96):
        found = sorted(distances(photos, crop))
        others = [each for each in found if each < _SAME]
        lines.append(
            Line(
                f"crop of {crop}",
                "exact precision",
                "",
                f"same pixels in {found.count(_SAME)} of {len(photos)}; PSNR of the others: "
                f"median {statistics.median(others):.1f} dB, 5% below {others[len(others) // 20]:.1f} dB",
            )
        )
    folder = fresh_folder("precision") / "tree"
    for number, photo in enumerate(photos[:CLASSES]):
        for view in range(VIEWS):
            path = folder / f"{number:03d}" / f"{view}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(photo)
    reached = {precision: [accuracy(folder, precision, seed) for seed in range(RUNS)] for precision in PRECISIONS}
    texts = {name: f"{statistics.mean(runs):.1%} ± {statistics.stdev(runs):.1%}" for name, runs in reached.items()}
    what = f"accuracy of a small network, {CLASSES} classes, {RUNS} runs"
    lines.append(Line(what, f"exact precision: {texts['exact']}", "", texts["fast"]))
    return lines


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(photographs(options.photos)):
        print(line)
