"""`RecordLoader`: batches for training; compiled code makes them in threads, the user's code in processes."""

import contextlib
import logging
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch.utils.data import BatchSampler, IterableDataset

from recordzoo.base import settings
from recordzoo.base.process import are_forked, can_fork, cores
from recordzoo.base.text import JSON, counted
from recordzoo.errors import ArgumentError
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.epochs import EpochKey, IteratedOrders, SampledOrders, Wanted
from recordzoo.loader.frameworks import FrameworkLoader, Ranks
from recordzoo.loader.iteration import BatchIterator, CallerIteration, Iteration, OnDevice, Unbegun
from recordzoo.loader.making import BatchOptions, Maker, batch_seed
from recordzoo.loader.order import hash_key, truth_value, whole_number
from recordzoo.loader.parts import Mix
from recordzoo.loader.placement import Placement, place, sample_lines, warn
from recordzoo.loader.render import PRECISIONS, Precision
from recordzoo.loader.samplers import RecordSampler, Seed, checked_shuffle
from recordzoo.loader.samples import maker_of
from recordzoo.loader.workers import ProcessIteration, Tasks, Workers, Workplace, as_made

# Any, in all of this module: datasets, samples and batches have the user's types.

logger = logging.getLogger("recordzoo")

_HINTED = 4
"""Batches that the kernel prefetches ahead of those in progress."""

_PREFETCH_FACTOR = 2  # DataLoader's default


class RecordLoader(FrameworkLoader):
    """`torch.utils.data.DataLoader` for images: threads, the transforms fused with the decoding.

    Examples:
        >>> from torchvision import transforms as T
        >>> from torchvision.datasets import ImageFolder
        >>> train = ImageFolder("photos", T.Compose([T.RandomResizedCrop(224), T.ToTensor()]))
        >>> loader = RecordLoader(train, batch_size=64, shuffle=True, num_workers=8)
        >>> print(loader)  # doctest: +ELLIPSIS
        RecordLoader(ImageFolder of 4 samples, batch_size=64, sampler=RecordSampler, num_workers=8, ...)
          decoded by ...
          fused: RandomResizedCrop(size=(224, 224), ...)
          fused: ToTensor()
          workers: threads: all is fused

    It takes `DataLoader`'s arguments and returns the same batches. Known transforms of the dataset (`print(loader)`
    lists them) run in the loader: only the pixels that a crop keeps are decoded. Others run as written: torchvision's
    own in threads, a dataset or an image transform of yours in worker processes, each with its copy, as in
    `DataLoader`. `collate_fn`, `target_transform` and `batch_transform` over images that need no processes run in one
    thread, one after the other, in the order of samples and batches.

    Random numbers of fused transforms are a function of seed, epoch and the sample's place in the epoch: the batches
    are the same with any number of workers, and after a resume. Transforms that are not fused draw from their process's
    generators, in varying order between threads, unless `deterministic`.

    Args:
        dataset: A dataset of this package, one of torchvision's that lists image files (`ImageFolder`), one of your own
            with `HasImageBytes`, or a `Subset` or `ConcatDataset` of them. Any other dataset works, but is slower.
        batch_size: Samples in a batch, of each rank. None gives single samples.
        shuffle: True, False or "block", as in `RecordSampler`. Default: False; True for a `mix` and with `weights`.
        sampler: Which samples, in which order, instead of `shuffle`; best a `RecordSampler`, which also has
            `num_samples`, `replacement`, `weights_by`, `num_replicas`, `rank` and a seed of its own. Before each epoch
            the loader tells the number of that epoch to a sampler with `set_epoch`: unlike with `DataLoader`, a
            `DistributedSampler` gives another order each time.
        batch_sampler: Gives lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: Number of threads or processes. 0: code of yours runs in the calling thread, one sample after the
            other, when a batch is taken; for example to debug it. Default: the cores available to this process, divided
            by ``LOCAL_WORLD_SIZE``; if worker processes cannot be started, as with 0, and a line in the log says why.
        collate_fn: Converts a list of samples to a batch. Default: as in `DataLoader`.
        pin_memory: Whether to use page-locked memory for images, if there is a CUDA device.
        drop_last: Leave out a last batch that is not full, and samples that do not divide by the number of ranks.
        timeout: Seconds to wait for a batch; 0: no limit.
        worker_init_fn: Called with the worker's number in each worker process, if there are any.
        generator: The generator to draw seeds from, if `seed` is not given.
        prefetch_factor: Batches prepared ahead; with worker processes, by each of them. Default: 2.
        precision: "exact": the same pixels as in the stock `DataLoader` for the same crop and flip. "fast": a JPEG that
            will be reduced to half or less is decoded at half size.
        memory_format: Layout of the images in memory; their shape is [N, 3, H, W] in any case.
        device: The device of the batches: images are copied as uint8 and converted to float there, during the user's
            work on the previous batch.
        seed: Seed of order and random numbers. Default: each epoch draws one from `generator` or torch's own when it
            begins; 0 with several ranks, which must agree.
        drop_cache: With shuffle="block", drop each block from the page cache after its last use, so that data larger
            than memory does not evict other files.
        deterministic: Run code that is not fused in worker processes, with generators seeded for each sample, and for
            `collate_fn` and `batch_transform` for each batch.
        persistent_workers: Keep worker processes between epochs.
        multiprocessing_context: Start method of worker processes.
        pin_memory_device, in_order: Accepted for compatibility with `DataLoader`, without effect. Libraries that build
            a stock `DataLoader` from this one read them as attributes.
        workers: "auto": processes for a dataset or image transforms of yours, and for 10,000 or more small images where
            processes are forked; otherwise threads. `print(loader)` shows which, and why. "threads": for code of yours,
            too. It must keep nothing on `self` between calls, share no open file, connection or other handle, and set
            no seeds of the process's random generators: several threads call it at once, for several samples.
            "processes": also for compiled code.
        batch_transform: Called with the parts of a batch, images and targets; returns the user's batch. For example
            v2's `MixUp` or `CutMix`.
        on_error: "skip": leave out samples that cannot be read or decoded. Batches get smaller, never fewer. The number
            of skipped samples is logged at the end of an epoch, and is in `state_dict`.
        weights: Draw samples by weight, or "balanced", as in `RecordSampler`.

    Raises:
        ArgumentError: A value is invalid or contradicts another one.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | Literal["block"] | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        precision: Precision = "exact",
        memory_format: torch.memory_format = torch.contiguous_format,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        drop_cache: bool = False,
        deterministic: bool = False,
        workers: Literal["auto", "threads", "processes"] = "auto",
        batch_transform: Callable[..., Any] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        weights: Any = None,
    ) -> None:
        check_choice("precision", precision, PRECISIONS)
        check_choice("memory_format", memory_format, (torch.contiguous_format, torch.channels_last))
        check_choice("workers", workers, ("auto", "threads", "processes"))
        check_choice("on_error", on_error, ("raise", "skip"))
        check_work(dataset, batch_transform, worker_init_fn, num_workers, workers)
        if not timeout >= 0:
            raise ArgumentError(f"timeout={timeout!r} must be 0 or more.")
        num_workers = optional_number("num_workers", num_workers)
        prefetch_factor = optional_number("prefetch_factor", prefetch_factor)
        batch_size = optional_number("batch_size", batch_size, at_least=1)
        drop_last = truth_value("drop_last", drop_last)
        deterministic, drop_cache = truth_value("deterministic", deterministic), truth_value("drop_cache", drop_cache)
        shuffle = None if shuffle is None else checked_shuffle(shuffle)
        check_order(batch_size, shuffle, sampler, batch_sampler, drop_last, weights)
        # Arguments are attributes of the same name: Lightning builds another loader from the attributes. Those that set
        # the order are not: Lightning would pass them together with the sampler.
        self.precision, self.memory_format, self.deterministic = precision, memory_format, deterministic
        self.device = checked_device(device)
        self.seed, self.drop_cache = seed, drop_cache
        chosen = Seed(seed, generator)
        if sampler is None and batch_sampler is None:
            if shuffle is None:
                shuffle = isinstance(dataset, Mix) or weights is not None
            if shuffle and not len(dataset):  # as in DataLoader: training on nothing is a mistake
                raise ArgumentError(f"shuffle={shuffle!r}: {type(dataset).__name__} has no samples.")
            own = RecordSampler(dataset, shuffle=shuffle, drop_last=drop_last, weights=weights)
            own.share_seed(chosen)
            sampler = own
        check_drop_cache(drop_cache, sampler)
        super().__init__(
            dataset,
            batch_size,
            None,
            sampler,
            batch_sampler,
            max(1, cores() // settings.ranks_here() if num_workers is None else num_workers),
            collate_fn,
            (pin_memory or self.device.type == "cuda") and torch.cuda.is_available(),
            drop_last,
            timeout,
            None,
            multiprocessing_context,
            generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
        )
        if num_workers == 0:  # what DataLoader refuses together with it may be given
            self.num_workers, self.prefetch_factor = 0, prefetch_factor
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self.batch_transform, self.on_error = batch_transform, on_error
        self._num_skipped = 0
        self.workers, self._worker_init_fn = workers, worker_init_fn
        self._wants_processes = bool(num_workers) or workers == "processes"
        self._turn: tuple[int, threading.Lock] | None = None  # and the process that it is of
        self._no_processes = ""  # why the calling thread makes the batches, since that was found out
        self._processes: tuple[Workers, Tasks, list[Any]] | None = None
        if batch_sampler is None:
            self._pass_epoch_on()
        self._chosen = chosen
        self._ordered, self._made_orders = self.batch_sampler, self._make_orders()

    @property
    def _orders(self) -> SampledOrders | IteratedOrders:
        """The epochs of the batch sampler as it is now: timm's and YOLO's subclasses replace it, others change it."""
        if self.batch_sampler is not self._ordered:
            self._ordered, self._made_orders = self.batch_sampler, self._make_orders()
        if (plain := self._plain()) is not None:
            self._made_orders.batch_size, self._made_orders.drop_last = plain.batch_size, plain.drop_last
        return self._made_orders

    def _plain(self) -> BatchSampler | None:
        """Return the batch sampler if it only groups what a sampler gives, as that of `DataLoader` does."""
        found = self.batch_sampler
        return found if type(found) is BatchSampler and self.batch_size is not None else None

    def _make_orders(self) -> SampledOrders | IteratedOrders:
        may_draw_ahead, plain = self.num_workers > 0, self._plain()
        if self.batch_sampler is not None and plain is None:
            return IteratedOrders(self.batch_sampler, self._chosen, None, may_draw_ahead=may_draw_ahead)
        sampler, size = self.sampler if plain is None else plain.sampler, self.batch_size or 1
        # A subclass may have an order of its own.
        if isinstance(sampler, RecordSampler) and type(sampler).__iter__ is RecordSampler.__iter__:
            return SampledOrders(sampler, size, self.drop_last, drop_cache=self.drop_cache)
        return IteratedOrders(sampler, self._chosen, size, drop_last=self.drop_last, may_draw_ahead=may_draw_ahead)

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""
        return len(self._orders)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # DataLoader's type is for worker processes
        """Iterate over an epoch. It begins with the first batch; its workers end with it or with the iterator.

        Raises:
            RecordError: A stored value is damaged, or an image cannot be decoded; names record set and record.
            OSError: A file cannot be read, or its image cannot be decoded; as torchvision raises it, with the path.
            EmptyBatchError: All samples of a batch are left out.
            TimeoutError: A batch took longer than `timeout`.
            ForkError: The process was forked during the epoch, and the child continues the iterator.
            TypeError: The sampler returned a key that is not an integer, and the samples are records.
            ArgumentError: `on_error="skip"`, and the dataset makes its samples itself; `num_workers` or
                `workers="processes"` was given, and worker processes cannot be started; the loaded state cannot be
                resumed; or a newer iterator took over the persistent workers.
        """
        return Unbegun(self._begin, self.__len__, self._count_skipped)

    def _begin(self) -> BatchIterator:
        maker = maker_of(batch_options(self))
        source = maker.source
        if self.on_error == "skip" and not source.leaves:
            raise ArgumentError(
                f"on_error='skip' is for samples that the loader reads itself, and {source.problem}. Leave it out."
            )
        warn(source)
        where = self._placement(maker).where
        key, batches = self._orders.begin()
        if where == "processes":
            iteration = self._in_processes(maker, batches, key)
        else:
            self._processes = None
            iteration = CallerIteration(maker, batches) if where == "caller" else self._in_threads(maker, batches)
        if self.device.type == "cpu":
            return iteration

        def arrived(batch: Any, wanted: Wanted) -> Any:
            return maker.arrived(batch, batch_seed(key, wanted.places))

        return OnDevice(iteration, self.device, arrived)

    def _count_skipped(self, number: int) -> None:
        self._num_skipped += number

    def _placement(self, maker: Maker) -> Placement:
        is_own_order = not self._orders.draws_ahead
        found = place(
            maker.options,
            maker.source,
            self.workers,
            self.num_workers,
            is_own_order=is_own_order,
            are_forked=are_forked(self.multiprocessing_context) and not multiprocessing.current_process().daemon,
        )
        return Placement("caller", self._no_processes) if self._no_processes and found.where == "processes" else found

    def _in_threads(self, maker: Maker, batches: Iterator[Wanted]) -> BatchIterator:
        num_threads = max(1, self.num_workers)
        prefetch_factor = _PREFETCH_FACTOR if self.prefetch_factor is None else self.prefetch_factor
        return Iteration(
            maker,
            batches,
            num_threads,
            # Single samples: as many ahead as with worker processes, or most threads would wait.
            ahead=prefetch_factor * (1 if self.batch_sampler is not None else num_threads),
            hinted=_HINTED,
            timeout_s=self.timeout,
            turn=self._own_turn(),
        )

    def _own_turn(self) -> threading.Lock:
        """Return the lock of the user's functions of batches; in a forked process another one."""
        if self._turn is None or self._turn[0] != os.getpid():
            self._turn = os.getpid(), threading.Lock()
        return self._turn[1]

    def _in_processes(self, maker: Maker, batches: Iterator[Wanted], epoch_key: EpochKey) -> BatchIterator:
        def instead(err: Exception, left: Iterator[Wanted]) -> BatchIterator:
            self._no_processes = self._why_no_processes(err)
            return CallerIteration(maker, left)

        if maker.source.leaves:
            compiled_code(waits=self.precision == "fast")  # once, for all worker processes
        written = [each for leaf in maker.source.leaves for each in leaf.written]
        key = [self.dataset, self.collate_fn, self._worker_init_fn, self.batch_transform, *written]
        kept = self._processes if self.persistent_workers else None
        if kept is not None and kept[0].is_usable and list(map(id, kept[2])) == list(map(id, key)):
            with contextlib.suppress(Exception):  # a worker was killed since the last epoch: others are started
                return ProcessIteration(kept[0], kept[1], batches, instead)
        tasks = Tasks(self.dataset, _HINTED)
        workplace = Workplace(maker, self._worker_init_fn)
        loader = Workers(
            workplace,  # it has __getitems__, which is used
            batch_sampler=tasks,  # of tasks, not of indices
            num_workers=self.num_workers,
            collate_fn=as_made,
            pin_memory=self.pin_memory,
            timeout=self.timeout,
            worker_init_fn=workplace.begin,
            multiprocessing_context=self.multiprocessing_context,
            generator=torch.Generator().manual_seed(self._workers_seed(epoch_key)),
            prefetch_factor=max(1, self.prefetch_factor or 0),
            persistent_workers=self.persistent_workers,
        )
        self._processes = loader, tasks, key
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Got pickle error")  # of torch, before it raises the error
                return ProcessIteration(loader, tasks, batches, instead)
        except Exception as err:
            if getattr(multiprocessing.current_process(), "_inheriting", False):
                raise  # a spawned process, which runs a script that has no `if __name__ == "__main__"`
            return instead(err, batches)

    def _why_no_processes(self, err: Exception) -> str:
        """Say why worker processes cannot be started or used: in the log, or as an error if they were asked for."""
        self._processes = None
        why = f"worker processes cannot be used: {type(err).__name__}: {err}"
        cures = ["Pass num_workers=0 to run it in this process"]
        if can_fork() and not are_forked(self.multiprocessing_context):
            cures.append('multiprocessing_context="fork" for processes that are copies of this one')
        if self._wants_processes:
            asked = "workers='processes'" if self.workers == "processes" else f"num_workers={self.num_workers}"
            raise ArgumentError(f"{asked}: {why}. {', or '.join(cures)}.") from err
        logger.warning(
            "RecordLoader runs your code in this process, one sample after the other: %s. %s.", why, ", or ".join(cures)
        )
        return why

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Default: each iteration is a new epoch."""
        self._orders.set_epoch(epoch)

    def state_dict(self) -> dict[str, JSON]:
        """Return the user's position, after the last batch received.

        With a `RecordSampler` (the default), a few numbers, equal on all ranks. With another sampler also a checksum
        and the states of the random generators that it draws from. With `on_error="skip"`, "skipped" is the number of
        samples that this rank skipped in all epochs.
        """
        skipped: dict[str, JSON] = {"skipped": self._num_skipped} if self.on_error == "skip" else {}
        return self._orders.state_dict() | skipped

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Resume the next iteration from a `state_dict`, on any number of ranks.

        With a `RecordSampler` (the default) this costs nothing. Any other sampler is iterated up to that position when
        the epoch begins, and must repeat its keys: otherwise the first batch raises `ArgumentError`. Of these, only
        torch's `DistributedSampler` may have another number of ranks.

        Raises:
            ArgumentError: The state belongs to another order, or a number in it is wrong.
        """
        skipped: Any = 0  # Any: may have a wrong type
        if isinstance(state, Mapping):
            skipped = state.get("skipped", 0)
            state = {name: value for name, value in state.items() if name != "skipped"}
        num_skipped = whole_number("state: skipped", skipped, at_least=0)
        self._orders.load_state_dict(state)
        self._num_skipped = num_skipped

    def explain(self) -> str:
        """Describe which transforms run in the loader, which run as written, where, and why; like `print(loader)`."""
        maker = maker_of(batch_options(self))
        lines = [repr(self), *sample_lines(maker)]
        try:
            where, why = self._placement(maker)
            chosen = f"{'the calling thread' if where == 'caller' else where}: {why}"
        except ArgumentError as err:
            chosen = str(err)
        return "\n  ".join([*lines, f"workers: {chosen}"])

    __str__ = explain

    def __repr__(self) -> str:
        is_own = self.batch_size is not None or self.batch_sampler is None
        sampler = self.sampler if is_own else self.batch_sampler
        size = f" of {counted(len(self.dataset), 'sample')}" if hasattr(self.dataset, "__len__") else ""
        return (
            f"{type(self).__name__}({type(self.dataset).__name__}{size}, "
            f"batch_size={self.batch_size}, sampler={type(sampler).__name__}, num_workers={self.num_workers}, "
            f"precision={self.precision!r}, device={str(self.device)!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_no_processes": "", "_processes": None, "_turn": None}

    def _workers_seed(self, epoch_key: EpochKey) -> int:
        """Return the seed of worker processes; it differs between ranks."""
        rank = getattr(self.sampler, "rank", None)
        return int(hash_key(*epoch_key, Ranks().now()[1] if rank is None else rank)) >> 1


def batch_options(loader: RecordLoader) -> BatchOptions:
    """Return how a loader makes its batches."""
    return BatchOptions(
        loader.dataset,
        loader.precision,
        loader.memory_format,
        loader.device,
        loader.deterministic,
        loader.collate_fn,
        loader.batch_transform,
        is_single=loader.batch_sampler is None,
        is_pinned=loader.pin_memory and torch.cuda.is_available(),
        num_kept=(loader.prefetch_factor or 0) + 2,
        skips=loader.on_error == "skip",
    )


# All functions below raise an ArgumentError that names the argument and its value.


def check_choice(name: str, value: object, valid: tuple[object, ...]) -> None:
    """Accept one of the valid values."""
    if value not in valid:
        raise ArgumentError(f"{name}={value!r} is not one of {', '.join(map(repr, valid))}.")


def optional_number(name: str, value: Any, at_least: int = 0) -> int | None:
    """Return None or a whole number."""
    return None if value is None else whole_number(name, value, at_least=at_least)


def check_work(
    dataset: object, batch_transform: object, worker_init_fn: object, num_workers: object, workers: str
) -> None:
    """Accept a map-style dataset, a function of batches, and what worker processes have if there may be some."""
    if isinstance(dataset, IterableDataset):
        kind = type(dataset).__name__
        raise ArgumentError(f"{kind} has no samples by number: it is for DataLoader, not for RecordLoader.")
    if batch_transform is not None and not callable(batch_transform):
        raise ArgumentError(f"batch_transform={batch_transform!r} is no function.")
    if worker_init_fn is not None and workers == "threads":
        raise ArgumentError(
            f"worker_init_fn={worker_init_fn!r} with workers='threads': a function for each worker process would "
            "change this process, several times. Leave one of them out."
        )
    if num_workers == 0 and workers == "processes":
        raise ArgumentError("num_workers=0 with workers='processes': pass the number of processes, or leave one out.")


def check_drop_cache(drop_cache: bool, sampler: object) -> None:
    """Accept True with shuffle="block", and with a sampler other than `RecordSampler`.

    For `overfit_batches` Lightning copies the loader with a sampler of its own; `drop_cache` has no effect there.
    """
    if drop_cache and isinstance(sampler, RecordSampler) and sampler.shuffle != "block":
        raise ArgumentError('drop_cache=True needs shuffle="block": else any sample may soon be read again.')


def check_order(
    batch_size: object, shuffle: object, sampler: object, batch_sampler: object, drop_last: bool, weights: object
) -> None:
    """Accept one way to set the order.

    Lightning replaces the sampler of a loader made in a hook: it adds the sampler and shuffle=False to the recorded
    arguments.
    """
    is_exchanged = shuffle is False
    if weights is not None and not is_exchanged and (sampler is not None or batch_sampler is not None):
        raise ArgumentError("A sampler sets the order, and so does weights: pass RecordSampler(dataset, weights=...).")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ArgumentError("batch_sampler replaces batch_size, shuffle, sampler and drop_last: pass it, or those.")
    if sampler is not None and shuffle:
        raise ArgumentError("sampler and shuffle both set the order: pass one of them.")
    if batch_size is None and drop_last:
        raise ArgumentError("batch_size=None gives single samples: there is no last batch for drop_last=True.")


def checked_device(device: torch.device | str | int | None) -> torch.device:
    """Return the device for batches."""
    try:
        found = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as err:
        raise ArgumentError(f"device={device!r} is not a torch device, such as 'cpu', 'cuda' or 'cuda:0'.") from err
    if found.type == "cuda" and not (found.index or 0) < (count := torch.cuda.device_count()):
        raise ArgumentError(
            f"device={device!r}: this process sees {count} CUDA devices (torch {torch.__version__}, "
            f"built for CUDA {torch.version.cuda or 'not at all'}). Leave device out for batches on the CPU."
        )
    return found
