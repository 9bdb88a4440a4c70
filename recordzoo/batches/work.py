"""A piece of a batch, for one thread: which samples, and the random numbers that they need."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.batches.keys import Keys, indices_of
from recordzoo.batches.order import Wanted
from recordzoo.batches.render import Precision, render
from recordzoo.batches.source import BatchSource, Leaf
from recordzoo.batches.steps import Action, decide
from recordzoo.batches.uniform import local_seeds, uniforms
from recordzoo.loading.frames import Frame


@dataclass(frozen=True)
class Piece:
    """A part of a batch.

    Attributes:
        start: The number of its first sample in the batch.
        keys: Of its samples in the dataset.
        leaves: The number of each sample's leaf, int64 [n]; without leaves empty.
        inner: Its index in that leaf, int64 [n]; without leaves empty.
        draws: Random numbers for the steps, a row each; float64 [n, draws].
        seeds: For generators of others, 32 bits each; uint64 [n].
    """

    start: int
    keys: Keys
    leaves: NDArray[np.int64]
    inner: NDArray[np.int64]
    draws: NDArray[np.float64]
    seeds: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)


def cut(wanted: Wanted, source: BatchSource, seed: int, epoch: int, size: int) -> list[Piece]:
    """Cut a batch into pieces of a size.

    Raises:
        IndexError: There is no such sample.
        TypeError: A key is no index, and the samples are in record sets.
    """
    leaves = inner = np.empty(0, np.int64)
    if source.leaves:
        leaves, inner = source.locate(indices_of(wanted.keys, source.kind))
    num_draws = max((leaf.plan.num_draws for leaf in source.leaves), default=0)
    draws = uniforms(seed, epoch, wanted.places, num_draws)
    seeds = local_seeds(seed, epoch, wanted.places)
    pieces = []
    for start in range(0, len(wanted.keys), size):
        part = slice(start, start + size)
        pieces.append(Piece(start, wanted.keys[part], leaves[part], inner[part], draws[part], seeds[part]))
    return pieces


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Opened:
    """An image that is not decoded yet, and what happens to it.

    Attributes:
        leaf: The dataset it is of.
        index: Its index there.
        frame: The image.
        actions: What was decided.
    """

    leaf: Leaf
    index: int
    frame: Frame
    actions: list[Action]

    def render(self, precision: Precision) -> torch.Tensor:
        """Decode it, and do what was decided.

        Raises:
            ImageError: It cannot be decoded.
        """
        try:
            return render(self.frame, self.actions, precision)
        except Exception as err:
            self.leaf.name_in(err, self.index)
            raise


def open_sample(source: BatchSource, piece: Piece, number: int) -> Opened:
    """Open the image of a sample of a piece.

    Raises:
        ImageError: It cannot be decoded.
        CorruptRecordError: The stored bytes are damaged.
    """
    leaf, index = source.leaves[piece.leaves[number]], int(piece.inner[number])
    try:
        frame = leaf.frame(index)
        actions = decide(leaf.plan.steps, (frame.height, frame.width), piece.draws[number].tolist())
    except Exception as err:
        leaf.name_in(err, index)
        raise
    return Opened(leaf, index, frame, actions)


# Any: targets are what the dataset has.
def targets_of(source: BatchSource, piece: Piece) -> Any:
    """Return the targets of a piece: int64 [n] if they are labels as they are stored, otherwise a list."""
    if len(source.leaves) == 1:
        return source.leaves[0].targets(piece.inner)
    return [source.leaves[leaf].target(index) for leaf, index in zip(piece.leaves, piece.inner.tolist(), strict=True)]
