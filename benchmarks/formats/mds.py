"""MDS: shards of MosaicML Streaming, on the local disk."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Finish, Format, Reading, Samples, stream_loader


def write(samples: Samples, place: Path) -> None:
    """Store the files' bytes: the column type "jpeg" may encode images again."""
    from streaming import MDSWriter

    with MDSWriter(out=str(place / "mds"), columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in samples:
            writer.write({"image": Path(path).read_bytes(), "label": label})


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()  # an epoch that was left early leaves blocks, which the next dataset takes for its own
    dataset = StreamingDataset(local=str(place / "mds"), shuffle=reading.shuffled, batch_size=reading.batch_size)
    return stream_loader(dataset, reading, _Collate(reading.finish()))


class _Collate:
    """Finishes the samples of a batch; in the workers, as a transform in a subclass would."""

    def __init__(self, finish: Finish) -> None:
        self.finish = finish

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> Any:
        from torch.utils.data import default_collate

        return default_collate([(self.finish(sample["image"]), sample["label"]) for sample in samples])


FORMAT = Format(
    "mds",
    "MDS (MosaicML Streaming)",
    write,
    read,
    "`StreamingDataset`, files local",
    ("streaming",),
    "pip install mosaicml-streaming",
    shuffle="its own order (`py1e`): samples move within blocks of shards",
)
