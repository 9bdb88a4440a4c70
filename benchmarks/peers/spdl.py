"""SPDL: a pipeline of threads; FFmpeg decodes, crops, resizes and flips, without the GIL."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spdl.io
import torch
from spdl.dataloader import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.functional import normalize

from benchmarks.peers.work import MEAN, STD, Work

SCALE, RATIO = [0.08, 1.0], [3 / 4, 4 / 3]


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


class _Shuffled:
    """Files and labels, in a new order in each epoch."""

    def __init__(self, tree: Path) -> None:
        self.samples = ImageFolder(tree).samples

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(random.sample(self.samples, len(self.samples)))


def _decode(sample: tuple[str, int], size: int) -> Any:
    path, label = sample
    packets = spdl.io.demux_image(path)
    as_large = torch.empty((packets.height, packets.width), device="meta")  # of an image, only its size is asked for
    top, left, height, width = RandomResizedCrop.get_params(as_large, SCALE, RATIO)
    filters = [f"crop={width}:{height}:{left}:{top}", f"scale={size}:{size}:flags=bilinear", "format=rgb24"]
    if random.random() < 0.5:
        filters.insert(2, "hflip")
    return spdl.io.decode_packets(packets, filter_desc=",".join(filters)), label


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    def collate(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        frames, labels = zip(*samples, strict=True)
        images = spdl.io.to_torch(spdl.io.convert_frames(list(frames))).permute(0, 3, 1, 2)
        if work.dtype == "float32":
            images = normalize(images.float() / 255, MEAN, STD)
        return images, torch.tensor(labels)

    return DataLoader(
        _Shuffled(tree),
        preprocessor=lambda sample: _decode(sample, work.size),
        batch_size=work.batch_size,
        aggregator=collate,
        num_threads=work.workers,
    )
