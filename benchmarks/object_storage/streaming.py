"""MosaicML Streaming: MDS shards, fetched ahead by a thread of each worker."""

from pathlib import Path
from typing import Any

from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.object_storage.work import Sample, Work


def write(tree: Path, folder: Path, shard_bytes: int) -> None:
    """Store the files' bytes: its own JPEG column would encode them anew."""
    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(folder), columns=columns, size_limit=shard_bytes) as writer:
        for path, label in ImageFolder(tree).samples:
            writer.write({"image": Path(path).read_bytes(), "label": label})


class _Photos(StreamingDataset):
    def __init__(self, source: str, cache: Path, work: Work) -> None:
        super().__init__(remote=source, local=str(cache), shuffle=True, batch_size=work.batch_size)
        self._sample = Sample(work)

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return self._sample(found["image"]), found["label"]


def loader(source: str, cache: Path, work: Work) -> DataLoader:
    dataset = _Photos(source, cache, work)
    for stream in dataset.streams:
        # Workers are forked with the connection over which the index came, and mix up the answers to their requests:
        # a shard got the bytes of another.
        stream._downloader.clean_up()
    return DataLoader(dataset, work.batch_size, num_workers=work.workers, persistent_workers=True)
