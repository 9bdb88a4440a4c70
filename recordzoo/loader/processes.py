"""An epoch in worker processes of torch's `DataLoader`, each making whole batches."""

import collections
import functools
import multiprocessing
import pickle
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, get_worker_info

from recordzoo.errors import ArgumentError
from recordzoo.loader.choice import maker_of
from recordzoo.loader.iteration import BatchIterator, Home, late
from recordzoo.loader.maker import Maker
from recordzoo.loader.order import Drawing, EpochBatches, Wanted
from recordzoo.loader.pieces import BatchPiece, batch_seed, cut
from recordzoo.loader.sending import Sent
from recordzoo.loader.source import BatchSource
from recordzoo.net.background import Background
from recordzoo.sampling.storage import forget, hint_remote, will_need
from recordzoo.system.processes import at_fork

_hints = Background(1, "recordzoo-hints")  # one thread for all epochs, as long as the process lives

# Any, here and below: a batch is what the collate function makes.


@dataclass(frozen=True)
class _Task:
    """A batch for a worker process.

    Attributes:
        piece: All samples of the batch.
        seed: Seed for `collate_fn` and `batch_transform`.
    """

    piece: BatchPiece
    seed: int


@dataclass(frozen=True)
class _Failed:
    """An exception of a worker process, with its notes: not every class pickles them."""

    error: Exception
    notes: list[str]

    def error_with_notes(self) -> Exception:
        """Return the error, with all notes."""
        for note in self.notes[len(getattr(self.error, "__notes__", ())) :]:
            self.error.add_note(note)
        return self.error


class Tasks:
    """The batch sampler of the worker processes' `DataLoader`: yields a task for each batch of the current epoch.

    Args:
        num_hinted: Minimum number of batches to prefetch from the disk.
    """

    # Any: the user's dataset.
    def __init__(self, dataset: Any, source: BatchSource, num_hinted: int) -> None:
        self._dataset, self._source, self._num_hinted = dataset, source, num_hinted
        self._order: EpochBatches | None = None
        self.given: collections.deque[Wanted] = collections.deque()
        self.failure: Exception | None = None  # raised after the last batch

    def begin(self, order: EpochBatches) -> None:
        """Make this epoch the current one."""
        self._order, self.failure = order, None
        self.given.clear()

    def __iter__(self) -> Iterator[_Task]:
        assert self._order is not None
        order = self._order

        def announce(wanted: Wanted) -> None:
            _hints.submit(functools.partial(will_need, self._dataset, wanted.upcoming))

        drawing = Drawing(order.batches, self._num_hinted, announce)
        while (wanted := drawing.next()) is not None:
            try:
                (piece,) = cut(wanted, self._source, order.seed, order.epoch, len(wanted.keys))
            except Exception as err:  # noqa: BLE001 - raised when the user has come there
                drawing.stop(err)
                break
            self.given.append(wanted)
            yield _Task(piece, batch_seed(order, wanted))
        self.failure = drawing.failure

    def taken(self) -> Wanted:
        """Return the oldest batch given to a worker, which the user receives now."""
        wanted = self.given.popleft()
        if len(wanted.finished):
            _hints.submit(functools.partial(forget, self._dataset, wanted.finished))
        return wanted


class Workplace:
    """The dataset of torch's `DataLoader`: takes tasks, returns batches. It is sent to the workers.

    Args:
        maker: Makes the batches; a process that was not forked creates its own maker.
    """

    def __init__(self, maker: Maker) -> None:
        self._options = maker.options
        self._maker: Maker | None = maker

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_maker": None}

    def __getitems__(self, task: _Task) -> Any:
        """Return a batch, or its exception."""
        try:
            if self._maker is None:
                self._maker = maker_of(self._options)
            hint_remote(self._options.dataset, task.piece.keys)
            memory = self._maker.memory(len(task.piece))
            return Sent(self._maker.batch(memory, [self._maker.make(task.piece, memory)], task.seed))
        except Exception as err:
            err.add_note(f"In worker process {get_worker_info().id}:\n{traceback.format_exc()}")  # type: ignore[union-attr]
            if not _is_picklable(err):
                raise
            return _Failed(err, list(err.__notes__))


def _is_picklable(err: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(err))) is type(err)  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - pickle calls methods of the user's classes
        return False


def as_made(batch: Any) -> Any:
    """Return a batch unchanged: the `collate_fn` of torch's `DataLoader`, whose samples are batches here."""
    return batch


class Workers(DataLoader[Any]):
    """torch's `DataLoader` of a `Workplace`, with tasks instead of indices.

    Attributes:
        is_broken: Whether the workers were ended within an epoch and cannot be reused.
        owner: The number of the epoch that uses the workers; each epoch takes them from the previous one.
    """

    is_broken = False
    owner = 0

    def check_worker_number_rationality(self) -> None:
        """Do nothing: `DataLoader` warns of more worker processes than cores, and here their number may be a guess."""


class ProcessIteration(BatchIterator):
    """An epoch made by worker processes."""

    def __init__(self, loader: Workers, tasks: Tasks, order: EpochBatches) -> None:
        tasks.begin(order)
        loader.owner += 1
        self._tasks, self._home, self._loader, self._number = tasks, Home(), loader, loader.owner
        self._timeout_s, self._is_kept = loader.timeout, loader.persistent_workers
        self._batches: Any = iter(loader)  # of a private class of torch's
        _begun.add(self)

    def take(self) -> tuple[Any, Wanted]:
        """See `BatchIterator`.

        Raises:
            ArgumentError: A newer iterator has taken the persistent workers.
        """
        self._home.check()
        if self._batches is not None and self._number != self._loader.owner:
            self._batches = None
            raise ArgumentError(
                "persistent_workers=True: a newer iterator of this RecordLoader took over the worker processes, and "
                "the rest of this epoch is lost. Finish an epoch before you begin the next one, or leave out "
                "persistent_workers: then each iterator has workers of its own."
            )
        try:
            batch = self._next()
        except StopIteration:
            self.close()
            raise
        except BaseException:  # the workers may be in any state
            self._is_kept = False
            self._loader.is_broken = True
            self.close()
            raise
        if isinstance(batch, _Failed):
            self.close()
            raise batch.error_with_notes()
        return batch, self._tasks.taken()

    def is_ready(self) -> bool:
        """Return False: torch does not say."""
        return False

    def close(self) -> None:
        """End the workers, unless they are persistent; there are no more batches."""
        batches, self._batches = self._batches, None
        if batches is not None and not self._is_kept and self._home.is_here:
            # Deleting the iterator does this, too; but a traceback may still refer to it.
            batches._shutdown_workers()

    def leave_to_parent(self) -> None:
        """Forget the workers in a forked child: otherwise the child's end would end its parent's workers."""
        for worker in getattr(self._batches, "_workers", ()):
            multiprocessing.process._children.discard(worker)  # type: ignore[attr-defined]  # those are ended at exit
        if self._batches is not None:
            self._batches._shutdown = True

    def _next(self) -> Any:
        if self._batches is None:
            raise StopIteration
        try:
            return next(self._batches)
        except StopIteration:
            raise (self._tasks.failure or StopIteration) from None
        except RuntimeError as err:
            if "timed out after" not in str(err):
                raise
            raise late(self._timeout_s) from None


_begun: "weakref.WeakSet[ProcessIteration]" = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for iteration in list(_begun):
        iteration.leave_to_parent()


at_fork(in_child=_leave_all_to_parent)


class WorkerInit:
    """Calls the user's `worker_init_fn`, with the user's dataset as `get_worker_info().dataset`."""

    def __init__(self, function: Callable[[int], None], dataset: Any) -> None:
        self._function, self._dataset = function, dataset

    def __call__(self, number: int) -> None:
        """Call the user's function, in a worker process."""
        # Without this the dataset is the `Workplace`. torch forbids setting attributes of the worker's info.
        object.__setattr__(get_worker_info(), "dataset", self._dataset)
        self._function(number)
