"""A new set that shares the shards of others by hard links: only arrays and the manifest are written."""

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.arrays import AnyArray
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.errors import CorruptRecordError
from recordzoo.recipes.combined.part import SetPart
from recordzoo.recipes.combined.recipe import CombinedRecipe
from recordzoo.recipes.combined.source import distinct_names
from recordzoo.records.manifest import NO_SHARD, BlobSpec, ShardSpec, shard_name
from recordzoo.records.writer import SetContents, write_set

MOST_NAMED = 1000
"""Maximum number of broken images that the manifest names; it only counts further ones."""


class SharedShards:
    """The shards of some sets as those of one set.

    Shards with the same hash hold the same bytes: of these the new set has one.

    Attributes:
        specs: Their entries in the new manifest.
        numbers: For each part the new numbers of its shards, uint32.
    """

    def __init__(self, parts: Sequence[SetPart]) -> None:
        self.specs: list[ShardSpec] = []
        self.numbers: list[NDArray[np.uint32]] = []
        self._places: list[tuple[SetPart, int]] = []
        found: dict[str, int] = {}
        for part in parts:
            numbers = []
            for number, old in enumerate(part.reader.manifest.shards):
                new = found.setdefault(old.hash, len(self.specs))
                if new == len(self.specs):
                    self.specs.append(_renamed(old, new))
                    self._places.append((part, number))
                numbers.append(new)
            self.numbers.append(np.array(numbers, np.uint32))

    @property
    def size_bytes(self) -> int:
        """The total size of the shards in bytes."""
        return sum(spec.size_bytes for spec in self.specs)

    def link(self, folder: Path, told: Callable[[int], None]) -> int:
        """Link the shards into a folder; return how many bytes were copied instead.

        Args:
            folder: The folder.
            told: Called with the size of each shard; an error that it raises stops the work.

        Raises:
            CorruptRecordError: A shard has another size, or, if it was copied, another hash than the manifest says.
        """
        copied = 0
        for spec, (part, number) in zip(self.specs, self._places, strict=True):
            old = part.reader.folder / part.reader.manifest.shards[number].name
            fd = part.reader.open_shard(number)
            try:
                is_linked = durable.link_or_copy(old, folder / spec.name, fd)
            finally:
                os.close(fd)
            crash_point("shard.linked")
            told(spec.size_bytes)
            if is_linked:
                continue
            copied += spec.size_bytes
            if hash_of(folder / spec.name) != spec.hash:
                raise CorruptRecordError(
                    f"{old} is damaged: its hash is not the one in the manifest. Nothing was published.", path=str(old)
                )
        return copied

    def index(self, parts: Sequence[SetPart], field: str) -> AnyArray:
        """Return the index of a blob field over all parts.

        Raises:
            CorruptRecordError: An index names a shard that does not exist.
        """
        index = np.concatenate([part.reader.array(f"{field}.index") for part in parts])
        start = 0
        for part, numbers in zip(parts, self.numbers, strict=True):
            column = index["shard"][start : start + len(part.reader)]
            start += len(column)
            is_there = column != NO_SHARD
            if is_there.any() and column[is_there].max() >= len(numbers):
                where = str(part.reader.path)
                raise CorruptRecordError(
                    f"{where}: the index of {field} names a shard that does not exist.", path=where
                )
            column[is_there] = numbers[column[is_there]]
        return index


def _renamed(spec: ShardSpec, number: int) -> ShardSpec:
    return ShardSpec(shard_name(number), spec.size_bytes, spec.num_values, spec.page_size, spec.last_page, spec.hash)


def write_linked(recipe: CombinedRecipe, shards: SharedShards, folder: Path) -> str:
    """Write a recipe's record set, except for the shards; return its digest.

    Args:
        recipe: A recipe that takes all records of its parts.
        shards: The shards, already in the folder.
        folder: The folder.

    Raises:
        CorruptRecordError: A file of a set is damaged.
        SourceError: A record's class is not one of its set's classes.
    """
    parts, manifests = recipe.parts, [part.reader.manifest for part in recipe.parts]
    names = distinct_names(parts, first_stay=recipe.keeps_names)
    table = recipe.table(names)
    blobs, shapes = {}, {}
    for name, blob in manifests[0].blobs.items():
        shape = blob.shape if all(manifest.blobs[name].shape == blob.shape for manifest in manifests) else None
        blobs[name] = BlobSpec(blob.encoding, shape, blob.dtype)
        if blob.encoding == "raw" and shape is None:
            shapes[f"{name}.shape"] = np.concatenate([part.shapes(name) for part in parts])
    bad = _bad(parts, names)
    counts = {what: _true_count(parts, what) for what in ("bad", "skipped")}
    return write_set(
        folder,
        SetContents(
            kind=recipe.kind,
            dataset=recipe.dataset,
            part=recipe.part,
            variant=recipe.variant,
            blobs=blobs,
            indices={name: shards.index(parts, name) for name in blobs},
            names=table.names,
            shards=shards.specs,
            arrays={**table.arrays, **shapes},
            splits={name: np.asarray(places, np.int64) for name, places in table.splits.items()},
            classes=table.classes,
            fields=table.fields,
            default_target=table.default_target,
            source=recipe.origin,
            raw_files=recipe.made_from,
            bad=dict(itertools.islice(bad.items(), MOST_NAMED)),
            skipped=dict(itertools.islice(table.skipped.items(), MOST_NAMED)),
            metadata={
                **table.metadata,
                **{f"num_{what}": count for what, count in counts.items() if count > MOST_NAMED},
            },
            marks={
                name: np.frombuffer(b"".join(part.reader.marks(name) for part in parts), np.uint8)
                for name, blob in blobs.items()
                if blob.encoding == "image"
            },
            extras=recipe.extras(),
        ),
    )


def _bad(parts: Sequence[SetPart], names: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the images that no decoder recognised, under their new names."""
    found = {}
    for part, new in zip(parts, names, strict=True):
        if old := part.reader.manifest.bad:
            now = dict(zip(part.reader.names, new, strict=True))
            found.update({now.get(name, name): why for name, why in old.items()})
    return found


def _true_count(parts: Sequence[SetPart], what: str) -> int:
    """Return how many images were bad, or skipped: a manifest names 1,000 and notes the number of more."""
    count = 0
    for part in parts:
        noted = part.reader.manifest.metadata.get(f"num_{what}")
        count += noted if isinstance(noted, int) else len(getattr(part.reader.manifest, what))
    return count
