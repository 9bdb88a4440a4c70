"""Parquet, with an image column as on the Hugging Face Hub."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader

_ROW_GROUP = 100


def write(samples: Samples, place: Path) -> None:
    """Write a file in row groups of 100, and the Arrow files that the first opening makes of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", kind), ("label", pa.int64())])
    with pq.ParquetWriter(place / "images.parquet", schema) as writer:
        for first in range(0, len(samples), _ROW_GROUP):
            group = samples[first : first + _ROW_GROUP]
            images = [{"bytes": Path(path).read_bytes(), "path": Path(path).name} for path, _ in group]
            rows = {"image": images, "label": [label for _, label in group]}
            writer.write_table(pa.table(rows, schema))
    _open(place)


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(_open(place), reading.finish()), reading)


class _Images:
    """The rows of a `datasets.Dataset`, finished."""

    def __init__(self, rows: Any, finish: Finish) -> None:
        self.rows, self.finish = rows, finish

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._sample(self.rows[index])

    def __getitems__(self, indices: list[int]) -> list[tuple[Any, int]]:
        return [self._sample(row) for row in self.rows.__getitems__(indices)]

    def _sample(self, row: Mapping[str, Any]) -> tuple[Any, int]:
        return self.finish(row["image"]["bytes"]), row["label"]


def _open(place: Path) -> Any:
    """Open the Arrow files, which are made if they are not there."""
    import datasets

    datasets.disable_progress_bars()
    return datasets.Dataset.from_parquet(str(place / "images.parquet"), cache_dir=str(place / "arrow"))


FORMAT = Format(
    "parquet",
    "Parquet (datasets)",
    write,
    read,
    "`datasets.Dataset.from_parquet`: the Arrow files that it makes count",
    ("datasets", "pyarrow"),
    "pip install datasets",
)
