"""The three ways in which a batch is made: into rows of memory, of samples, or of encoded images on a device."""

import contextlib
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from recordzoo.batches.buffers import Buffers
from recordzoo.batches.compiled import kernel
from recordzoo.batches.decoding import decode_batch
from recordzoo.batches.fuse import Plan, as_given
from recordzoo.batches.render import Precision, to_picture
from recordzoo.batches.rows import RowRenderer
from recordzoo.batches.source import BatchSource
from recordzoo.batches.work import Opened, Piece, open_sample, targets_of
from recordzoo.loading.frames import OPENED_AT_ONCE
from recordzoo.system.processes import at_fork

# Any, here and below: targets and samples are what the dataset has, a batch is what the collate function makes.


class Maker(ABC):
    """Makes batches. `make` runs in any number of threads, the rest in the user's."""

    def memory(self, count: int) -> torch.Tensor | None:
        """Return what the pieces of a batch of so many samples are made into."""
        return None

    @abstractmethod
    def make(self, piece: Piece, memory: torch.Tensor | None) -> Any:
        """Make a piece."""

    @abstractmethod
    def batch(self, memory: torch.Tensor | None, parts: list[Any]) -> Any:
        """Make a batch of what `make` returned for its pieces."""

    def arrived(self, batch: Any) -> Any:
        """Do what is left to do when a batch has been moved to the user's device."""
        return batch


class RowMaker(Maker):
    """Makes images into rows of one tensor: all are fused to their end, and of one size.

    Args:
        source: What has the samples.
        precision: How images are made.
        buffers: Gives the tensors.
    """

    def __init__(self, source: BatchSource, precision: Precision, buffers: Buffers) -> None:
        self._source, self._precision, self._buffers = source, precision, buffers
        self._pointwise = source.leaves[0].plan.pointwise
        self._is_finished = buffers.dtype is self._pointwise.dtype  # otherwise the values are left to the device
        self._renderer = None
        if (found := kernel()) is not None:
            height, width = buffers.shape[1:]
            pointwise = self._pointwise if self._is_finished else None
            self._renderer = RowRenderer(height, width, pointwise, precision, found)

    def memory(self, count: int) -> torch.Tensor:
        """Return a tensor [count, 3, H, W]."""
        return self._buffers.take(count)

    def make(self, piece: Piece, memory: torch.Tensor | None) -> Any:
        """Fill rows; return targets."""
        assert memory is not None
        rows = memory[piece.start : piece.start + len(piece)]
        for start in range(0, len(piece), OPENED_AT_ONCE):
            numbers = range(start, min(start + OPENED_AT_ONCE, len(piece)))
            self._fill(rows[start : numbers.stop], [open_sample(self._source, piece, number) for number in numbers])
        return targets_of(self._source, piece)

    def _fill(self, rows: torch.Tensor, images: list[Opened]) -> None:
        left: Iterable[int] = range(len(images))
        if self._renderer is not None:
            left = self._renderer.make([(image.frame, image.actions) for image in images], rows)
        for number in left:
            rows[number].copy_(images[number].render(self._precision))
            if self._is_finished:
                self._pointwise.apply_(rows[number])

    def batch(self, memory: torch.Tensor | None, parts: list[Any]) -> Any:
        """Return [images, targets]."""
        return [memory, _collated_targets(parts)]

    def arrived(self, batch: Any) -> Any:
        """Do to the values what was left."""
        images, targets = batch
        return [images if self._is_finished else _with_values(self._source.leaves[0].plan, images), targets]


class SampleMaker(Maker):
    """Makes samples, as the dataset would, and collates them.

    Args:
        dataset: What is asked for them if the source has no leaves.
        source: What has them otherwise.
        precision: How images are made.
        collate: Makes a batch of them.
        deterministic: Run what is not fused one sample at a time, the process's generators seeded for each.
        singly: A batch is one sample; `collate` gets it, and not a list of it.
    """

    def __init__(
        self,
        dataset: Any,
        source: BatchSource,
        precision: Precision,
        collate: Callable[[Any], Any],
        *,
        deterministic: bool,
        singly: bool = False,
    ) -> None:
        self._dataset, self._source, self._precision = dataset, source, precision
        self._collate, self._singly = collate, singly
        self._is_deterministic = deterministic

    def make(self, piece: Piece, memory: torch.Tensor | None) -> Any:
        """Return a list of samples."""
        if self._source.leaves:
            return [self._sample(piece, number) for number in range(len(piece))]
        keys = piece.keys if isinstance(piece.keys, list) else piece.keys.tolist()
        if not self._is_deterministic and not self._singly and hasattr(self._dataset, "__getitems__"):
            return list(self._dataset.__getitems__(keys))
        return [self._taken(piece, number, key) for number, key in enumerate(keys)]

    def batch(self, memory: torch.Tensor | None, parts: list[Any]) -> Any:
        """Return what the collate function makes."""
        samples = [sample for part in parts for sample in part]
        return self._collate(samples[0] if self._singly else samples)

    def _taken(self, piece: Piece, number: int, key: Any) -> Any:
        with self._turn(piece, number):
            return self._dataset[key]

    def _sample(self, piece: Piece, number: int) -> tuple[Any, Any]:
        opened = open_sample(self._source, piece, number)
        # Contiguous, as ToTensor's are: whatever comes behind may view it in another shape.
        plan, image = opened.leaf.plan, opened.render(self._precision).contiguous()
        sample: Any = as_given(plan, _with_values(plan, image)) if plan.is_tensor else to_picture(image)
        with self._turn(piece, number):
            return _transformed(opened, sample)

    def _turn(self, piece: Piece, number: int) -> contextlib.AbstractContextManager[None]:
        return _seeded(int(piece.seeds[number])) if self._is_deterministic else contextlib.nullcontext()


class EncodedMaker(Maker):
    """Reads encoded images, which the user's device decodes.

    Args:
        source: What has the samples.
        device: The device.
    """

    def __init__(self, source: BatchSource, device: torch.device) -> None:
        self._source, self._device = source, device

    def make(self, piece: Piece, memory: torch.Tensor | None) -> Any:
        """Return images that are not decoded, and targets."""
        return [open_sample(self._source, piece, number) for number in range(len(piece))], targets_of(
            self._source, piece
        )

    def batch(self, memory: torch.Tensor | None, parts: list[Any]) -> Any:
        """Return a list of images that are not decoded, and the targets."""
        opened: list[Opened] = [each for images, _ in parts for each in images]
        return [opened, _collated_targets([targets for _, targets in parts])]

    def arrived(self, batch: Any) -> Any:
        """Decode the images on the device."""
        opened, targets = batch
        images = decode_batch([(each.frame, each.actions) for each in opened], self._device)
        return [_with_values(self._source.leaves[0].plan, images), targets]


def _transformed(opened: Opened, sample: Any) -> tuple[Any, Any]:
    """Return a sample after the transforms that are not fused, and its target."""
    if opened.leaf.plan.rest:
        with opened.leaf.noting(opened.index):
            for transform in opened.leaf.plan.rest:
                sample = transform(sample)
    return sample, opened.leaf.target(opened.index)


def _with_values(plan: Plan, images: torch.Tensor) -> torch.Tensor:
    """Return uint8 images with what happens to their values, in memory of their own if that is anything."""
    if plan.pointwise.operations is None:
        return images
    return plan.pointwise.apply_(images.to(torch.float32))


def _collated_targets(parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return torch.from_numpy(np.concatenate(parts))
    targets = tuple(target for part in parts for target in part)  # a tuple, of which some batches are made as it is
    return default_collate(targets)  # type: ignore[arg-type]  # it takes any sequence


class _ForkSafeLock:
    """A lock that is never held in a forked process: the child gets a new one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # A thread that does not exist in the child may hold it.
        at_fork(in_child=lambda: setattr(self, "lock", threading.Lock()))


_generators = _ForkSafeLock()
"""Who holds it may use the process's generators of random numbers; of several loaders at once too."""


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one sample, and leave them as they were."""
    with _generators.lock, restored():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Leave the process's generators as they were."""
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
