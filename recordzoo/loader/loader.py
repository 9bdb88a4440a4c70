"""`RecordLoader`: batches for training, made by threads where that is faster than by processes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.arguments import (
    batch_size_of,
    check_choice,
    check_dataset,
    check_drop_cache,
    check_function,
    check_order,
    check_sizes,
    check_worker_init_fn,
    checked_device,
    default_threads,
)
from recordzoo.loader.buffers import Buffers
from recordzoo.loader.choice import Choice, choose, choose_seeded, is_other, seeded_code
from recordzoo.loader.device import OnDevice
from recordzoo.loader.explain import batch_lines, sample_lines, warn
from recordzoo.loader.iterated import IteratedOrders
from recordzoo.loader.iteration import BatchIterator, Iteration, Pace, Unbegun
from recordzoo.loader.makers import Maker, RowMaker
from recordzoo.loader.making import Making
from recordzoo.loader.order import EpochBatches, Orders, SampledOrders, Wanted
from recordzoo.loader.processes import ProcessIteration, Tasks, WorkerInit, Workers, Workplace, as_made
from recordzoo.loader.skipping import Counting
from recordzoo.loader.source import BatchSource
from recordzoo.loader.work import batch_seed
from recordzoo.pixels.compiling import compiled_code
from recordzoo.pixels.render import PRECISIONS, Precision
from recordzoo.sampling.ahead import keeping_values
from recordzoo.sampling.permutation import hash_key
from recordzoo.sampling.ranks import Ranks, Seed
from recordzoo.sampling.samplers import RecordSampler
from recordzoo.sampling.schemes import Draws, is_drawn
from recordzoo.sampling.state import whole_number

ON_ERROR = ("raise", "skip")
WORKERS = ("auto", "threads", "processes")

_HINTED = 4
"""Batches that the kernel reads ahead of those that are being made."""


class RecordLoader(DataLoader[Any]):
    """`torch.utils.data.DataLoader` for images: threads, the transforms fused with the decoding.

    It takes `DataLoader`'s arguments and gives its batches. The dataset's own transforms say what is made; those that
    are known (`print(loader)` says which) run in the loader: only the pixels that a crop keeps are decoded. The others
    run as they are written, in threads or in worker processes.

    Random numbers of fused transforms are a function of seed, epoch and the sample's place in the epoch: the batches
    are the same with any number of workers, and after a resume. Transforms that are not fused draw from their process's
    generators in whatever order the workers come, unless `deterministic`.

    Args:
        dataset: A dataset of this package, one of torchvision's that lists image files (`ImageFolder`), one of your own
            with `HasImageBytes`, or a `Subset` or `ConcatDataset` of them. Any other works, without the speed.
        batch_size: Samples in a batch, of each rank. None gives single samples.
        shuffle: True, False or "block", as `RecordSampler` has them. Default: False; True for a `mix`, and with
            `weights` and the like.
        sampler: Which samples, in which order, instead of `shuffle`; best a `RecordSampler`.
        batch_sampler: Gives lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: Threads or processes, at least 1; by default the cores that this process may use, divided by
            ``LOCAL_WORLD_SIZE``.
        collate_fn: Makes a batch of a list of samples; by default as `DataLoader`.
        pin_memory: Whether images lie in page-locked memory, if there is a CUDA device.
        drop_last: Leave out a last batch that is not full, and samples that do not divide by the number of ranks.
        timeout: Seconds to wait for a batch; 0 for ever.
        worker_init_fn: Called with its number in each worker process, if there are any.
        generator: What the seed is drawn from, if none is given.
        prefetch_factor: Batches that are made ahead, of worker processes by each; 2 by default.
        precision: "exact": the pixels that the transforms give in the stock `DataLoader` for the same crop and flip.
            "fast": what is to become half as large or smaller is decoded at half the size.
        memory_format: Layout of the images in memory; their shape is [N, 3, H, W] in any case.
        device: Where batches go: images are moved as uint8 and become float there, beside the work on the last batch.
        seed: Of order and random numbers. By default drawn from `generator` or torch's own; 0 if an epoch begins with
            several ranks, which must agree.
        num_replicas, rank: As `RecordSampler` has them.
        drop_cache: With shuffle="block", let the kernel forget each block after its last use, so that data larger than
            memory drives nothing else out of it.
        deterministic: Run code that is not fused in worker processes, with generators seeded for each sample, and for
            `collate_fn` and `batch_transform` for each batch.
        persistent_workers: Keep worker processes, or the memory of batches, from one epoch to the next.
        multiprocessing_context: How worker processes are started.
        pin_memory_device, in_order: Taken for `DataLoader`'s sake; they mean nothing here. As attributes they are there
            for libraries that make a stock `DataLoader` of this one's.
        workers: "threads", "processes", or "auto": threads if all is fused, otherwise what a few samples show to be
            faster. `print(loader)` says which, and why.
        batch_transform: Called with the parts of a batch, images and targets, where the batch is made; returns what the
            user gets: v2's `MixUp` or `CutMix`, for example.
        on_error: "skip": leave out samples that cannot be read or decoded. Batches get smaller, never fewer. The number
            of samples left out is logged at the end of an epoch, and is in `state_dict`.
        weights, weights_by, num_samples, replacement, classes_per_batch, samples_per_class: As `RecordSampler` has
            them. The product of the last two is the batch size.

    Raises:
        ArgumentError: A value is not one of the valid ones, or contradicts another.

    Examples:
        >>> loader = RecordLoader(range(5), batch_size=2)
        >>> [batch.tolist() for batch in loader]
        [[0, 1], [2, 3], [4]]
    """

    dataset: Any  # as DataLoader's, whose type says nothing of a length

    use_stateful_dataloader = True
    """Where accelerate's `save_state` and `load_state` look whether a loader has a state."""

    # Any: of whatever samples, as DataLoader.
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
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_cache: bool = False,
        deterministic: bool = False,
        workers: Literal["auto", "threads", "processes"] = "auto",
        batch_transform: Callable[..., Any] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        weights: Any = None,
        weights_by: str | None = None,
        num_samples: int | None = None,
        replacement: bool | None = None,
        classes_per_batch: int | None = None,
        samples_per_class: int | None = None,
    ) -> None:
        draws = Draws(
            weights=weights,
            weights_by=weights_by,
            num_samples=num_samples,
            replacement=replacement,
            classes_per_batch=classes_per_batch,
            samples_per_class=samples_per_class,
        )
        check_choice("precision", precision, PRECISIONS)
        check_choice("memory_format", memory_format, (torch.contiguous_format, torch.channels_last))
        check_dataset(dataset)
        check_choice("workers", workers, WORKERS)
        check_choice("on_error", on_error, ON_ERROR)
        check_worker_init_fn(worker_init_fn, workers)
        check_function("batch_transform", batch_transform)
        check_sizes(num_workers=num_workers, timeout=timeout, prefetch_factor=prefetch_factor)
        check_order(batch_size, shuffle, sampler, batch_sampler, drop_last, draws)
        # Every argument is an attribute of its name: Lightning makes another loader of the attributes. What the sampler
        # knows is none, or it would be given together with the sampler.
        self.precision, self.memory_format, self.deterministic = precision, memory_format, deterministic
        self.device = checked_device(device)
        self.seed, self.num_replicas, self.rank, self.drop_cache = seed, num_replicas, rank, drop_cache
        chosen = Seed.drawn(generator) if seed is None else Seed(seed)
        if sampler is None and batch_sampler is None:
            shuffle = is_drawn(dataset, draws) if shuffle is None else shuffle
            own = RecordSampler(
                dataset, shuffle=shuffle, num_replicas=num_replicas, rank=rank, drop_last=drop_last, **draws
            )
            own.share_seed(chosen)
            sampler = own
        check_drop_cache(drop_cache, sampler)
        if batch_sampler is None:
            batch_size = batch_size_of(batch_size, sampler, draws)
        super().__init__(
            dataset,
            batch_size,
            None,
            sampler,
            batch_sampler,
            default_threads() if num_workers is None else max(1, num_workers),
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
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self.batch_transform, self.on_error = batch_transform, on_error
        self._num_skipped = 0
        self.workers, self._worker_init_fn = workers, worker_init_fn
        self._kept: list[Buffers] | None = None
        self._choice: tuple[list[Any], Choice] | None = None
        self._processes: tuple[Workers, Tasks, list[Any]] | None = None
        self._orders = self._make_orders(chosen, batch_sampler)

    def _make_orders(self, seed: Seed, batch_sampler: Iterable[list[Any]] | None) -> Orders:
        if batch_sampler is not None:
            return IteratedOrders(batch_sampler, seed, None)
        if self.batch_sampler is not None and hasattr(self.sampler, "set_epoch"):
            # Hugging Face's Trainer resumes with a stock DataLoader of these batches, and tells them the epoch. A
            # subclass with such a method would not do: Lightning exchanges samplers of exactly this class.
            self.batch_sampler.set_epoch = self.sampler.set_epoch  # type: ignore[attr-defined]
        if isinstance(self.sampler, RecordSampler):
            size = self.batch_size or 1
            return SampledOrders(self.sampler, size, self.drop_last, drop_cache=self.drop_cache)
        return IteratedOrders(self.sampler, seed, self.batch_size or 1, drop_last=self.drop_last)

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Where accelerate looks whether to leave a loader alone: yes, if the sampler takes its rank's share itself.

        Otherwise accelerate makes a stock `DataLoader` of it, and deals the batches to the ranks.
        """
        num_replicas, _ = Ranks().now()
        return num_replicas == 1 or getattr(self.sampler, "num_replicas", 1) > 1

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """Ignore it: accelerate also sets it, on what it has left alone."""

    def check_worker_number_rationality(self) -> None:
        """Do nothing: `DataLoader` warns of more worker processes than cores, and these are usually threads."""

    @property
    def worker_init_fn(self) -> Callable[[int], None] | None:
        """Called in each worker process. Lightning sets a function that seeds them."""
        return self._worker_init_fn

    @worker_init_fn.setter
    def worker_init_fn(self, function: Callable[[int], None] | None) -> None:
        self._worker_init_fn = function  # private, so that it is no argument when another loader is made of this one's

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""
        return len(self._orders)

    # Any: a batch is what the collate function makes; as DataLoader's, a list of images and targets.
    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # no worker processes to have another type for
        """Iterate over an epoch: it begins with the first batch; its workers end with it, or when it is left.

        Raises:
            RecordError: What is stored is damaged, or an image cannot be decoded; with record set and name.
            OSError: A file cannot be read, or its image cannot be decoded; as torchvision raises it, with the path.
            EmptyBatchError: All samples of a batch are left out.
            TimeoutError: A batch took longer than `timeout`.
            ForkError: The process was forked within the epoch, and goes on in the child.
            TypeError: The sampler gave a key that is no integer, and the samples are records.
            ArgumentError: `on_error="skip"`, and the dataset makes its samples itself; `deterministic` needs worker
                processes, and there can be none; the loaded state cannot be resumed; or a newer iterator took over the
                persistent workers.
        """
        return Unbegun(self._begin)

    def _begin(self) -> BatchIterator | OnDevice:
        source, making = BatchSource(self.dataset), self._making()
        if making.skips and not source.leaves:
            raise ArgumentError(
                f"on_error='skip' is for samples that the loader reads itself, and {source.problem}. Leave it out."
            )
        warn(source)
        maker = making.maker(source, self._kept)
        if isinstance(maker, RowMaker):
            self._kept = maker.buffers if self.persistent_workers else None
        choice = self._chosen(making, source, maker)
        order = self._orders.begin()
        if choice.workers == "processes":
            iteration: BatchIterator = self._in_processes(making, source, maker, order)
        else:
            self._processes = None
            # Of single samples there are as many ahead as of worker processes' batches, or most threads would wait.
            ahead = (self.prefetch_factor or 0) * (1 if self.batch_sampler is not None else self.num_workers)
            pace = Pace(self.num_workers, ahead, _HINTED, self.timeout or None)
            iteration = Iteration(making, source, maker, order, pace)
        if self.on_error == "skip":
            iteration = Counting(iteration, self._count_skipped)
        if self.device.type == "cpu":
            return iteration

        def arrived(batch: Any, wanted: Wanted) -> Any:
            return making.transformed(maker.arrived(batch), batch_seed(order, wanted))

        return OnDevice(iteration, self.device, arrived)

    def _count_skipped(self, number: int) -> None:
        self._num_skipped += number

    def _in_processes(self, making: Making, source: BatchSource, maker: Maker, order: EpochBatches) -> ProcessIteration:
        key = [*self._key(source), self.batch_transform]
        kept = self._processes if self.persistent_workers else None
        if kept is None or kept[0].is_broken or is_other(kept[2], key):
            tasks, init = Tasks(self.dataset, source, self.num_workers, _HINTED), self._worker_init_fn
            loader = Workers(
                Workplace(making, maker),  # type: ignore[arg-type]  # it has __getitems__, which is used
                batch_sampler=tasks,  # type: ignore[arg-type]  # of tasks, not of indices
                num_workers=self.num_workers,
                collate_fn=as_made,
                pin_memory=self.pin_memory,
                timeout=self.timeout,
                worker_init_fn=init and WorkerInit(init, self.dataset),
                multiprocessing_context=self.multiprocessing_context,
                generator=torch.Generator().manual_seed(self._workers_seed(order)),
                prefetch_factor=max(1, self.prefetch_factor or 0),
                persistent_workers=self.persistent_workers,
            )
            kept = self._processes = loader, tasks, key
        return ProcessIteration(kept[0], kept[1], order)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of an epoch; without this, each is another one."""
        self._orders.set_epoch(epoch)

    def state_dict(self) -> dict[str, JSON]:
        """Return where the user is, behind the batch that was given last.

        With a `RecordSampler` (the default) a few numbers, the same on all ranks. With another sampler also its
        checksum, and the state of the torch generator that it draws from. With `on_error="skip"`, "skipped" is the
        number of samples that this rank has left out, in all epochs.
        """
        skipped: dict[str, JSON] = {"skipped": self._num_skipped} if self.on_error == "skip" else {}
        return self._orders.state_dict() | skipped

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Let the next iteration go on where `state_dict` was called, on however many ranks.

        With a `RecordSampler` (the default) that costs nothing. Any other sampler is iterated up to there when the
        epoch begins, and must give again what it gave: otherwise the first batch is an `ArgumentError`. Only torch's
        `DistributedSampler` may then have another number of ranks.

        Raises:
            ArgumentError: It is the state of another order, or a number in it is wrong.
        """
        skipped: Any = 0  # Any: maybe a wrong one
        if isinstance(state, dict):
            skipped = state.get("skipped", 0)
            state = {name: value for name, value in state.items() if name != "skipped"}
        num_skipped = whole_number("state: skipped", skipped, at_least=0)
        self._orders.load_state_dict(state)
        self._num_skipped = num_skipped

    def explain(self) -> str:
        """Say, line by line, what runs in the loader, what runs as it was written, and why; `print(loader)` does too.

        If something is not fused, a few samples are made to measure whether threads or processes are faster.
        """
        source, making = BatchSource(self.dataset), self._making()
        maker = making.maker(source)
        lines = [repr(self), *sample_lines(self.dataset, source, self.precision), *batch_lines(making, source)]
        try:
            choice = self._chosen(making, source, maker)
            chosen = f"{choice.workers}: {choice.why}"
        except ArgumentError as err:
            chosen = str(err)
        return "\n  ".join([*lines, f"workers: {chosen}"])

    __str__ = explain

    def __repr__(self) -> str:
        is_own = self.batch_size is not None or self.batch_sampler is None
        sampler = self.sampler if is_own else self.batch_sampler
        return (
            f"{type(self).__name__}({type(self.dataset).__name__}{self._size_text()}, "
            f"batch_size={self.batch_size}, sampler={type(sampler).__name__}, num_workers={self.num_workers}, "
            f"precision={self.precision!r}, device={str(self.device)!r})"
        )

    # Any: attributes.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None, "_choice": None, "_processes": None}

    def _size_text(self) -> str:
        return f" of {len(self.dataset):,} samples" if hasattr(self.dataset, "__len__") else ""

    def _making(self) -> Making:
        return Making(
            self.dataset,
            self.precision,
            self.memory_format,
            self.device,
            self.deterministic,
            self.collate_fn,
            self.batch_transform,
            is_single=self.batch_sampler is None,
            is_pinned=self.pin_memory,
            num_kept=(self.prefetch_factor or 0) + 2,
            skips=self.on_error == "skip",
        )

    def _chosen(self, making: Making, source: BatchSource, maker: Maker) -> Choice:
        """Return what makes batches; what is measured is measured once for a transform, and again with compiled code.

        Raises:
            ArgumentError: `deterministic` needs processes, and there can be none.
        """
        compiled = compiled_code(waits=self.precision == "fast") if source.leaves else None
        if self.deterministic and (code := seeded_code(making, source)):
            return choose_seeded(code[0], self.workers, Workplace(making, maker), self.multiprocessing_context)
        if self.workers != "auto":
            return Choice(self.workers, "as asked")
        key = [*self._key(source), compiled]
        if self._choice is None or is_other(self._choice[0], key):
            length = len(self.dataset) if hasattr(self.dataset, "__len__") else None
            workplace = Workplace(making, maker)
            with keeping_values(self.dataset):
                found = choose(maker, source, length, self.num_workers, workplace, self.multiprocessing_context)
            if found.is_measured and self._worker_init_fn is not None:
                found = Choice("processes", "worker_init_fn is for worker processes")
            self._choice = key, found
        return self._choice[1]

    # Any: whatever the user gave.
    def _key(self, source: BatchSource) -> list[Any]:
        """Return the objects that decide what batches are."""
        written = [each for leaf in source.leaves for each in leaf.written]
        return [self.dataset, self.collate_fn, self._worker_init_fn, *written]

    def _workers_seed(self, order: EpochBatches) -> int:
        """Return the seed of worker processes, another one on each rank."""
        return int(hash_key(order.seed, order.epoch, getattr(self.sampler, "rank", 0))) >> 1
