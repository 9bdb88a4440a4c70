"""Grain: files as a random-access source, shuffled, transformed and batched in worker processes."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
import torch
from PIL import Image
from torch.utils._pytree import tree_map
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


class _Transformed:
    """Opens and transforms a file with the random numbers that Grain gives it."""

    def __init__(self, work: Work) -> None:
        self.transform = work.transform()

    def __call__(self, sample: tuple[str, int], rng: np.random.Generator) -> tuple[np.ndarray, int]:
        path, label = sample
        torch.manual_seed(rng.integers(1 << 62))
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")).numpy(), label


class _Epochs:
    """Epochs of an endless dataset, whose workers live on."""

    def __init__(self, tree: Path, work: Work, by: str) -> None:
        samples = ImageFolder(tree).samples
        self.num_batches = math.ceil(len(samples) / work.batch_size)
        batches = (
            grain.MapDataset.source(samples)
            .seed(0)
            .shuffle()
            .random_map(_Transformed(work))
            .batch(work.batch_size)
            .repeat()
        )
        # Its buffer counts batches, in each process.
        if by == "threads":
            self.batches = iter(batches.to_iter_dataset(grain.ReadOptions(work.workers, 2 * work.workers)))
        else:
            workers = grain.MultiprocessingOptions(work.workers, per_worker_buffer_size=2)
            self.batches = iter(batches.to_iter_dataset(grain.ReadOptions(1, 2)).mp_prefetch(workers))

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.num_batches):
            yield tree_map(torch.from_numpy, next(self.batches))


def loader(tree: Path, folder: Path, work: Work, by: str = "processes") -> _Epochs:
    return _Epochs(tree, work, by)
