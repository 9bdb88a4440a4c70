"""Move batches to a device: the next batch is copied and converted there while the user works on the current one."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Protocol

import torch

from recordzoo.loader.iteration import Home
from recordzoo.loader.order import Wanted


class Taking(Protocol):
    """Batches in host memory."""

    # Any: a batch is what the collate function makes.
    def take(self) -> tuple[Any, Wanted]:
        """Return the next batch and its description.

        Raises:
            StopIteration: The epoch is over.
        """

    def is_ready(self) -> bool:
        """Whether `take` would return at once."""

    def close(self) -> None:
        """End the work."""


class OnDevice(Iterator[Any]):
    """Batches on a device, moved one ahead of the user, in the user's thread.

    Args:
        batches: The batches in host memory.
        device: The device.
        finish: Finishes a moved batch on the device: computes its values and calls `batch_transform`.
    """

    def __init__(self, batches: Taking, device: torch.device, finish: Callable[[Any, Wanted], Any]) -> None:
        self._batches, self._device, self._finish = batches, device, finish
        self._home = Home()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._next: tuple[Any, Wanted] | None = None
        self._failure: Exception | None = None  # of the batch after the next one

    def __iter__(self) -> "OnDevice":
        return self

    # Any: as above.
    def __next__(self) -> Any:
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
        wanted.mark()
        return batch

    def close(self) -> None:
        """End the work; there are no more batches."""
        self._next = self._failure = None
        self._batches.close()

    def _move(self) -> tuple[Any, Wanted]:
        batch, wanted = self._batches.take()
        with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
            return self._finish(to_device(batch, self._device), wanted), wanted


# Any, here and below: batches are what the collate function makes.
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
