"""Our record sets with our loader."""

from collections.abc import Iterable
from pathlib import Path

import torch

from benchmarks.peers.records import write as write
from benchmarks.peers.work import Work
from recordzoo import ImageFolderRecord, RecordLoader


def loader(tree: Path, folder: Path, work: Work, precision: str = "exact", layout: str = "NCHW") -> Iterable:
    dataset = ImageFolderRecord(folder / "photos.records", work.transform())
    return RecordLoader(
        dataset,
        work.batch_size,
        shuffle=True,
        num_workers=work.workers,
        precision=precision,
        persistent_workers=True,
        memory_format=torch.channels_last if layout == "NHWC" else torch.contiguous_format,
    )
