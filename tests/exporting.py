"""Record sets to export: small ones, with splits, classes and all kinds of fields, and what an export of them has."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.own.writer import RecordWriter
from recordzoo.records.reader import RecordReader
from tests.fakes.records import flip_byte, place_of
from tests.foreign import pairs

CLASSES = ("ant", "bee", "cat", "dog", "elk")
SHARD_BYTES = 4000
"""Even the small splits of `write` have several shards of this size."""


@dataclass(frozen=True)
class Given:
    """Samples by split, in their order."""

    names: Mapping[str, Sequence[str]]
    images: Mapping[str, Sequence[bytes]]
    labels: Mapping[str, Sequence[int]]
    fields: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)


def write(path: Path, *, count: int = 24, splits: bool = True, fields: bool = False, **options: Any) -> Path:
    """Write a record set: two thirds of the samples are "train"; names are unique in their folders only."""
    kinds = {"depth": "raw"} if fields else None
    with RecordWriter(path, **{"classes": CLASSES, "kinds": kinds, **options}) as writer:
        for number, (image, label) in enumerate(pairs(count)):
            ending = "png" if number % 4 == 3 else "jpg"
            sample: dict[str, Any] = {"name": f"raw/{number % 3}/{number // 3:03d}.{ending}", "image": image}
            sample["target"] = label
            if splits:
                sample["split"] = "train" if number < 2 * count // 3 else "val"
            writer.write({**sample, **(other_fields(number) if fields else {})})
    return path


def other_fields(number: int) -> dict[str, Any]:
    """A field of each kind."""
    return {
        "caption": f"picture {number} \u00e9",
        "boxes": [[number, 1], [2, 3]],
        "weight": number / 2,
        "corner": np.arange(3, dtype=np.float32) + number,
        "depth": np.full((2 + number % 2, 3), number, np.uint16),
        "code": bytes([number, 255, 0]),
    }


def given(path: Path) -> Given:
    """Read what an export must have."""
    reader = RecordReader(path)
    splits = {name: reader.split(name).tolist() for name in reader.manifest.splits} or {"": list(range(len(reader)))}
    return Given(
        {split: [reader.names[position] for position in found] for split, found in splits.items()},
        {split: [reader.read("image", position) for position in found] for split, found in splits.items()},
        {split: [int(reader.array("target")[position]) for position in found] for split, found in splits.items()},
        {split: [reader[position] for position in found] for split, found in splits.items()},
    )


def files(path: Path) -> dict[str, bytes]:
    """All files of an export, by their path in it."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def damaged(path: Path, position: int) -> Path:
    """Flip a bit of a stored image, in a copy of a record set."""
    copy = Path(shutil.copytree(path, path.with_name("damaged.records")))
    shard, start = place_of(copy, position)
    flip_byte(shard, start + 5)
    return copy
