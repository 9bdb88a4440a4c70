"""Our record sets with torch's own DataLoader."""

from pathlib import Path

from torch.utils.data import DataLoader

from benchmarks.peers.work import Work, stock_loader
from recordzoo import ImageFolderRecord
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe


def write(tree: Path, folder: Path, **options: str) -> None:
    ensure(FolderRecipe(), tree, records_dir=folder / "photos.records", prepare=True, **options)


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    return stock_loader(ImageFolderRecord(folder / "photos.records", work.transform()), work)
