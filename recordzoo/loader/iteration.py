"""An epoch in progress: threads prepare batches ahead of the user, or the user's thread makes each when it takes it."""

import collections
import contextlib
import functools
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from typing_extensions import override

from recordzoo.errors import ArgumentError, ForkError
from recordzoo.loader.making import BatchOptions, Maker, batch_seed, cut
from recordzoo.loader.originals import functions
from recordzoo.loader.source import BatchSource, JointLeaf
from recordzoo.loader.storage import forget, hint
from recordzoo.loader.stores import Drawing, EpochBatches, Own, Wanted
from recordzoo.loader.table import customized

# Any, in all of this module: datasets, transforms and functions are the user's.

_LISTS = (nn.ModuleList, nn.Sequential)
"""Classes of torch in which people give transforms to torchvision's containers."""


@dataclass(frozen=True)
class Placement:
    """Where the batches of a loader are made.

    Attributes:
        where: "caller": in the thread that takes the batches, when it takes them.
        reason: The reason; "{}" stands for the names of `code`.
        code: What is the reason.
    """

    where: Literal["threads", "processes", "caller"]
    reason: str
    code: tuple["Code", ...] = ()

    @property
    def why(self) -> str:
        """The reason, for `print(loader)`."""
        names = ", ".join(each.name for each in self.code)
        return self.reason.replace("{}", names) if names else self.reason


class Code(NamedTuple):
    """Something that runs as written.

    Attributes:
        written: The object; of a dataset, the name of its class.
        is_safe: Whether threads may share what it keeps.
        kind: What it is, if that is not clear from the object.
    """

    written: Any
    is_safe: bool
    kind: str = ""

    @property
    def name(self) -> str:
        """Its name for messages. Only they ask: an object's `repr` is the user's code."""
        if isinstance(self.written, str):
            return self.written
        try:
            return self.kind + " ".join(repr(self.written).split())
        except Exception:  # noqa: BLE001 - whatever the user's repr raises
            return self.kind + type(self.written).__name__


def place(options: BatchOptions, source: BatchSource, workers: str, num_workers: int) -> Placement:
    """Decide where the batches of a loader are made, without running any of it.

    Args:
        workers, num_workers: As in `RecordLoader`.

    Raises:
        ArgumentError: `deterministic` with `workers="threads"`, and code that needs seeded generators.
    """
    of_samples, of_batches = code_of_samples(source), code_of_batches(options, source)
    written = of_samples + of_batches
    if not num_workers and written:
        return Placement("caller", "num_workers=0")
    if options.deterministic and (seeded := written or _joint_transforms(source)):
        if workers == "threads":
            raise ArgumentError(
                f"deterministic=True: {seeded[0].name} is not compiled; workers='threads' would seed the generators "
                "that your own code draws from. Pass workers='auto', or leave deterministic out."
            )
        return Placement("processes", "deterministic, and {} is not compiled", (seeded[0],))
    if workers == "processes":
        return Placement("processes", "as asked")
    if not written:
        return Placement("threads", "all is fused")
    if workers == "threads":
        return Placement("threads", "as asked")
    if own := [each for each in of_samples if not each.is_safe]:
        return Placement("processes", "{} is your own code: each process runs its copy, as in DataLoader", (own[0],))
    if own := [each for each in of_batches if not each.is_safe]:
        return Placement("threads", "of your own code there is only {}, which one more thread runs", tuple(own))
    return Placement("threads", "what is not fused is torchvision's own code")


def code_of_samples(source: BatchSource) -> list[Code]:
    """List what makes images and is not compiled: a dataset or its `image_bytes`, image and joint transforms."""
    if not source.leaves:
        return [Code(source.kind, is_safe=False)]
    found = []
    for leaf in source.leaves:
        if isinstance(leaf.store, Own):
            found.append(Code(type(leaf.dataset).__name__, is_safe=False))
        if isinstance(leaf, JointLeaf):
            # Some transforms of boxes call a function of the user's, though they are known.
            boxes = [each for each in leaf.plan.of_target if not isinstance(each, int) and not is_torchvisions(each)]
            found += [_code(each) for each in (*boxes, *leaf.plan.rest)]
        found += [_code(each) for plan in leaf.views.plans for each in plan.rest]
    return found


def code_of_batches(options: BatchOptions, source: BatchSource) -> list[Code]:
    """List what converts targets, collates samples and transforms batches, and is not compiled."""
    found = []
    for leaf in source.leaves:
        if leaf.target_transform is not None:
            found.append(_code(leaf.target_transform, "target_transform "))
    if not options.collates_by_default:
        found.append(_code(options.collate, "collate_fn "))
    if options.batch_transform is not None and options.device.type == "cpu":
        found.append(_code(options.batch_transform, "batch_transform "))
    return found


def _joint_transforms(source: BatchSource) -> list[Code]:
    """List known joint transforms: they run as written for targets with an image, which only the samples show."""
    leaves = [leaf for leaf in source.leaves if isinstance(leaf, JointLeaf) and leaf.plan.is_joint]
    return [_code(leaf.plan.transforms) for leaf in leaves]


def _code(written: Any, kind: str = "") -> Code:
    return Code(written, is_torchvisions(written), kind)


def is_torchvisions(written: Any) -> bool:
    """Whether a transform is torchvision's own, unpatched, and so are all that it holds: threads may share it."""
    if isinstance(written, FunctionType):
        # Not `__module__`, which functools.wraps copies.
        return str(written.__globals__.get("__name__")).startswith("torchvision.") and not functions.replaced()
    if type(written) in _LISTS:
        return all(map(is_torchvisions, written))
    is_plain = _is_class_of_torchvision(type(written)) and not customized(written)
    return is_plain and not functions.replaced() and all(map(is_torchvisions, _held(written)))


def _held(transform: Any) -> Iterator[Any]:
    """Iterate over the functions and transforms that a transform of torchvision has as attributes."""
    attributes = vars(transform)
    for value in (*attributes.values(), *attributes.get("_modules", {}).values()):
        for each in value if isinstance(value, list | tuple) else [value]:
            if callable(each) and not isinstance(each, type):
                yield each


def _is_class_of_torchvision(kind: type) -> bool:
    """Whether a class is one of torchvision's transforms."""
    bases = [base for base in kind.__mro__ if base not in (nn.Module, object)]
    return all(
        base.__module__.startswith("torchvision.transforms.")
        and getattr(sys.modules.get(base.__module__), base.__name__, None) is base
        for base in bases
    )


_PIECES_PER_THREAD = 2
"""Two pieces a thread: all threads finish a batch at about the same time, and stop soon. More pieces would wait for the
GIL more often."""

# Any, here and below: a batch is what the collate function makes.


class _Pending:
    """A batch in progress. The thread that finishes its last piece collates it."""

    def __init__(self, num_pieces: int, finish: Callable[[list[Any]], Any]) -> None:
        self.batch = Future[Any]()
        self._parts: list[Any] = [None] * num_pieces
        self._failures: dict[int, BaseException] = {}  # by the number of the piece
        self._left, self._lock, self._finish = num_pieces, threading.Lock(), finish

    def make(self, number: int, make: Callable[[], Any]) -> None:
        """Make a piece, in any thread."""
        try:
            self._parts[number] = make()
        except BaseException as err:  # noqa: BLE001 - raised in the user's thread
            self._failures[number] = err
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._end()

    def _end(self) -> None:
        try:
            if self._failures:
                raise self._failures[min(self._failures)]
            self.batch.set_result(self._finish(self._parts))
        except BaseException as err:  # noqa: BLE001 - as above
            self.batch.set_exception(err)
        self._parts, self._failures = [], {}


class BatchIterator(Iterator[Any], ABC):
    """The batches of an epoch."""

    def __iter__(self) -> "BatchIterator":
        return self

    def __next__(self) -> Any:
        batch, wanted = self.take()
        wanted.mark()
        return batch

    @abstractmethod
    def take(self) -> tuple[Any, Wanted]:
        """Return the next batch without marking it as received; the caller does that with `wanted.mark()`.

        Raises:
            Exception: The error of this batch; the next call returns the next batch, as in `DataLoader`.
            StopIteration: The epoch is over.
            TimeoutError: The batch took longer than `timeout`.
            ForkError: This process was forked from the one that has the workers.
        """

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether `take` would return a batch at once."""

    @abstractmethod
    def close(self) -> None:
        """End the work; there are no more batches."""


class Unbegun(Iterator[Any]):
    """The batches of an epoch that begins with the first `next`.

    Lightning calls `iter` before `set_epoch`, so `iter` must not read or decide anything.
    """

    def __init__(self, begin: Callable[[], BatchIterator]) -> None:
        self._begin: Callable[[], BatchIterator] | None = begin
        self._batches: BatchIterator | None = None

    def __iter__(self) -> "Unbegun":
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            if self._begin is None:
                raise StopIteration
            self._batches = self._begin()
        return next(self._batches)

    def close(self) -> None:
        """End the work; there are no more batches."""
        self._begin = None
        if self._batches is not None:
            self._batches.close()


def late(timeout_s: float) -> TimeoutError:
    """Return the error for a batch that took longer than `timeout`."""
    return TimeoutError(
        f"No batch was ready after timeout={timeout_s} seconds. Pass a larger timeout, or 0 to wait for ever."
    )


class Home:
    """The process that created this object: a forked child inherits an iterator, but not its threads."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process created the object."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raise a `ForkError` in any other process."""
        if not self.is_here:
            raise ForkError(
                f"This iterator of a RecordLoader began in process {self._pid}. Its workers do not belong to process "
                f"{os.getpid()}, which was forked from there. Begin another iterator here: iter(loader)."
            )


class Iteration(BatchIterator):
    """An epoch prepared by threads, which end when it is exhausted, closed or garbage-collected.

    The threads refer to pieces and maker, never to this object: otherwise it would never be garbage-collected.

    Args:
        num_threads: Number of threads; small images have one.
        ahead: Batches finished before the user asks for them.
        hinted: Further batches to prefetch from the disk.
        timeout_s: Longest wait for a batch; 0: no limit.
        turn: Held while the user's functions of a batch run: an epoch that was left early may still be at it.
    """

    def __init__(
        self,
        maker: Maker,
        order: EpochBatches,
        num_threads: int,
        *,
        ahead: int,
        hinted: int,
        timeout_s: float,
        turn: threading.Lock,
    ) -> None:
        self._turn = turn
        self._maker, self._order, self._ahead, self._timeout_s = maker, order, ahead, timeout_s
        self._pending: collections.deque[tuple[Wanted, Future[Any]]] = collections.deque()
        self._num_pieces = _PIECES_PER_THREAD * num_threads
        if maker.source.is_small:  # several threads would wait for each other
            num_threads = self._num_pieces = 1
        self._pool = pool = _threads(num_threads)
        # The user's functions of targets and batches run in one thread, one after the other.
        have_own = not all(each.is_safe for each in code_of_batches(maker.options, maker.source))
        self._in_order = _threads(1) if have_own else None
        self._home = Home()

        def announce(wanted: Wanted) -> None:
            pool.submit(hint, maker.options.dataset, wanted.upcoming)

        self._drawing = Drawing(order.batches, hinted, announce)
        self._end_threads = functools.partial(_end_threads, pool, self._in_order)
        self._forgotten = weakref.finalize(self, self._end_threads, wait=False)

    @override
    def take(self) -> tuple[Any, Wanted]:
        self._home.check()
        try:
            self._work_ahead()
            if not self._pending:
                raise self._drawing.failure or StopIteration
            wanted, pending = self._pending.popleft()
            if wait([pending], self._timeout_s or None).not_done:
                raise late(self._timeout_s)
        except TimeoutError:
            self._end(wait=False)
            raise
        except BaseException:
            self.close()
            raise
        if len(wanted.finished):
            self._pool.submit(forget, self._maker.options.dataset, wanted.finished)
        return pending.result(), wanted  # an error is this batch's alone: the next `take` returns the next batch

    @override
    def is_ready(self) -> bool:
        return bool(self._pending) and self._pending[0][1].done()

    def close(self) -> None:
        """End the threads, and wait for them; there are no more batches."""
        self._end(wait=True)

    def _end(self, *, wait: bool) -> None:
        self._pending.clear()
        self._drawing.stop()
        if self._forgotten.detach() and self._home.is_here:
            self._end_threads(wait=wait)

    def _work_ahead(self) -> None:
        while len(self._pending) <= self._ahead and (wanted := self._drawing.next()) is not None:
            try:
                pending = self._begin(wanted)
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                pending = Future()
                pending.set_exception(err)
            self._pending.append((wanted, pending))

    def _begin(self, wanted: Wanted) -> Future[Any]:
        size = -(-len(wanted.keys) // (1 if self._maker.makes_whole else self._num_pieces))
        maker, seed = self._maker, batch_seed(self._order, wanted)
        pieces = cut(wanted.keys, wanted.places, maker.source, (self._order.seed, self._order.epoch), size)
        memory = maker.memory(len(wanted.keys))

        def finish(parts: list[Any]) -> Any:
            return maker.batch(memory, parts, seed)

        if self._in_order is not None:
            parts = [self._pool.submit(maker.make, piece, memory) for piece in pieces]

            turn = self._turn

            def finish_in_turn() -> Any:
                made = [part.result() for part in parts]
                with turn:
                    return finish(made)

            return self._in_order.submit(finish_in_turn)
        pending = _Pending(len(pieces), finish)
        for number, piece in enumerate(pieces):
            self._pool.submit(pending.make, number, functools.partial(maker.make, piece, memory))
        return pending.batch


class CallerIteration(BatchIterator):
    """An epoch made in the user's thread: each batch when it is taken, one sample after the other."""

    def __init__(self, maker: Maker, order: EpochBatches) -> None:
        self._maker, self._order = maker, order

        def announce(wanted: Wanted) -> None:
            with contextlib.suppress(IndexError, TypeError, ValueError):  # the batch with that key raises it
                hint(maker.options.dataset, wanted.upcoming)

        self._drawing = Drawing(order.batches, 0, announce)

    @override
    def take(self) -> tuple[Any, Wanted]:
        wanted = self._drawing.next()
        if wanted is None:
            raise self._drawing.failure or StopIteration
        maker, order = self._maker, self._order
        (piece,) = cut(wanted.keys, wanted.places, maker.source, (order.seed, order.epoch), len(wanted.keys))
        memory = maker.memory(len(piece))
        batch = maker.batch(memory, [maker.make(piece, memory)], batch_seed(order, wanted))
        if len(wanted.finished):
            forget(maker.options.dataset, wanted.finished)
        return batch, wanted

    @override
    def is_ready(self) -> bool:
        return False

    @override
    def close(self) -> None:
        self._drawing.stop()


def _end_threads(pool: ThreadPoolExecutor, in_order: ThreadPoolExecutor | None, *, wait: bool) -> None:
    pool.shutdown(wait=wait, cancel_futures=True)  # the thread that waits for a piece goes on
    if in_order is not None:
        in_order.shutdown(wait=wait, cancel_futures=True)


def _threads(number: int) -> ThreadPoolExecutor:
    """Start threads in which torch uses one core each; otherwise there would be far more threads than cores."""
    for_others = torch.get_num_threads()
    switches = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    pool = ThreadPoolExecutor(number, "recordzoo", _work_alone, switches)
    all_there = threading.Barrier(number)  # otherwise an idle thread takes the work and the next one is not started
    try:
        for started in [pool.submit(all_there.wait) for _ in range(number)]:
            started.result()
    except BaseException:
        all_there.abort()
        pool.shutdown(wait=False)
        raise
    torch.set_num_threads(for_others)  # undo the setting for threads started later
    return pool


def _work_alone(has_gradients: bool, is_autocast: bool, autocast_dtype: torch.dtype) -> None:
    torch.set_grad_enabled(has_gradients)
    torch.set_autocast_enabled("cpu", is_autocast)
    torch.set_autocast_dtype("cpu", autocast_dtype)
    torch.get_num_threads()  # the first call in a thread copies the process's number: call it before
    torch.set_num_threads(1)
