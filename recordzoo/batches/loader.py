"""`RecordLoader`: batches for training, made by threads instead of processes."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset

from recordzoo.batches.arguments import checked_device
from recordzoo.batches.buffers import Buffers
from recordzoo.batches.device import OnDevice
from recordzoo.batches.explain import advice, held_by_one, sample_lines
from recordzoo.batches.iteration import Iteration, Pace, Unbegun
from recordzoo.batches.makers import EncodedMaker, Maker, RowMaker, SampleMaker, restored
from recordzoo.batches.missing import warn
from recordzoo.batches.order import IteratedOrders, Orders, SampledOrders, Wanted
from recordzoo.batches.render import PRECISIONS, Precision
from recordzoo.batches.source import Source
from recordzoo.batches.work import cut
from recordzoo.errors import ArgumentError
from recordzoo.sampling.samplers import RecordSampler
from recordzoo.sampling.seed import Seed

_PROBES = 16

_HINTED = 4
"""Batches that the kernel reads ahead of those that are being made."""


class RecordLoader:
    """`torch.utils.data.DataLoader` for record sets: one process, threads, the transforms fused with the decoding.

    It takes `DataLoader`'s arguments and gives its batches. The dataset's own transforms say what is made; those that
    are known (`print(loader)` says which) run in the loader: only the pixels that a crop keeps are decoded.

    Random numbers of fused transforms are a function of seed, epoch and the sample's place in the epoch: the batches
    are the same with any number of threads, and after a resume. Transforms that are not fused draw from the process's
    generators in whatever order the threads come, unless `deterministic`.

    Args:
        dataset: A dataset of this package, a `Subset` or a `ConcatDataset` of them. Any other works, without the speed.
        batch_size: Samples in a batch, of each rank.
        shuffle: True, False or "block", as `RecordSampler` has them.
        sampler: Which samples, in which order, instead of `shuffle`; best a `RecordSampler`.
        batch_sampler: Gives lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: Threads, at least 1; by default the cores that this process may use, divided by
            ``LOCAL_WORLD_SIZE``.
        collate_fn: Makes a batch of a list of samples; by default as `DataLoader`.
        pin_memory: Whether images lie in page-locked memory, if there is a CUDA device.
        drop_last: Leave out a last batch that is not full, and samples that do not divide by the number of ranks.
        timeout: Seconds to wait for a batch; 0 for ever.
        generator: What the seed is drawn from, if none is given.
        prefetch_factor: Batches that are made ahead; 2 by default.
        precision: "exact": the pixels that the transforms give in the stock `DataLoader` for the same crop and flip.
            "fast": what is to become half as large or smaller is decoded at half the size.
        memory_format: Layout of the images in memory; their shape is [N, 3, H, W] in any case.
        device: Where batches go: images are moved as uint8 and become float there, beside the work on the last batch.
        decode: "cuda" decodes JPEGs on the device, which must be a CUDA one; "fast" precision only.
        seed: Of order and random numbers. By default drawn from `generator` or torch's own; 0 if an epoch begins with
            several ranks, which must agree.
        num_replicas, rank: As `RecordSampler` has them.
        drop_cache: With shuffle="block", let the kernel forget each block after its last use, so that data larger than
            memory drives nothing else out of it.
        deterministic: Run what is not fused one sample at a time, with generators seeded for each.
        persistent_workers: Keep the memory of batches from one epoch to the next. Threads need not be kept.
        multiprocessing_context, pin_memory_device, in_order: Taken for `DataLoader`'s sake; they mean nothing to
            threads.

    Raises:
        ArgumentError: A value is not one of the valid ones, or contradicts another.

    Examples:
        >>> loader = RecordLoader(range(5), batch_size=2)
        >>> [batch.tolist() for batch in loader]
        [[0, 1], [2, 3], [4]]
    """

    # Any: of whatever samples, as DataLoader.
    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | Literal["block"] | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        precision: Precision = "exact",
        memory_format: torch.memory_format = torch.contiguous_format,
        device: torch.device | str | int | None = None,
        decode: Literal["cpu", "cuda"] = "cpu",
        seed: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        drop_cache: bool = False,
        deterministic: bool = False,
        persistent_workers: bool = False,
        multiprocessing_context: object = None,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_choice("precision", precision, PRECISIONS)
        _check_choice("decode", decode, ("cpu", "cuda"))
        _check_choice("memory_format", memory_format, (torch.contiguous_format, torch.channels_last))
        if isinstance(dataset, IterableDataset):
            kind = type(dataset).__name__
            raise ArgumentError(f"{kind} has no samples by number: it is for DataLoader, not for RecordLoader.")
        for name, value in {"num_workers": num_workers, "timeout": timeout, "prefetch_factor": prefetch_factor}.items():
            if value is not None and value < 0:
                raise ArgumentError(f"{name}={value} must not be negative.")
        _check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.collate_fn, self.timeout, self.generator = collate_fn, timeout, generator
        self.num_workers = default_threads() if num_workers is None else max(1, num_workers)
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.precision, self.memory_format, self.deterministic = precision, memory_format, deterministic
        self.device, self.decode = checked_device(device), decode
        if decode == "cuda" and (self.device.type != "cuda" or precision != "fast"):
            raise ArgumentError('decode="cuda" needs device="cuda" and precision="fast": its pixels are others.')
        self.pin_memory = (pin_memory or self.device.type == "cuda") and torch.cuda.is_available()
        self.batch_sampler = batch_sampler
        self.sampler: Any = sampler
        chosen = Seed.drawn(generator) if seed is None else Seed(seed)
        if sampler is None and batch_sampler is None:
            self.sampler = RecordSampler(
                dataset,
                shuffle=shuffle or False,
                num_replicas=num_replicas,
                rank=rank,
                drop_last=drop_last,
            )
            self.sampler.share_seed(chosen)
        if drop_cache and getattr(self.sampler, "shuffle", None) != "block":
            raise ArgumentError('drop_cache=True needs shuffle="block": else any sample may soon be read again.')
        self.persistent_workers = persistent_workers
        self._kept: Buffers | None = None
        self._orders = self._make_orders(chosen, drop_cache)

    def _make_orders(self, seed: Seed, drop_cache: bool) -> Orders:
        if isinstance(self.sampler, RecordSampler):
            return SampledOrders(self.sampler, self.batch_size, self.drop_last, drop_cache=drop_cache)
        batches = self.batch_sampler
        if batches is None:
            batches = BatchSampler(self.sampler, self.batch_size, self.drop_last)
        sampler = getattr(batches, "sampler", None) if self.sampler is None else self.sampler
        return IteratedOrders(batches, seed, sampler)

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch."""
        return len(self._orders)

    # Any: a batch is what the collate function makes; as DataLoader's, a list of images and targets.
    def __iter__(self) -> Iterator[Any]:
        """Iterate over an epoch: it begins with the first batch; its threads end with it, or when it is left.

        Raises:
            RecordError: What is stored is damaged, or an image cannot be decoded; with record set and name.
            TimeoutError: A batch took longer than `timeout`.
        """
        return Unbegun(self._begin)

    def _begin(self) -> Iteration | OnDevice:
        source = Source(self.dataset)
        warn(source)
        maker = self._maker(source)
        pace = Pace(self.num_workers, self.prefetch_factor, _HINTED, self.timeout or None)
        iteration = Iteration(self.dataset, source, maker, self._orders.begin(), pace)
        return iteration if self.device.type == "cpu" else OnDevice(iteration, self.device, maker.arrived)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of an epoch; without this, each is another one."""
        self._orders.set_epoch(epoch)

    # Any: JSON values.
    def state_dict(self) -> dict[str, Any]:
        """Return where the user is, behind the batch that was given last: a few numbers, the same on all ranks."""
        return self._orders.state_dict()

    # Any: as above.
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on where `state_dict` was called, on however many ranks.

        With a `RecordSampler` (the default) that costs nothing; any other sampler is iterated up to there, and must
        give again what it gave.

        Raises:
            ArgumentError: It is the state of another order.
        """
        self._orders.load_state_dict(state)

    def explain(self) -> str:
        """Say, line by line, what runs in the loader, what runs as it was written, and why; `print(loader)` does too.

        If something is not fused, a few samples are made to measure whether threads help.
        """
        source = Source(self.dataset)
        lines = [repr(self), *sample_lines(self.dataset, source, self.precision), *self._remarks(source)]
        if len(self.dataset) and not (source.leaves and all(leaf.plan.is_whole for leaf in source.leaves)):
            lines.append(self._measured(source))
        return "\n  ".join(lines)

    __str__ = explain

    def __repr__(self) -> str:
        sampler = self.sampler if self.batch_sampler is None else self.batch_sampler
        return (
            f"{type(self).__name__}({type(self.dataset).__name__} of {len(self.dataset):,} samples, "
            f"batch_size={self.batch_size}, sampler={type(sampler).__name__}, num_workers={self.num_workers}, "
            f"precision={self.precision!r}, device={str(self.device)!r})"
        )

    def _maker(self, source: Source) -> Maker:
        plans = [leaf.plan for leaf in source.leaves]
        kinds = {(plan.size, plan.pointwise.operations, plan.is_whole) for plan in plans}
        is_random = self.deterministic and any(leaf.target_transform is not None for leaf in source.leaves)
        if (
            is_random
            or self.collate_fn is not None
            or len(kinds) != 1
            or not plans[0].is_whole
            or plans[0].size is None
        ):
            return self._sample_maker(source)
        if self.decode == "cuda":
            return EncodedMaker(source, self.device)
        dtype = plans[0].pointwise.dtype if self.device.type == "cpu" else torch.uint8
        return RowMaker(source, self.precision, self._buffers((3, *plans[0].size), dtype))

    def _buffers(self, shape: tuple[int, ...], dtype: torch.dtype) -> Buffers:
        if self._kept is not None and (self._kept.shape, self._kept.dtype) == (shape, dtype):
            return self._kept
        limit = self.prefetch_factor + 2
        buffers = Buffers(shape, dtype, self.memory_format, pinned=self.pin_memory, limit=limit)
        self._kept = buffers if self.persistent_workers else None
        return buffers

    def _sample_maker(self, source: Source) -> SampleMaker:
        return SampleMaker(self.dataset, source, self.precision, self.collate_fn, deterministic=self.deterministic)

    def _remarks(self, source: Source) -> Iterator[str]:
        if self.collate_fn is not None:
            yield "collate_fn: samples are made on their own, for it to put together"
        if self.decode == "cuda":
            is_used = isinstance(self._maker(source), EncodedMaker)
            yield (
                "JPEGs are decoded on the device"
                if is_used
                else "decode='cuda' is not used: samples are made on their own"
            )
        if not source.leaves or any(leaf.plan.rest or leaf.target_transform is not None for leaf in source.leaves):
            yield (
                "deterministic: what is not fused runs one sample at a time, with generators seeded for each"
                if self.deterministic
                else "what is not fused draws random numbers from the process's generators: reproducible with "
                "num_workers=1, or deterministic=True"
            )

    def _measured(self, source: Source) -> str:
        try:
            with restored():
                return advice(held_by_one(self._probe(source)))
        except Exception as err:  # noqa: BLE001 - a loader can be printed, whatever its transforms do
            return f"what is not fused fails: {type(err).__name__}: {err}"

    def _probe(self, source: Source) -> Callable[[], object]:
        """Return work on a few samples from all over the dataset."""
        count = min(_PROBES, len(self.dataset))
        indices = np.arange(count) * (len(self.dataset) // count)
        (piece,) = cut(Wanted(indices, np.arange(count), lambda: None, indices, indices), source, 0, 0, count)
        return functools.partial(self._sample_maker(source).make, piece, None)


def default_threads() -> int:
    """Return how many threads make batches: the cores that this process may use, shared with its neighbours."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def _check_choice(name: str, value: object, valid: tuple[object, ...]) -> None:
    if value not in valid:
        raise ArgumentError(f"{name}={value!r} is not one of {', '.join(map(repr, valid))}.")


def _check_order(batch_size: object, shuffle: object, sampler: object, batch_sampler: object, drop_last: bool) -> None:
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ArgumentError("batch_sampler stands for batch_size, shuffle, sampler and drop_last: give it or those.")
    if sampler is not None and shuffle:
        raise ArgumentError("sampler says the order, and so does shuffle: give one of the two.")
    if not isinstance(batch_size, int) or batch_size < 1:
        raise ArgumentError(f"batch_size={batch_size!r} must be a whole number, 1 or more.")
