"""WebDataset: tar files, read from front to back."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.formats.base import SHUFFLE_BUFFER, Finish, Format, Reading, Samples
from recordzoo.base.process import default_workers


def write(samples: Samples, place: Path) -> None:
    """Write at least 8 shards, and one for each core: every worker reads its own."""
    import webdataset

    shards = max(8, default_workers())
    size = -(-len(samples) // shards)
    for shard in range(shards):
        with webdataset.TarWriter(str(place / f"images-{shard:06d}.tar")) as tar:
            for number, (path, label) in enumerate(samples[shard * size : (shard + 1) * size], shard * size):
                ending = Path(path).suffix.lower().removeprefix(".")
                tar.write({"__key__": f"{number:09d}", ending: Path(path).read_bytes(), "cls": label})


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    import webdataset

    paths = sorted(str(path) for path in place.glob("*.tar"))
    dataset = webdataset.WebDataset(paths, shardshuffle=len(paths) if reading.shuffled else False, empty_check=False)
    if reading.shuffled:
        dataset = dataset.shuffle(SHUFFLE_BUFFER)
    batches = dataset.map(_Sample(reading.finish())).batched(reading.batch_size)
    loader: Iterable[Any] = webdataset.WebLoader(
        batches, batch_size=None, num_workers=reading.workers, persistent_workers=reading.workers > 0
    )
    return loader


class _Sample:
    def __init__(self, finish: Finish) -> None:
        self.finish = finish

    def __call__(self, sample: Mapping[str, Any]) -> tuple[Any, int]:
        image = next(value for key, value in sample.items() if not key.startswith("__") and key != "cls")
        return self.finish(image), int(sample["cls"])


FORMAT = Format(
    "webdataset",
    "WebDataset",
    write,
    read,
    "`WebDataset` and `WebLoader`",
    ("webdataset",),
    "pip install webdataset",
    shuffle=f"reads shards in random order, shuffles in a buffer of {SHUFFLE_BUFFER:,}",
)
