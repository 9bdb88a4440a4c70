"""Record sets to merge and choose from, and the comparison of the new sets with them, record by record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from recordzoo import RecordReader, RecordWriter
from tests.fakes.pictures import encoded

PER_SHARD = 4000
"""Target shard size in bytes, so that small sets have several shards."""


def write_set(
    path: Path,
    count: int = 12,
    *,
    seed: int = 0,
    classes: Sequence[str] | None = ("cat", "dog", "owl"),
    without: Sequence[str] = (),
    **more: Any,
) -> RecordReader:
    """Write a set with fields of all kinds: files, labels, JSON, pixels of several shapes, numbers, absent bytes."""
    rng = np.random.default_rng(seed)
    with RecordWriter(path, classes=classes, kinds={"mask": "raw"}, shard_bytes=PER_SHARD) as writer:
        for number in range(count):
            pixels = rng.integers(0, 255, (9 + number % 4, 11, 3), np.uint8)
            record = {
                "name": f"{number:04d}.jpg",
                "split": ["train" if number % 3 else "val", *(["small"] if number < 5 else [])],
                "image": encoded(Image.fromarray(pixels), "PNG" if number % 4 == 3 else "JPEG"),
                "target": number % len(classes or "?"),
                "words": {"of": [number, seed], "ü": None},
                "mask": rng.random((3 + number % 2, 5)).astype(np.float32),
                "weight": np.float32([number, seed]),
                "note": b"\0" * number + bytes([seed]),
                **more,
            }
            writer.write({key: value for key, value in record.items() if key not in without})
    return RecordReader(path)


# Any: values of all kinds.
def plain(record: dict[str, Any]) -> dict[str, Any]:
    """A record as values that can be compared, without its name and class."""
    return {
        key: (value.dtype.str, value.shape, value.tolist()) if isinstance(value, np.ndarray) else value
        for key, value in record.items()
        if key not in ("name", "target")
    }


def assert_holds(new: RecordReader, expected: Sequence[tuple[RecordReader, int]]) -> None:
    """The set has these records, each as in its own set, and the same class by name."""
    assert len(new) == len(expected)
    for position, (old, number) in enumerate(expected):
        mine, theirs = new[position], old[number]
        assert plain(mine) == plain(theirs)
        names = [r.manifest.classes or () for r in (new, old)]
        if names[0] and names[1]:
            assert names[0][mine["target"]] == names[1][theirs["target"]]
        else:
            assert mine["target"] == theirs["target"]


def every(*sets: RecordReader) -> list[tuple[RecordReader, int]]:
    return [(reader, number) for reader in sets for number in range(len(reader))]
