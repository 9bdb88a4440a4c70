"""Make a batch directly into its tensors; `samples` makes samples and collates them."""

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import default_collate

from recordzoo.errors import CorruptRecordError, EmptyBatchError, ImageError, RecordZooError
from recordzoo.families.selection import Uneven
from recordzoo.loader.buffers import Buffers
from recordzoo.loader.source import BatchSource
from recordzoo.loader.work import BatchPiece, open_views, opened_at_once, targets_of
from recordzoo.loader.writer import RowWriter, with_values
from recordzoo.pixels.render import Precision

# Any, here and below: targets and samples are what the dataset has, a batch is what the collate function makes.

_OF_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Errors of a process or machine without enough files or memory, not of a sample."""


class Memory:
    """The memory of a batch: a tensor per view, allocated when the first piece has read its first samples.

    Args:
        take: Allocates the tensors.
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


class Less(NamedTuple):
    """A batch without some of its samples.

    Attributes:
        batch: The batch of the other samples.
        failures: The error of each sample that was left out.
    """

    batch: Any  # the collate function's result
    failures: list[str]


class _BatchPart(NamedTuple):
    """A piece with `on_error="skip"`: its rows in use, and the errors of samples that were left out."""

    made: Any
    rows: slice
    failures: list[str]


class Maker(ABC):
    """Makes batches: `make` in several threads or in worker processes, then `batch`; `arrived` in the user's thread.

    Args:
        source: The source of the samples.
        skips: Leave out samples that cannot be read or decoded.
    """

    def __init__(self, source: BatchSource, *, skips: bool) -> None:
        self.source, self._skips = source, skips

    def memory(self, count: int) -> Memory:
        """Return the memory for a batch of this many samples."""
        return Memory(list)

    def make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Make a piece."""
        if not self._skips:
            return self._make(piece, memory)
        failures: list[str] = []
        try:
            made = self._make(piece, memory)
        except Exception:
            piece, failures = self._without_failures(piece)
            if not failures:
                raise
            made = self._make(piece, memory) if len(piece) else None
        return _BatchPart(made, slice(piece.start, piece.start + len(piece)), failures)

    def batch(self, memory: Memory, parts: list[Any]) -> Any:
        """Build a batch from its pieces, as returned by `make`; a `Less` if samples were skipped.

        Raises:
            EmptyBatchError: All samples were left out.
        """
        if not self._skips:
            return self._batch(memory, parts)
        failures = [failure for part in parts for failure in part.failures]
        if not failures:
            return self._batch(memory, [part.made for part in parts])
        kept = [part for part in parts if part.made is not None]
        if not kept:
            raise EmptyBatchError(
                f"None of the {len(failures)} samples of a batch can be read or decoded. The first: {failures[0]}"
            )
        rows = [torch.cat([tensor[part.rows] for part in kept]) for tensor in memory.tensors]
        return Less(self._batch(Memory(lambda: rows), [part.made for part in kept]), failures)

    def _without_failures(self, piece: BatchPiece) -> tuple[BatchPiece, list[str]]:
        """Return the samples of a piece that can be decoded, and the errors of the others."""
        good, failures = [], []
        for number, (leaf, index) in enumerate(zip(piece.leaves, piece.inner.tolist(), strict=True)):
            try:
                self.source.leaves[leaf].check(index)
            except Exception as err:
                if not _is_of_sample(err):
                    raise
                failures.append(f"{type(err).__name__}: {err}")
            else:
                good.append(number)
        return piece.of(good), failures

    @abstractmethod
    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Make all samples of a piece."""

    @abstractmethod
    def _batch(self, memory: Memory, parts: list[Any]) -> Any:
        """Assemble a batch from the parts that `_make` returned."""

    def arrived(self, batch: Any) -> Any:
        """Finish a batch on the user's device."""
        return batch


class RowMaker(Maker):
    """Renders images to rows of one tensor per view. All transforms are fused, and all images have the same size.

    Args:
        source: The source of the samples.
        precision: "exact" or "fast".
        buffers: The memory for the tensors, per view.
        skips: As `Maker`'s.
    """

    def __init__(self, source: BatchSource, precision: Precision, buffers: list[Buffers], *, skips: bool) -> None:
        super().__init__(source, skips=skips)
        self.buffers = buffers
        self._views = source.leaves[0].views
        self._is_finished = []  # otherwise the device computes the values
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

    def _make(self, piece: BatchPiece, memory: Memory) -> Any:
        """Fill rows; return targets."""
        at_once = opened_at_once(self.source)
        for start in range(0, len(piece), at_once):
            numbers = range(start, min(start + at_once, len(piece)))
            opened = [open_views(self.source, piece, number) for number in numbers]
            for writer, tensor, images in zip(self._writers, memory.tensors, zip(*opened, strict=True), strict=True):
                writer.fill(tensor[piece.start + start : piece.start + numbers.stop], images)
        return targets_of(self.source, piece)

    def _batch(self, memory: Memory, parts: list[Any]) -> Any:
        """Return [images, targets]; with several views, images is a list of tensors."""
        return [list(memory.tensors) if self._views.is_list else memory.tensors[0], collated_targets(parts)]

    def arrived(self, batch: Any) -> Any:
        """Convert and normalise images that were sent as bytes."""
        images, targets = batch
        views = images if self._views.is_list else [images]
        done = [
            view if is_finished else with_values(plan, view)
            for view, plan, is_finished in zip(views, self._views.plans, self._is_finished, strict=True)
        ]
        return [done if self._views.is_list else done[0], targets]


def collated_targets(parts: list[Any]) -> Any:
    """Collate the targets of pieces: arrays or lists; tuples and dicts of these hold several targets."""
    if isinstance(parts[0], dict):
        return {key: collated_targets([part[key] for part in parts]) for key in parts[0]}
    if isinstance(parts[0], tuple):
        return [collated_targets(list(each)) for each in zip(*parts, strict=True)]
    if all(isinstance(part, np.ndarray) for part in parts):
        return torch.from_numpy(np.concatenate(parts))
    if any(isinstance(part, Uneven) for part in parts):
        return [torch.as_tensor(each) if isinstance(each, np.ndarray) else each for part in parts for each in part]
    targets = tuple(target for part in parts for target in part)  # a tuple: some collated batches keep it
    return default_collate(targets)  # type: ignore[arg-type]  # it takes any sequence


def _is_of_sample(err: Exception) -> bool:
    """Whether an error says that a sample is missing or damaged; not one of the machine or the network."""
    if isinstance(err, RecordZooError):
        return isinstance(err, ImageError | CorruptRecordError)
    return not isinstance(err, MemoryError) and getattr(err, "errno", None) not in _OF_MACHINE
