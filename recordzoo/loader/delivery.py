"""What follows the making of a batch: samples that were left out are counted; the batch is moved to a device."""

import logging
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import PIL
import torch
from typing_extensions import override

from recordzoo.base.settings import how_to_install, together
from recordzoo.images.decode import decoders
from recordzoo.images.turbojpeg import how_to_install_library, library
from recordzoo.loader.compiled import DISABLED, OFF, compiled_code, why_not_compiled
from recordzoo.loader.iteration import BatchIterator, Home
from recordzoo.loader.making import Less, Maker
from recordzoo.loader.plan import Plan
from recordzoo.loader.source import BatchSource, JointLeaf
from recordzoo.loader.stores import Wanted

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


# Any, in all of this module: transforms are the user's.

logger = logging.getLogger("recordzoo")

_said: list[str] = []


def sample_lines(dataset: object, source: BatchSource, precision: str) -> list[str]:
    """Describe the processing of a sample, one line per step."""
    if not source.leaves:
        return [f"not fused: {source.problem}; each sample is taken from {type(dataset).__name__}, as it gives it"]
    lines = [f"decoded by {_decoder()}", f"PIL images are resampled by {_resampler(precision)}"]
    if less := missing(source):
        lines.append(f"slower than it could be: {less}")
    if source.is_small:
        lines.append("small images: one thread makes them, as several would wait for each other's turn with the GIL")
    for number, leaf in enumerate(source.leaves):
        if len(source.leaves) > 1:
            lines.append(f"dataset {number}: {type(leaf.dataset).__name__} {leaf.store.title}")
        for view, plan in enumerate(leaf.views.plans, 1):
            if leaf.views.is_list:
                lines.append(f"view {view}, of one decoding:")
            lines += _plan_lines(plan, precision)
        if isinstance(leaf, JointLeaf) and leaf.plan.is_joint:
            lines.append("boxes and masks are moved as the image is, by torchvision")
            lines += _rest_lines(leaf.plan.rest, leaf.plan.image.reason)
        if leaf.target_transform is not None:
            lines.append(
                f"not fused: target_transform {_line(leaf.target_transform)}; runs for each sample, as written"
            )
    return lines


def batch_lines(maker: Maker) -> Iterator[str]:
    """Describe the other options of batches, one per line."""
    options, leaves = maker.options, maker.source.leaves
    if options.skips:
        yield "on_error: samples that cannot be read or decoded are left out of their batches"
    if not options.collates_by_default:
        yield "collate_fn: samples are made on their own, for it to put together"
    if not leaves or not all(leaf.is_fused for leaf in leaves):
        yield (
            "deterministic: what is not fused runs one sample at a time, with generators seeded for each"
            if options.deterministic
            else "what is not fused draws random numbers from the generators of its process: reproducible with "
            "num_workers=0, or deterministic=True"
        )


def warn(source: BatchSource) -> None:
    """Log missing packages, once per process and only on the first rank of a machine.

    A log line, not a Python warning: test suites that turn warnings into errors must not fail. Without logging
    configuration, Python prints it to stderr.
    """
    if not _said and os.environ.get("LOCAL_RANK", "0") == "0" and (text := missing(source)):
        _said.append(text)
        logger.warning("RecordLoader is slower than it could be: %s", text)


def missing(source: BatchSource) -> str:
    """Name the missing packages that would make these samples faster, and how to install them; "" if none."""
    reasons: list[str] = []
    cures: list[str] = []
    why = why_not_compiled() if source.leaves else ""
    if why and why not in (DISABLED, OFF):
        reasons.append(why)
        cures.append(how_to_install("numba"))
    if any(not leaf.store.is_raw for leaf in source.leaves) and library() is None:
        reasons.append("libjpeg-turbo 3 is not installed")
        cures.append(how_to_install_library())
    return f"{' and '.join(reasons)}. Install: {together(cures)}" if reasons else ""


def _plan_lines(plan: Plan, precision: str) -> list[str]:
    lines = [f"fused: {_line(transform)}" for transform in plan.fused]
    if plan.steps and precision == "fast":
        lines.append("fast: decoded at half the size where that is enough")
    lines += _rest_lines(plan.rest, plan.reason)
    if plan.ending is not None:
        lines += [f"fused at the end: {_line(transform)}" for transform in plan.ending.fused]
    elif not plan.is_tensor and not plan.rest:
        lines.append("no transform makes a tensor of the image: samples are PIL images")
    elif plan.is_whole and plan.size is None:
        lines.append("images may differ in size: only those of one size are made together")
    return lines


def _rest_lines(rest: Sequence[Any], reason: str) -> Iterator[str]:
    for number, transform in enumerate(rest):
        why = "it comes behind one that is not fused" if number else reason
        yield f"not fused: {_line(transform)}: {why}; runs for each sample, as written"


def _decoder() -> str:
    found = ", then ".join(decoders())
    return found if library() is not None else f"{found}; libjpeg-turbo 3 would decode only what is kept"


def _resampler(precision: str) -> str:
    found = compiled_code(waits=precision == "fast")
    if found is None:
        slow = "Pillow" if precision == "exact" else "torch"
        if why := why_not_compiled():
            return f"{slow}; compiled code would be faster, but {why}"
        return f"{slow}, until the compiled code is ready: another process compiles it, once for this machine"
    if precision == "exact" and "Pillow" not in found.exact:
        return f"Pillow {PIL.__version__}: the compiled code, which is faster, gives other pixels than this version"
    return "compiled code (numba), as Pillow does" if "Pillow" in found.exact else "compiled code (numba)"


def _line(transform: Any) -> str:
    return " ".join(repr(transform).split())
