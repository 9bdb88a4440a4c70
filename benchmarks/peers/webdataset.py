"""WebDataset: tar files in order, shuffled in a buffer."""

from pathlib import Path

import webdataset as wds
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work

SHARDS = 8  # several for each worker, as its pages ask for


def write(tree: Path, folder: Path) -> None:
    samples = ImageFolder(tree).samples
    for shard in range(SHARDS):
        with wds.TarWriter(str(folder / f"photos-{shard:06d}.tar")) as tar:
            for number, (path, label) in enumerate(samples[shard::SHARDS]):
                tar.write({"__key__": f"{shard:02d}{number:06d}", "jpg": Path(path).read_bytes(), "cls": label})


def loader(tree: Path, folder: Path, work: Work) -> wds.WebLoader:
    urls = str(folder / f"photos-{{000000..{SHARDS - 1:06d}}}.tar")
    dataset = (
        wds.WebDataset(urls, shardshuffle=SHARDS)
        .shuffle(1000)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(work.transform(), int)
        .batched(work.batch_size)
    )
    return wds.WebLoader(dataset, batch_size=None, num_workers=work.workers, persistent_workers=True)
