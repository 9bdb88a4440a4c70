"""How a loader makes batches: everything that a worker process needs, except the order."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import default_collate, default_convert

from recordzoo.loader.buffers import Buffers, allocate
from recordzoo.loader.generators import seeded
from recordzoo.loader.joint_samples import JointMaker
from recordzoo.loader.leaf import ImageLeaf, JointLeaf
from recordzoo.loader.makers import Less, Maker, RowMaker
from recordzoo.loader.samples import SampleMaker
from recordzoo.loader.source import BatchSource
from recordzoo.pixels.render import Precision


@dataclass(frozen=True)
class Making:
    """The settings for making batches from samples.

    Attributes:
        dataset: The dataset.
        precision, memory_format, device, deterministic: As in `RecordLoader`.
        collate: Converts a list of samples to a batch.
        batch_transform: Called with the batch, if any.
        is_single: Whether a batch is one single sample.
        is_pinned: Whether images are in page-locked memory.
        num_kept: Number of batches whose memory is kept for reuse.
        skips: Whether samples that cannot be read or decoded are skipped.
    """

    dataset: Any  # samples of any type
    precision: Precision
    memory_format: torch.memory_format
    device: torch.device
    deterministic: bool
    collate: Callable[[Any], Any]
    batch_transform: Callable[..., Any] | None
    is_single: bool
    is_pinned: bool
    num_kept: int
    skips: bool

    @property
    def collates_by_default(self) -> bool:
        """Whether torch's own function collates batches."""
        return self.collate is (default_convert if self.is_single else default_collate)

    def transformed(self, batch: Any, seed: int) -> Any:
        """Return a batch after `batch_transform`, whose arguments are the parts of the batch."""
        if self.batch_transform is None:
            return batch
        with self._seeding(seed):
            is_many = isinstance(batch, list | tuple)
            return self.batch_transform(*batch) if is_many else self.batch_transform(batch)

    def made_here(self, collated: Callable[[], Any], seed: int) -> Any:
        """Collate a batch and call `batch_transform`, unless the batch is transformed on its device later."""
        with contextlib.nullcontext() if self.collates_by_default else self._seeding(seed):
            batch = collated()
        if self.device.type != "cpu":
            return batch
        if isinstance(batch, Less):
            return Less(self.transformed(batch.batch, seed), batch.failures)
        return self.transformed(batch, seed)

    def _seeding(self, seed: int) -> contextlib.AbstractContextManager[None]:
        return seeded(seed) if self.deterministic else contextlib.nullcontext()

    def maker(self, source: BatchSource, kept: "list[Buffers] | None" = None) -> Maker:
        """Return the maker of the batches.

        Args:
            source: The source of the samples.
            kept: Memory of batches of an earlier epoch.
        """
        if not self._are_rows(source):
            return self.sample_maker(source)
        plans = source.leaves[0].views.plans
        buffers = []
        for number, plan in enumerate(plans):
            assert plan.size is not None
            is_here = self.device.type == "cpu" or plan.erases  # boxes are erased in the finished values
            shape, dtype = (3, *plan.size), plan.pointwise.dtype if is_here else torch.uint8
            if kept is not None and len(kept) > number and (kept[number].shape, kept[number].dtype) == (shape, dtype):
                buffers.append(kept[number])
            else:
                made = Buffers(shape, dtype, self.memory_format, pinned=self.is_pinned, limit=self.num_kept)
                buffers.append(made)
        return RowMaker(source, self.precision, buffers, skips=self.skips)

    def sample_maker(self, source: BatchSource) -> SampleMaker:
        """Return the maker that makes samples one by one and collates them."""
        is_joint = any(isinstance(leaf, JointLeaf) for leaf in source.leaves)
        return (JointMaker if is_joint else SampleMaker)(
            self.dataset,
            source,
            self.precision,
            self.collate,
            functools.partial(
                allocate, memory_format=self.memory_format if self.collates_by_default else torch.contiguous_format
            ),
            is_stacked=self.collates_by_default and not self.is_single,
            deterministic=self.deterministic,
            skips=self.skips,
            singly=self.is_single,
        )

    def _are_rows(self, source: BatchSource) -> bool:
        """Whether images can be made directly into the batch: all fused, one size and dtype, collated by torch."""
        leaves = [leaf for leaf in source.leaves if isinstance(leaf, ImageLeaf)]
        if len(leaves) < len(source.leaves):
            return False
        views = [leaf.views for leaf in leaves]
        kinds = {
            (each.is_list, *((plan.size, plan.pointwise.operations, plan.erases) for plan in each.plans))
            for each in views
        }
        is_random = self.deterministic and any(leaf.target_transform is not None for leaf in leaves)
        return (
            not is_random
            and self.collates_by_default
            and not self.is_single
            and len(kinds) == 1
            and all(each.is_whole for each in views)
            and all(plan.size is not None for plan in views[0].plans)
        )
