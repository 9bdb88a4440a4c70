"""A store of `benchmarks.peers.stores` as a dataset of torch's DataLoader."""

from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder

from benchmarks.peers.stores import STORES, Store
from benchmarks.peers.work import Work, stock_loader


def write(tree: Path, folder: Path, store: str) -> None:
    STORES[store](folder).write(ImageFolder(tree).samples)


class _Photos(Dataset):
    def __init__(self, store: Store, work: Work) -> None:
        self.store, self.transform = store, work.transform()
        self.count = len(type(store)(store.folder))  # of a store of its own: this one is opened in the workers

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        data, label = self.store[index]
        return self.transform(self.store.open_image(data)), label


def loader(tree: Path, folder: Path, work: Work, store: str) -> DataLoader:
    return stock_loader(_Photos(STORES[store](folder), work), work)
