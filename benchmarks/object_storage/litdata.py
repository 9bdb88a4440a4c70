"""LitData: chunks, fetched ahead by a thread of each worker."""

from pathlib import Path
from typing import Any

from litdata import StreamingDataLoader, StreamingDataset, optimize
from litdata.streaming import downloader
from torchvision.datasets import ImageFolder

from benchmarks.object_storage.work import Sample, Work

downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # its client takes https alone, and has no option for that


def write(tree: Path, folder: Path, shard_bytes: int) -> None:
    optimize(_stored, ImageFolder(tree).samples, str(folder), chunk_bytes=shard_bytes, num_workers=2)


def _stored(file: tuple[str, int]) -> dict[str, Any]:
    path, label = file
    return {"image": Path(path).read_bytes(), "label": label}


class _Photos(StreamingDataset):
    def __init__(self, source: str, cache: Path, work: Work) -> None:
        super().__init__(source, cache_dir=str(cache), shuffle=True)
        self._sample = Sample(work)

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return self._sample(found["image"]), found["label"]


def loader(source: str, cache: Path, work: Work) -> StreamingDataLoader:
    dataset = _Photos(source, cache, work)
    return StreamingDataLoader(dataset, batch_size=work.batch_size, num_workers=work.workers, persistent_workers=True)
