"""TFRecord: `tf.train.Example` messages, written and read by the package tfrecord, without TensorFlow."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.formats.base import SHUFFLE_BUFFER, Finish, Format, Reading, Samples, stream_loader

KINDS = {"image": "byte", "label": "int"}


def write(samples: Samples, place: Path) -> None:
    """Write one file, and the index by which workers share it."""
    from tfrecord.tools.tfrecord2idx import create_index
    from tfrecord.writer import TFRecordWriter

    data, index = paths(place)
    writer = TFRecordWriter(data)
    for path, label in samples:
        writer.write({"image": (Path(path).read_bytes(), "byte"), "label": (label, "int")})
    writer.close()
    create_index(data, index)


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    from tfrecord.torch.dataset import TFRecordDataset

    data, index = paths(place)
    # Without workers, its dataset with an index begins at a random record.
    is_in_order = not reading.workers and not reading.shuffled
    dataset = TFRecordDataset(
        data,
        None if is_in_order else index,
        KINDS,
        shuffle_queue_size=SHUFFLE_BUFFER if reading.shuffled else None,
        transform=_Sample(reading.finish()),
    )
    return stream_loader(dataset, reading)


class _Sample:
    def __init__(self, finish: Finish) -> None:
        self.finish = finish

    def __call__(self, record: Mapping[str, Any]) -> tuple[Any, int]:
        return self.finish(bytes(record["image"])), int(record["label"][0])


def paths(place: Path) -> tuple[str, str]:
    return str(place / "images.tfrecord"), str(place / "images.index")


FORMAT = Format(
    "tfrecord",
    "TFRecord",
    write,
    read,
    "`TFRecordDataset` of the package tfrecord, with an index",
    ("tfrecord",),
    "pip install tfrecord",
    shuffle=f"reads in order, shuffles in a buffer of {SHUFFLE_BUFFER:,}",
)
