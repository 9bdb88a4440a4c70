"""Choose the images to show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.meant import no_split
from recordzoo.errors import ArgumentError
from recordzoo.images.decode import is_pixels
from recordzoo.records.labels import Labels
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader

ORDERS = ("class", "random", "largest", "smallest", "broken")


@dataclass(frozen=True)
class Choice:
    """The positions of the chosen images in display order, and the images and classes they were chosen from."""

    positions: Sequence[int]
    num_candidates: int
    num_classes: int | None = None


def picture_field(reader: RecordReader) -> str:
    """Return the blob field that holds images: "image", or else the first one.

    Raises:
        ArgumentError: There is none.
    """
    blobs = reader.manifest.blobs
    fitting = [
        name
        for name, spec in blobs.items()
        if spec.encoding == "image" or (spec.encoding == "raw" and is_pixels(spec.dtype, spec.shape))
    ]
    if not fitting:
        fields = ", ".join(f"{name} ({spec.encoding})" for name, spec in blobs.items()) or "none"
        raise ArgumentError(f"{reader.path} holds no images; its blob fields are: {fields}.", path=str(reader.path))
    return "image" if "image" in fitting else fitting[0]


def with_value(reader: RecordReader, field: str, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions that have a value in a blob field."""
    found: NDArray[np.int64] = positions[reader.array(f"{field}.index")["shard"][positions] != NO_SHARD]
    return found


def evenly(positions: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Choose at most `number` of the positions, evenly from the first to the last."""
    count = min(number, len(positions))
    return positions[np.arange(count) * len(positions) // max(1, count)]


def candidates(
    reader: RecordReader, field: str, split: str | None, labels: Labels | None, classes: Sequence[str]
) -> NDArray[np.int64]:
    """Return the positions of a split and of these classes that have an image, in the split's order.

    Raises:
        ArgumentError: There is no such split or class.
    """
    splits = reader.manifest.splits
    if split is not None and split not in splits:
        raise no_split(reader.path, split, splits)
    positions = with_value(reader, field, np.asarray(reader.split(split or ""), np.int64))
    if not classes:
        return positions
    if labels is None:
        raise ArgumentError(f"{reader.path} has no classes to choose from (--class {classes[0]}).")
    wanted = [number for text in classes for number in labels.find(text)]
    chosen: NDArray[np.int64] = positions[np.isin(labels.numbers[positions], wanted)]
    return chosen


def choose(
    reader: RecordReader,
    field: str,
    found: NDArray[np.int64],
    labels: Labels | None,
    *,
    order: str,
    number: int,
    seed: int,
) -> Choice:
    """Choose `number` of the positions `found`.

    Args:
        order: "class" (as many of each class as possible, of as many classes as possible; without classes evenly from
            the first to the last), "random", "largest" or "smallest" (by stored bytes, the first of equal ones first).
        number: At most so many.
        seed: Another seed chooses others; of no effect on "largest" and "smallest".

    Raises:
        ArgumentError: There is no such order.
    """
    num_classes = None if labels is None else len(np.unique(labels.numbers[found]))
    rng = np.random.default_rng(seed)
    if order == "random":
        chosen = found[rng.permutation(len(found))[:number]]
    elif order in ("largest", "smallest"):
        lengths = reader.lengths(field)[found].astype(np.int64)
        chosen = found[np.argsort(-lengths if order == "largest" else lengths, kind="stable")[:number]]
    elif order != "class":
        raise ArgumentError(f"Unknown value {order!r} for order. Valid values are {', '.join(ORDERS)}.")
    elif labels is None:
        chosen = evenly(found, number)
    else:
        chosen = _of_classes(found, labels.numbers[found], number, rng)
    return Choice(chosen.tolist(), len(found), num_classes)


def _of_classes(
    found: NDArray[np.int64], numbers: NDArray[np.int64], number: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Take from each class in turn, from each at random, until there are enough; then sort by class."""
    order = rng.permutation(len(found))
    order = order[np.argsort(numbers[order], kind="stable")]  # by class; within a class at random
    _, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    turn = np.arange(len(order)) - np.repeat(starts, counts)  # how many of its class come before it
    place = np.repeat(rng.permutation(len(starts)), counts)  # its class's place within each turn
    chosen = order[np.lexsort((place, turn))[:number]]
    picked = found[chosen]
    return picked[np.lexsort((picked, numbers[chosen]))]
