"""An epoch in worker processes of torch's `DataLoader`, each making whole batches, and how a batch is sent."""

import collections
import functools
import io
import multiprocessing
import pickle
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.storage import TypedStorage
from torch.utils.data import DataLoader, get_worker_info
from typing_extensions import override

from recordzoo.base.files import positions_of_open, reopen_at
from recordzoo.base.process import Background, at_fork
from recordzoo.errors import ArgumentError
from recordzoo.loader.epochs import Drawing, EpochKey, Indices, Keys, Wanted, read_keys
from recordzoo.loader.iteration import BatchIterator, Home, late
from recordzoo.loader.making import Maker
from recordzoo.loader.parts import Hint, hint_remote, tell
from recordzoo.loader.samples import maker_of

# Any, in all of this module: a batch is what the collate function makes.

_SMALL_BYTES = 64 << 10
_PROTOCOL = pickle.HIGHEST_PROTOCOL

_CUDA_AFTER_FORK = ("CUDA in forked subprocess", "CUDA error: initialization error")
"""Texts of torch's errors in a process forked from one in which CUDA is in use."""

_hints = Background(1, "recordzoo-hints")  # one thread for all epochs, as long as the process lives


_Task = tuple[Keys, NDArray[np.int64], EpochKey]
"""A batch for a worker process: the arguments of `Maker.whole`.

Random numbers for its samples are computed there: a worker that was not forked decides for itself what is compiled.
"""


@dataclass(frozen=True)
class _Failed:
    """An exception of a worker process.

    Attributes:
        error: The exception.
        is_of_processes: Whether the code may be right in the calling process.
    """

    error: Exception
    is_of_processes: bool


class Tasks:
    """The batch sampler of the worker processes' `DataLoader`: yields a task for each batch of the current epoch.

    Args:
        num_hinted: Minimum number of batches to prefetch from the disk.
    """

    # Any: the user's dataset.
    def __init__(self, dataset: Any, num_hinted: int) -> None:
        self._dataset, self._num_hinted = dataset, num_hinted
        self.given: collections.deque[Wanted] = collections.deque()

    def begin(self, batches: Iterator[Wanted]) -> None:
        """Begin an epoch."""

        def tell_later(what: Hint, indices: Indices) -> None:
            # Other processes read them: this process has nothing to prefetch for itself.
            _hints.submit(functools.partial(tell, self._dataset, "will_need" if what == "hint" else what, indices))

        self.drawing = Drawing(batches, self._num_hinted, tell_later)
        self.given.clear()

    def __iter__(self) -> Iterator[_Task]:
        while (wanted := self.drawing.next()) is not None:
            self.given.append(wanted)
            yield wanted.keys, wanted.places, wanted.epoch_key

    def left(self) -> Iterator[Wanted]:
        """Iterate over the batches that the user has not received."""
        yield from self.given
        while (wanted := self.drawing.next()) is not None:
            yield wanted
        if self.drawing.failure is not None:
            raise self.drawing.failure

    def taken(self) -> Wanted:
        """Return the oldest batch given to a worker, which the user receives now."""
        wanted = self.given.popleft()
        self.drawing.forget(wanted)
        return wanted


class Workplace:
    """The dataset of torch's `DataLoader`: takes tasks, returns batches. It is sent to the workers.

    A worker that was not forked unpickles the user's objects in `begin`. If that fails, their error is the error of a
    batch; within the unpickling of torch's arguments it would only end the process.

    Args:
        maker: Makes the batches; a process that was not forked creates its own maker.
        init: The user's `worker_init_fn`.
    """

    def __init__(self, maker: Maker, init: Callable[[int], None] | None) -> None:
        self._options, self._init = maker.options, init
        self._maker: Maker | None = maker
        self._pickled = b""
        self._failure: Exception | None = None  # of `begin`
        self._positions = positions_of_open()

    def __getstate__(self) -> dict[str, Any]:
        pickled = bytes(ForkingPickler.dumps((self._options, self._init)))
        return {"_maker": None, "_pickled": pickled, "_failure": None}

    def begin(self, number: int) -> None:
        """Prepare a worker process, which calls this before the first task: the `worker_init_fn` of torch's loader."""
        if self._maker is not None:
            reopen_at(self._positions)
        else:
            try:
                self._options, self._init = pickle.loads(self._pickled)  # noqa: S301 - the user's own objects
                self._maker, self._pickled = maker_of(self._options), b""
            except Exception as err:  # noqa: BLE001 - raised with the first batch
                self._failure = err
                return
        # torch's dataset is this object, and torch forbids setting attributes of the worker's info.
        object.__setattr__(get_worker_info(), "dataset", self._options.dataset)
        if self._init is not None:
            self._init(number)

    def __getitems__(self, task: _Task) -> Any:
        """Return a batch, or its exception."""
        try:
            if self._failure is not None:
                raise self._failure
            assert self._maker is not None
            hint_remote(self._options.dataset, read_keys(task[0]))
            return Sent(self._maker.whole(*task))
        except Exception as err:
            err.add_note(f"In worker process {get_worker_info().id}:\n{traceback.format_exc()}")  # type: ignore[union-attr]
            if not _is_picklable(err):
                raise
            return _Failed(err, self._may_be_of_processes(err))

    def _may_be_of_processes(self, err: Exception) -> bool:
        """Whether the code may be right in the calling process: the worker cannot load it, or CUDA is in use there."""
        if self._failure is not None:
            return isinstance(err, AttributeError | ImportError)
        return isinstance(err, RuntimeError) and any(text in str(err) for text in _CUDA_AFTER_FORK)


class Workers(DataLoader[Any]):
    """torch's `DataLoader` of a `Workplace`, with tasks instead of indices.

    Attributes:
        home: The process that has the workers.
        is_broken: Whether the workers were ended within an epoch.
        owner: The number of the epoch that uses the workers; each epoch takes them from the previous one.
    """

    is_broken = False
    owner = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.home = Home()

    @property
    def is_usable(self) -> bool:
        """Whether another epoch can use the workers."""
        return self.home.is_here and not self.is_broken

    def check_worker_number_rationality(self) -> None:
        """Do nothing: `DataLoader` warns of more worker processes than cores, and here their number may be a guess."""


class ProcessIteration(BatchIterator):
    """An epoch made by worker processes.

    Args:
        instead: Returns the iterator of the remaining batches if the worker processes cannot run the user's code, or
            raises an error; its arguments are the exception and these batches.
    """

    def __init__(
        self,
        loader: Workers,
        tasks: Tasks,
        batches: Iterator[Wanted],
        instead: Callable[[Exception, Iterator[Wanted]], BatchIterator],
    ) -> None:
        tasks.begin(batches)
        self._make_instead = instead
        self._instead: BatchIterator | None = None
        loader.owner += 1
        self._tasks, self._loader, self._number = tasks, loader, loader.owner
        self._timeout_s, self._is_kept = loader.timeout, loader.persistent_workers
        made: Any = iter(loader)  # of a private class of torch's
        self._batches: Any = made
        # Not torch's iterator itself: the user's functions, which it has, may refer to this object.
        queues = () if self._is_kept else tuple(made._index_queues)
        self._forgotten = weakref.finalize(self, _tell_to_end, loader.home, made._workers_done_event, queues)
        self._forgotten.atexit = False
        _begun.add(made)

    def take(self) -> tuple[Any, Wanted]:
        """See `BatchIterator`.

        Raises:
            ArgumentError: A newer iterator has taken the persistent workers.
        """
        if self._instead is not None:
            return self._instead.take()
        self._loader.home.check()
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
        if not isinstance(batch, _Failed):
            return batch, self._tasks.taken()
        if not batch.is_of_processes:
            self._tasks.taken()
            raise batch.error
        self._is_kept = False
        self.close()
        self._loader.is_broken = True
        self._instead = self._make_instead(batch.error, self._tasks.left())
        return self._instead.take()

    def close(self) -> None:
        """End the workers, unless they are persistent; there are no more batches."""
        if self._instead is not None:
            self._instead.close()
        batches, self._batches = self._batches, None
        self._forgotten.detach()
        if batches is not None and not self._is_kept and self._loader.home.is_here:
            # Deleting the iterator does this, too; but a traceback may still refer to it.
            batches._shutdown_workers()

    def _next(self) -> Any:
        if self._batches is None:
            raise StopIteration
        try:
            return next(self._batches)
        except StopIteration:
            raise (self._tasks.drawing.failure or StopIteration) from None
        except RuntimeError as err:
            if "timed out after" not in str(err):
                raise
            raise late(self._timeout_s) from None


# Any: of multiprocessing.
def _tell_to_end(home: Home, done: Any, queues: tuple[Any, ...]) -> None:
    """Tell workers that nobody needs them: the garbage collector may take their queues before torch tells them so.

    Each of them would then wait for 5 seconds.
    """
    if home.is_here:
        for queue in queues:
            done.set()
            queue.put(None)


_begun = weakref.WeakSet[Any]()  # iterators of torch, which have the workers; persistent ones also between epochs


def _leave_all_to_parent() -> None:
    """Forget the workers in a forked child: otherwise it would end its parent's, with its objects or at its own end."""
    for batches in list(_begun):
        batches._shutdown = True
        for worker in batches._workers:
            multiprocessing.process._children.discard(worker)  # type: ignore[attr-defined]  # those are ended at exit


at_fork(after_in_child=_leave_all_to_parent)


def as_made(batch: Any) -> Any:
    """Return a batch unchanged: the `collate_fn` of torch's `DataLoader`, whose samples are batches here."""
    return batch


def _is_picklable(err: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(err))) is type(err)  # noqa: S301 - its own
    except Exception:  # noqa: BLE001 - pickle calls methods of the user's classes
        return False


class Sent:
    """Wraps a batch for multiprocessing; unpickling returns the batch itself.

    Raises:
        Exception: The batch cannot be pickled; the error of pickle or of a class in the batch. Multiprocessing would
            pickle in a thread and only print the error, and the other process would never stop waiting.
    """

    def __init__(self, batch: Any) -> None:
        pickler = _Pickler()
        pickler.dump(batch)
        self._parts = pickler.file.getvalue(), pickler.storages

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, self._parts


def _received(data: bytes, storages: "list[torch.UntypedStorage | bytes]") -> Any:
    return _Unpickler(data, storages).load()


class _Pickler(ForkingPickler):
    """Pickles a batch without the tensors' memory, which is collected in `storages`, each once.

    The thread of the queue shares it while the next batch is made: a fifth of the time with large images that are not
    stacked.
    """

    def __init__(self) -> None:
        self.file = io.BytesIO()
        super().__init__(self.file, _PROTOCOL)
        self.storages: list[torch.UntypedStorage | bytes] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[torch.UntypedStorage] = []  # keeps the addresses unique

    def reducer_override(self, value: Any) -> Any:
        """Take tensors apart as `torch.save` does, not as multiprocessing does; except sparse ones.

        torch keeps a sparse tensor that `torch.save` took apart until the next `torch.load`, which validates it.
        """
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        if value.layout is torch.sparse_coo:
            return _sparse, (value._indices(), value._values(), value.shape, value.is_coalesced())
        if value.layout is not torch.strided:
            return NotImplemented
        return value.__reduce_ex__(_PROTOCOL)  # type: ignore[no-untyped-call]

    @override
    def persistent_id(self, value: Any) -> tuple[int, torch.dtype] | None:
        if not isinstance(value, TypedStorage):
            return None
        storage = value._untyped_storage
        number = self._numbers.setdefault(storage._cdata, len(self.storages))
        if number == len(self.storages):
            self._kept.append(storage)
            is_small = storage.nbytes() <= _SMALL_BYTES and storage.device.type == "cpu"
            self.storages.append(_view(storage).numpy().tobytes() if is_small else storage)
        return number, value.dtype


def _sparse(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size, is_coalesced: bool) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False, is_coalesced=is_coalesced)


class _Unpickler(pickle.Unpickler):
    """Rebuilds a batch pickled by `_Pickler`."""

    def __init__(self, data: bytes, storages: "list[torch.UntypedStorage | bytes]") -> None:
        super().__init__(io.BytesIO(data))
        self._storages = [_storage(each) if isinstance(each, bytes) else each for each in storages]

    @override
    def persistent_load(self, name: tuple[int, torch.dtype]) -> TypedStorage:
        number, dtype = name
        return TypedStorage(wrap_storage=self._storages[number], dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]


def _view(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a storage's bytes, uint8 [n]."""
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


def _storage(data: bytes) -> torch.UntypedStorage:
    storage = torch.UntypedStorage(len(data))  # type: ignore[no-untyped-call]
    _view(storage).numpy()[:] = np.frombuffer(data, np.uint8)
    return storage
