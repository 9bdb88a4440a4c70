"""LitData: chunks on the local disk, with its own loader."""

import io
from pathlib import Path
from typing import Any

from litdata import StreamingDataLoader, StreamingDataset, optimize
from PIL import Image
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work


def write(tree: Path, folder: Path) -> None:
    optimize(_sample, ImageFolder(tree).samples, str(folder / "chunks"), chunk_bytes="64MB", num_workers=2)


def _sample(file: tuple[str, int]) -> dict[str, Any]:
    path, label = file
    return {"image": Path(path).read_bytes(), "label": label}


class _Photos(StreamingDataset):
    def __init__(self, folder: Path, work: Work) -> None:
        super().__init__(str(folder / "chunks"), shuffle=True)
        self.photo_transform = work.transform()

    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return self.photo_transform(Image.open(io.BytesIO(sample["image"])).convert("RGB")), sample["label"]


def loader(tree: Path, folder: Path, work: Work) -> StreamingDataLoader:
    return StreamingDataLoader(
        _Photos(folder, work), batch_size=work.batch_size, num_workers=work.workers, persistent_workers=True
    )
