"""Ways to make a batch: into rows of memory; `samples` has the other."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from recordzoo.loader.buffers import Buffers
from recordzoo.loader.source import BatchSource
from recordzoo.loader.work import Piece, open_views, opened_at_once, targets_of
from recordzoo.loader.writer import RowWriter, with_values
from recordzoo.pixels.render import Precision

# Any, here and below: targets and samples are what the dataset has, a batch is what the collate function makes.


class Memory:
    """What a batch is made into: a tensor for each view, allocated when the first piece has read its first samples.

    Args:
        take: Allocates them.
    """

    def __init__(self, take: Callable[[], list[torch.Tensor]]) -> None:
        self._take, self._lock = take, threading.Lock()
        self._tensors: list[torch.Tensor] | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors, [count, 3, H, W]."""
        with self._lock:
            if self._tensors is None:
                self._tensors = self._take()
            return self._tensors


class Maker(ABC):
    """Makes batches. `make` runs in any number of threads or processes, `batch` behind it, `arrived` in the user's."""

    def memory(self, count: int) -> Memory:
        """Return what the pieces of a batch of so many samples are made into."""
        return Memory(list)

    @abstractmethod
    def make(self, piece: Piece, memory: Memory) -> Any:
        """Make a piece."""

    @abstractmethod
    def batch(self, memory: Memory, parts: list[Any]) -> Any:
        """Make a batch of what `make` returned for its pieces."""

    def arrived(self, batch: Any) -> Any:
        """Do what is left to do when a batch has been moved to the user's device."""
        return batch


class RowMaker(Maker):
    """Makes images into rows of tensors, one for each view: all are fused to their end, and of one size.

    Args:
        source: What has the samples.
        precision: How images are made.
        buffers: Give the tensors, for each view.
    """

    def __init__(self, source: BatchSource, precision: Precision, buffers: list[Buffers]) -> None:
        self._source, self.buffers = source, buffers
        self._views = source.leaves[0].views
        self._is_finished = []  # otherwise the values are left to the device
        self._writers = []
        for plan, each in zip(self._views.plans, buffers, strict=True):
            is_finished = each.dtype is plan.pointwise.dtype
            height, width = each.shape[1:]
            pointwise = plan.pointwise if is_finished else None
            self._is_finished.append(is_finished)
            self._writers.append(RowWriter(plan, (height, width), precision, pointwise))

    def memory(self, count: int) -> Memory:
        """See `Maker`."""
        return Memory(lambda: [each.take(count) for each in self.buffers])

    def make(self, piece: Piece, memory: Memory) -> Any:
        """Fill rows; return targets."""
        at_once = opened_at_once(self._source)
        for start in range(0, len(piece), at_once):
            numbers = range(start, min(start + at_once, len(piece)))
            opened = [open_views(self._source, piece, number) for number in numbers]
            for writer, tensor, images in zip(self._writers, memory.tensors, zip(*opened, strict=True), strict=True):
                writer.fill(tensor[piece.start + start : piece.start + numbers.stop], images)
        return targets_of(self._source, piece)

    def batch(self, memory: Memory, parts: list[Any]) -> Any:
        """Return [images, targets]; of several views, images is a list of them."""
        return [list(memory.tensors) if self._views.is_list else memory.tensors[0], collated_targets(parts)]

    def arrived(self, batch: Any) -> Any:
        """Do to the values what was left."""
        images, targets = batch
        views = images if self._views.is_list else [images]
        done = [
            view if is_finished else with_values(plan, view)
            for view, plan, is_finished in zip(views, self._views.plans, self._is_finished, strict=True)
        ]
        return [done if self._views.is_list else done[0], targets]


def collated_targets(parts: list[Any]) -> Any:
    """Return the targets of a batch, from those of its pieces: arrays of labels, or lists."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return torch.from_numpy(np.concatenate(parts))
    targets = tuple(target for part in parts for target in part)  # a tuple, of which some batches are made as it is
    return default_collate(targets)  # type: ignore[arg-type]  # it takes any sequence
