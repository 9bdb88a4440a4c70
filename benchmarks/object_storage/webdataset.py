"""WebDataset: tar files in order, shuffled in a buffer; fetched by curl, one after the other in each worker."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import webdataset as wds
from torchvision.datasets import ImageFolder

from benchmarks.object_storage.work import Sample, Work


def write(tree: Path, folder: Path, shard_bytes: int) -> None:
    with wds.ShardWriter(str(folder / "photos-%06d.tar"), maxsize=shard_bytes, verbose=0) as writer:
        for number, (path, label) in enumerate(ImageFolder(tree).samples):
            writer.write({"__key__": f"{number:08d}", "jpg": Path(path).read_bytes(), "cls": label})


def loader(source: str, cache: Path, work: Work, *, is_cached: bool = True) -> wds.WebLoader:
    urls = _urls(source)
    dataset = (
        wds.WebDataset(urls, shardshuffle=len(urls), **({"cache_dir": str(cache)} if is_cached else {}))
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map_tuple(Sample(work), int)
        .batched(work.batch_size)
    )
    return wds.WebLoader(dataset, batch_size=None, num_workers=work.workers, persistent_workers=True)


def _urls(source: str) -> list[str]:
    """List the shards by their http addresses: for s3:// a program of Amazon's would be started for each."""
    bucket, prefix = urlsplit(source).netloc, urlsplit(source).path.lstrip("/")
    found = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")["Contents"]
    return [f"{os.environ['AWS_ENDPOINT_URL']}/{bucket}/{each['Key']}" for each in found]
