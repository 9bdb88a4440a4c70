"""torchvision's ImageFolder with torch's DataLoader: what everybody starts with."""

from pathlib import Path

from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work, stock_loader


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    return stock_loader(ImageFolder(tree, work.transform()), work)
