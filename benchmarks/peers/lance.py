"""Lance: encoded images in a column of a Lance dataset, read through torch's DataLoader by the indices of a batch."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.torch.data import SafeLanceDataset, get_safe_loader
from PIL import Image
from torch.utils.data import DataLoader, default_collate
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work

SCHEMA = pa.schema([("image", pa.binary()), ("label", pa.int64())])


def write(tree: Path, folder: Path) -> None:
    lance.write_dataset(_rows(ImageFolder(tree).samples), folder / "photos.lance", SCHEMA)


def _rows(samples: list[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(samples), 64):
        paths, labels = zip(*samples[first : first + 64], strict=True)
        yield pa.record_batch([[Path(path).read_bytes() for path in paths], labels], schema=SCHEMA)


class _Collated:
    """Decodes and transforms the rows of a batch; a class, so that workers can be given it."""

    def __init__(self, work: Work) -> None:
        self.transform = work.transform()

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        return default_collate([(self.transform(self._open(row["image"])), row["label"]) for row in rows])

    def _open(self, data: bytes) -> Image.Image:
        return Image.open(io.BytesIO(data)).convert("RGB")


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    photos = SafeLanceDataset(str(folder / "photos.lance"))
    return get_safe_loader(photos, work.batch_size, work.workers, shuffle=True, collate_fn=_Collated(work))
