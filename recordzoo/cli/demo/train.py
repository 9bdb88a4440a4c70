"""The demo's training: a network of three layers, two short epochs; what matters is how it gets its images."""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

SIDE = 64


def transform() -> v2.Compose:
    """Make what a training would use: crop, flip, normalise."""
    return v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(SIDE, scale=(0.5, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )


def train(dataset: Dataset[tuple[torch.Tensor, int]], num_classes: int, epochs: int = 2) -> Iterator[str]:
    """Train, and say after each epoch how it went."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, num_classes),
    )  # fmt: skip
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    loader = DataLoader(dataset, batch_size=50, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(1, epochs + 1):
        began, images_seen, total_loss = time.perf_counter(), 0, 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
            images_seen += len(labels)
            total_loss += loss.item() * len(labels)
        elapsed_s = time.perf_counter() - began
        yield (
            f"epoch {epoch}: {images_seen:,} images in {elapsed_s:.1f} s ({images_seen / elapsed_s:,.0f}/s), "
            f"loss {total_loss / images_seen:.2f}"
        )
