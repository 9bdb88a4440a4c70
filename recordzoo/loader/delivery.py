"""What follows the making of a batch: samples that were left out are counted; the batch is moved to a device."""

import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from typing_extensions import override

from recordzoo.loader.iteration import BatchIterator, Home
from recordzoo.loader.maker import Less
from recordzoo.loader.order import Wanted

logger = logging.getLogger("recordzoo")

# Any, here and below: a batch is what the collate function makes.


@dataclass
class _Tally:
    """The samples skipped in an epoch: their number, and the first reason."""

    count: int = 0
    first: str = ""

    def log(self) -> None:
        if self.count:
            logger.warning(
                "RecordLoader left out %s of this epoch that cannot be read or decoded; the first: %s",
                "a sample" if self.count == 1 else f"{self.count:,} samples",
                self.first,
            )


class Counting(BatchIterator):
    """Counts the samples that are left out of an epoch's batches, and logs their number at the end of the epoch.

    Args:
        count: Called with a batch's number of skipped samples, after the user has received the batch.
    """

    def __init__(self, batches: BatchIterator, count: Callable[[int], None]) -> None:
        self._batches, self._count, self._tally = batches, count, _Tally()
        self._log = weakref.finalize(self, self._tally.log)

    @override
    def take(self) -> tuple[Any, Wanted]:
        try:
            batch, wanted = self._batches.take()
        except StopIteration:
            self._log()
            raise
        if not isinstance(batch, Less):
            return batch, wanted
        failures = batch.failures

        def mark() -> None:
            wanted.mark()
            self._count(len(failures))
            self._tally.first = self._tally.first or failures[0]
            self._tally.count += len(failures)

        return batch.batch, replace(wanted, mark=mark)

    @override
    def is_ready(self) -> bool:
        return self._batches.is_ready()

    @override
    def close(self) -> None:
        self._batches.close()
        self._log()


class OnDevice(BatchIterator):
    """Moves batches to a device, one ahead of the user and in the user's thread.

    Args:
        finish: Finishes a moved batch on the device: computes its values and calls `batch_transform`.
    """

    def __init__(self, batches: BatchIterator, device: torch.device, finish: Callable[[Any, Wanted], Any]) -> None:
        self._batches, self._device, self._finish = batches, device, finish
        self._home = Home()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._next: tuple[Any, Wanted] | None = None
        self._failure: Exception | None = None  # of the batch after the next one

    @override
    def take(self) -> tuple[Any, Wanted]:
        self._home.check()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        batch, wanted = self._next or self._move()
        self._next = None
        if self._stream is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            for tensor in tensors(batch):
                tensor.record_stream(current)  # keep its memory until the user's stream is done with it
        # Do not wait for a batch that is not ready: the user can work on this one meanwhile.
        if self._batches.is_ready():
            try:
                self._next = self._move()
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                self._failure = err
        return batch, wanted

    @override
    def is_ready(self) -> bool:
        return self._next is not None

    @override
    def close(self) -> None:
        self._next = self._failure = None
        self._batches.close()

    def _move(self) -> tuple[Any, Wanted]:
        batch, wanted = self._batches.take()
        with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
            return self._finish(to_device(batch, self._device), wanted), wanted


def to_device(batch: Any, device: torch.device) -> Any:
    """Move all tensors of a batch; keep the types of lists, tuples and dicts."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: to_device(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def tensors(batch: Any) -> Iterator[torch.Tensor]:
    """Iterate over all tensors of a batch."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors(value)
