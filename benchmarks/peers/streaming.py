"""MosaicML Streaming: MDS shards on the local disk."""

import io
from pathlib import Path
from typing import Any

from PIL import Image
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work, stock_loader


def write(tree: Path, folder: Path) -> None:
    """Store the files' bytes: its own JPEG column would encode them anew."""
    with MDSWriter(out=str(folder / "mds"), columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in ImageFolder(tree).samples:
            writer.write({"image": Path(path).read_bytes(), "label": label})


class _Photos(StreamingDataset):
    def __init__(self, folder: Path, work: Work) -> None:
        super().__init__(local=str(folder / "mds"), shuffle=True, batch_size=work.batch_size)
        self.transform = work.transform()

    def __getitem__(self, at: Any) -> Any:
        sample = super().__getitem__(at)
        return self.transform(Image.open(io.BytesIO(sample["image"])).convert("RGB")), sample["label"]


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    return stock_loader(_Photos(folder, work), work, shuffle=False)  # the dataset shuffles
