"""Pieces of a batch, one for a thread: the indices of samples, their random numbers, and their opened images.

Random numbers are functions of seed, epoch and place.
"""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError
from recordzoo.images.frames import OPENED_AT_ONCE, Frame
from recordzoo.loader.order import EpochBatches, Keys, Wanted, indices_of
from recordzoo.loader.source import BatchSource, ImageLeaf, Leaf
from recordzoo.pixels.render import Precision, render
from recordzoo.sampling.permutation import hash_key, hash_keys, uniform
from recordzoo.transforms.plan import Plan
from recordzoo.transforms.steps import Action, Size, decide, num_draws, size_after
from recordzoo.transforms.views import decoded_once

_DRAWS = 0x64726177  # separates these from the random numbers of the epoch's order
_OF_BATCH = 0x62617463  # separates a batch's seed from its first sample's


def uniforms(seed: int, epoch: int, places: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return numbers from 0 to 1, 1 excluded, float64 [places, count]; the same ones for the same arguments."""
    key = hash_key(seed, epoch, _DRAWS)
    return uniform(hash_keys(key, places[:, None] * count + np.arange(count)))


def local_seeds(seed: int, epoch: int, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 32-bit seed for each place, for the generators of other libraries."""
    return hash_keys(hash_key(seed, epoch, _DRAWS + 1), places) >> np.uint64(32)


def batch_seed(order: EpochBatches, wanted: Wanted) -> int:
    """Return the seed for `collate_fn` and `batch_transform`."""
    seeds = local_seeds(order.seed, order.epoch, wanted.places[:1])
    return (int(seeds[0]) if len(seeds) else 0) ^ _OF_BATCH


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one piece of work, then restore them.

    Only for worker processes and the user's thread: other threads would change the random numbers of the user's thread.
    """
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)


@dataclass(frozen=True)
class BatchPiece:
    """A part of a batch.

    Attributes:
        start: The number of its first sample in the batch.
        keys: The samples' keys in the dataset.
        leaves: The number of each sample's leaf, int64 [n]; empty without leaves.
        inner: Each sample's index in its leaf, int64 [n]; empty without leaves.
        draws: Random numbers for the steps, one row per sample; float64 [n, draws].
        seeds: Seeds for generators of other libraries, 32 bits each; uint64 [n].
    """

    start: int
    keys: Keys
    leaves: NDArray[np.int64]
    inner: NDArray[np.int64]
    draws: NDArray[np.float64]
    seeds: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, numbers: list[int]) -> "BatchPiece":
        """Return a piece of some of the samples, with the same start. Keys must be indices."""
        columns = (self.keys, self.leaves, self.inner, self.draws, self.seeds)
        return BatchPiece(self.start, *(np.asarray(column)[numbers] for column in columns))


def cut(
    keys: Keys, places: NDArray[np.int64], source: BatchSource, order: tuple[int, int], size: int
) -> list[BatchPiece]:
    """Cut a batch into pieces of a size; an empty batch is one piece.

    Args:
        keys, places: As of `Wanted`.
        order: Seed and epoch.
    """
    leaves = inner = np.empty(0, np.int64)
    if source.leaves:
        leaves, inner = source.locate(indices_of(keys, source.kind))
    count = max((leaf.views.num_draws for leaf in source.leaves), default=0)
    draws = uniforms(*order, places, count)
    seeds = local_seeds(*order, places)
    pieces = []
    for start in range(0, max(1, len(keys)), max(1, size)):
        here = slice(start, start + size)
        pieces.append(BatchPiece(start, keys[here], leaves[here], inner[here], draws[here], seeds[here]))
    return pieces


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Opened:
    """An opened image and the actions chosen for one view of it.

    Attributes:
        index: The sample's index in `leaf`.
        draws: Random numbers for the plan's ending.
    """

    leaf: Leaf
    index: int
    plan: Plan
    frame: Frame
    actions: list[Action]
    draws: list[float]

    @property
    def size(self) -> Size:
        """Height and width of the finished view."""
        return size_after(self.actions, (self.frame.height, self.frame.width))

    def render(self, precision: Precision) -> torch.Tensor:
        """Decode the image and apply the actions."""
        try:
            return render(self.frame, self.actions, precision)
        except Exception as err:
            self.leaf.store.name_in(err, self.index)
            raise

    def again(self, frame: Frame) -> "Opened":
        """Choose the actions of the plan's ending, for the image that the transforms before it returned."""
        assert self.plan.ending is not None
        with self.leaf.noting(self.index):
            actions = decide(self.plan.ending.steps, (frame.height, frame.width), self.draws)
        return Opened(self.leaf, self.index, self.plan.ending, frame, actions, [])


def opened_at_once(source: BatchSource) -> int:
    """Return the number of samples to open at once: few with several views, which are decoded on opening."""
    is_single = all(len(leaf.views.plans) == 1 for leaf in source.leaves)
    return OPENED_AT_ONCE if is_single else 2


def open_views(source: BatchSource, piece: BatchPiece, number: int) -> list[Opened]:
    """Open the image of a sample for each of its views. Several views share one decoding, done here."""
    leaf, index = source.leaves[piece.leaves[number]], int(piece.inner[number])
    assert isinstance(leaf, ImageLeaf)
    draws = piece.draws[number].tolist()
    try:
        frame = leaf.frame(index)
        opened = []
        for plan in leaf.views.plans:
            actions = decide(plan.steps, (frame.height, frame.width), draws)
            own = num_draws(plan.steps)
            opened.append(Opened(leaf, index, plan, frame, actions, draws[own : plan.num_draws]))
            draws = draws[plan.num_draws :]
        if len(opened) > 1:
            frame = decoded_once(frame, [view.actions for view in opened])
            for view in opened:
                view.frame = frame
    except Exception as err:
        leaf.store.name_in(err, index)
        raise
    return opened


# Any: the transforms' images; a list for several views.
def check_sizes(source: BatchSource, made: list[tuple[BatchPiece, list[Any]]], cause: Exception) -> None:
    """Raise an error that names two samples, if the images of a batch differ in shape."""
    first, name_of_first = "", ""
    for piece, images in made:
        for image, leaf, index in zip(images, piece.leaves, piece.inner, strict=True):
            views = image if isinstance(image, list) else [image]
            size = ", ".join(" x ".join(map(str, view.shape)) for view in views if isinstance(view, torch.Tensor))
            name = source.leaves[leaf].store.name(int(index))
            if first and size != first:
                raise ArgumentError(
                    f"The images of a batch differ in shape: {name_of_first} is {first}; {name} is {size}. End their "
                    "transforms with one size, such as Resize((224, 224)) or CenterCrop(224), and with one number of "
                    "channels (v2.RGB()), or pass a collate_fn."
                ) from cause
            first, name_of_first = first or size, name_of_first or name
