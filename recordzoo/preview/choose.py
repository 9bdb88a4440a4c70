"""Choose the images to show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.meant import did_you_mean, no_split
from recordzoo.errors import ArgumentError
from recordzoo.images.decode import picture_field, with_value
from recordzoo.records.labels import Labels, load_labels
from recordzoo.records.reader import RecordReader

ORDERS = ("class", "random", "largest", "smallest")


@dataclass(frozen=True)
class Choice:
    """The positions of the chosen images in display order, and what they were chosen from.

    Attributes:
        field: The blob field that holds the images.
        labels: The classes of the record set. None: it has none.
    """

    field: str
    labels: Labels | None
    positions: Sequence[int]
    num_candidates: int


def evenly(positions: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Choose at most `number` of the positions, evenly from the first to the last."""
    count = min(number, len(positions))
    return positions[np.arange(count) * len(positions) // max(1, count)]


def choose(
    reader: RecordReader,
    number: int,
    *,
    split: str | None = None,
    classes: Sequence[str] = (),
    order: str = "class",
    seed: int = 0,
) -> Choice:
    """Choose at most `number` of the images of a split and of these classes.

    Args:
        order: "class" (as many of each class as possible, of as many classes as possible; without classes evenly from
            the first to the last), "random", "largest" or "smallest" (by stored bytes, the first of equal ones first).
        seed: Another seed chooses others; of no effect on "largest" and "smallest".

    Raises:
        ArgumentError: There is no such split, class or order, or the record set has no images.
    """
    if order not in ORDERS:
        hint = did_you_mean(order, ORDERS)
        raise ArgumentError(f"Unknown value {order!r} for order. Valid values are {', '.join(ORDERS)}.{hint}")
    if split is not None and split not in reader.manifest.splits:
        raise no_split(reader.path, split, reader.manifest.splits)
    field, labels = picture_field(reader), load_labels(reader)
    found = with_value(reader, field, np.asarray(reader.split(split or ""), np.int64))
    if classes and labels is None:
        raise ArgumentError(f"{reader.path} has no classes to choose from (--class {classes[0]}).")
    if classes and labels is not None:
        wanted = [each for text in classes for each in labels.find(text)]
        found = found[np.isin(labels.numbers[found], wanted)]
    rng = np.random.default_rng(seed)
    if order == "random":
        chosen = found[rng.permutation(len(found))[:number]]
    elif order in ("largest", "smallest"):
        lengths = reader.lengths(field)[found].astype(np.int64)
        chosen = found[np.argsort(-lengths if order == "largest" else lengths, kind="stable")[:number]]
    elif labels is None:
        chosen = evenly(found, number)
    else:
        chosen = _of_classes(found, labels.numbers[found], number, rng)
    return Choice(field, labels, chosen.tolist(), len(found))


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
