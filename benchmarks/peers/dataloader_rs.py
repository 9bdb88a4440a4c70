"""dataloader-rs: the interface of torch's DataLoader with threads in Rust, from Python 3.13."""

from pathlib import Path
from typing import Any

import torch
from dataloader_rs import PyDataloader, PyDataset
from torch.utils.data import default_collate
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work


def write(tree: Path, folder: Path) -> None:
    """The tree is what it reads."""


class _Photos(PyDataset):
    def __init__(self, photos: ImageFolder) -> None:
        super().__init__()
        self.photos = photos

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> Any:
        return self.photos[index]


def loader(tree: Path, folder: Path, work: Work) -> PyDataloader:
    torch.set_num_threads(1)  # as its pages advise: its own threads call torch
    return PyDataloader(
        _Photos(ImageFolder(tree, work.transform())),
        batch_size=work.batch_size,
        shuffle=True,
        num_workers=work.workers,
        collate_fn=default_collate,
    )
