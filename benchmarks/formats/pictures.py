"""The images that all formats are given: some of a tree of class folders."""

import random
import shutil
from pathlib import Path

from benchmarks.formats.base import Samples


def gather(tree: Path, num_images: int, folder: Path) -> None:
    """Copy images chosen at random, the same ones each time, into folders named by their labels; `folder` is made."""
    samples = samples_of(tree)
    chosen = sorted(random.Random(0).sample(range(len(samples)), min(num_images, len(samples))))
    for number, (name, label) in enumerate(samples[index] for index in chosen):
        target = folder / f"{label:06d}" / f"{number:08d}{Path(name).suffix.lower()}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, target)


def samples_of(folder: Path) -> Samples:
    """List a tree's files with their labels, in ImageFolder's order."""
    from torchvision.datasets import ImageFolder

    found: Samples = ImageFolder(str(folder)).samples
    return found
