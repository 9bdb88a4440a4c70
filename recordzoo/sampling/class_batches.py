"""Batches of P classes with M samples each."""

import functools
import zlib
from collections.abc import Sized

import numpy as np

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError
from recordzoo.sampling.labels import Classes
from recordzoo.sampling.orders import Int64s, SampleOrder, Scheme
from recordzoo.sampling.permutation import hash_key, hash_keys, permute_each


class ClassBatches(Scheme):
    """Draws P classes for each batch, and M samples of each class, which are adjacent.

    The epoch is a sequence of *rounds*. In a round the classes are permuted and divided into as many batches as they
    fill, so each class is in one batch at most. At each turn a class gives the next M of its permuted samples; it is
    permuted again when fewer than M are left. A class of fewer than M samples gives all of them and repeats the first
    ones. All this is computed from the place; the memory is 4 bytes per sample.

    Args:
        dataset, field: As in `Classes`. Samples of class -1 are never drawn.
        num_classes: P.
        num_each: M.
        num_samples: Draws in an epoch, a multiple of P * M. Default: as many whole batches as the samples fill.

    Raises:
        ArgumentError: There are fewer classes, or `num_samples` is not a multiple.
    """

    def __init__(
        self, dataset: Sized, field: str | None, num_classes: int, num_each: int, num_samples: int | None
    ) -> None:
        classes = Classes(dataset, field)
        chosen = ~classes.is_none
        self._counts = classes.counts[chosen]
        if len(self._counts) < num_classes:
            raise ArgumentError(f"classes_per_batch={num_classes}: the samples have {len(self._counts)} classes.")
        self.unit = num_classes * num_each
        if num_samples is not None and num_samples % self.unit:
            raise ArgumentError(
                f"num_samples={num_samples} is no multiple of {self.unit}, the size of a batch of {num_classes} "
                f"classes with {num_each} samples each."
            )
        self.length = num_samples or max(1, int(self._counts.sum()) // self.unit) * self.unit
        self._members = classes.members()
        self._starts = (np.cumsum(classes.counts) - classes.counts)[chosen]
        self._num_classes, self._num_each = num_classes, num_each

    @functools.cached_property
    def identity(self) -> dict[str, JSON]:
        """See `Scheme`."""
        checksum = zlib.crc32(self._members.data, zlib.crc32(self._counts.data))
        return {"draws": ["classes", self._num_classes, self._num_each, checksum]}

    def order(self, seed: int, epoch: int) -> SampleOrder:
        """See `Scheme`."""
        key, total = hash_key(seed, epoch), len(self._counts)

        def drawn(places: Int64s) -> Int64s:
            batches, within = np.divmod(places, self.unit)
            slots, copies = np.divmod(within, self._num_each)
            rounds, turns = np.divmod(batches, total // self._num_classes)
            dealt = turns * self._num_classes + slots
            classes = permute_each(dealt, np.full_like(dealt, total), hash_keys(hash_key(key, 1), rounds))
            counts = self._counts[classes]
            passes, turns = np.divmod(rounds, np.maximum(1, counts // self._num_each))
            keys = hash_keys(hash_key(key, 2), passes * total + classes)
            numbers = permute_each((turns * self._num_each + copies) % counts, counts, keys)
            indices: Int64s = self._members[self._starts[classes] + numbers].astype(np.int64)
            return indices

        return SampleOrder(drawn, self.unit)
