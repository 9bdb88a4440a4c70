"""TFRecord, read without TensorFlow: in order, shuffled in a buffer."""

import io
from pathlib import Path
from typing import Any

from PIL import Image
from tfrecord.torch.dataset import TFRecordDataset
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.formats.tfrecord import KINDS, paths
from benchmarks.formats.tfrecord import write as write_samples
from benchmarks.peers.work import Work, stock_loader


def write(tree: Path, folder: Path) -> None:
    write_samples(ImageFolder(tree).samples, folder)


class _Decoded:
    """Makes of a record what ImageFolder makes of a file; a class, so that workers can be given it."""

    def __init__(self, work: Work) -> None:
        self.transform = work.transform()

    def __call__(self, record: dict[str, Any]) -> Any:
        image = Image.open(io.BytesIO(bytes(record["image"]))).convert("RGB")
        return self.transform(image), int(record["label"][0])


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    dataset = TFRecordDataset(*paths(folder), KINDS, shuffle_queue_size=1000, transform=_Decoded(work))
    return stock_loader(dataset, work, shuffle=False)  # the dataset shuffles
