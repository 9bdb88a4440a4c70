"""Build a record set that shares the shards of others by hard links, or rebuild a damaged one."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.arrays import AnyArray
from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import CorruptRecordError, NotPreparedError, OtherSourceError, RecordZooError
from recordzoo.preparing.assemble import MOST_NAMED
from recordzoo.publish.build import Build
from recordzoo.publish.output import ANOTHER_PATH, Output, behind_links
from recordzoo.publish.publishing import publish
from recordzoo.publish.space import volume
from recordzoo.recipes.from_sets.combined import CombinedRecipe
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.recipes.from_sets.source import distinct_names
from recordzoo.records.manifest import NO_SHARD, VERSION, BlobSpec, ShardSpec, shard_name
from recordzoo.records.reader import is_record_set
from recordzoo.records.writer import SetContents, write_set

WRITER = 1
"""Part of the plan. Raise it when the same sets give other bytes."""


class LinkJob:
    """Builds one set.

    Args:
        recipe: Takes all records from sets on this machine.
        progress: Receives the progress, and a note on copied shards. Default: as in `OwnOptions`.
        replace: Replace the existing record set.
        digest: The digest of the damaged set: only a set with this digest replaces it.
    """

    def __init__(
        self, recipe: CombinedRecipe, progress: Progress | None, *, replace: bool = False, digest: str = ""
    ) -> None:
        self.recipe, self._replace, self._digest = recipe, replace, digest
        self.progress = progress or default_progress()
        self.target = behind_links(recipe.output)

    def run(self) -> bool:
        """Build the set; return False if another process built it."""
        return publish(
            Output(self.target, elsewhere=ANOTHER_PATH),
            lambda: bool(self._digest) or is_record_set(self.target),
            self.progress,
            self._write,
            again=self._replace or bool(self._digest),
            may_replace=self._may_replace,
        )

    def _may_replace(self, path: Path) -> bool:
        return os.path.lexists(path) if self._digest else self._replace and is_record_set(path)

    def _write(self, build: Build) -> None:
        source = self.recipe.find(self.target.parent)
        if source is None:
            raise NotPreparedError(f"{self.target}: not all of {', '.join(self.recipe.looked_for(Path()))} are there.")
        plan = {"writer": WRITER, "format": VERSION, "source": source.fingerprint(), "options": self.recipe.made_of}
        build.claim(plan, self._needed_bytes())
        try:
            copied = self._fill(build)
        except RecordZooError:  # not a disk error: the same command would fail again
            build.remove()
            raise
        if copied:
            self.progress.note(
                f"{format_bytes(copied)} of shards were copied, not linked: {self.target.parent} is on another file "
                "system than they are, or has no hard links, or they belong to another user."
            )

    def _fill(self, build: Build) -> int:
        """Write the set into the build; return the number of bytes copied from shards."""
        shards = SharedShards(self.recipe.parts)

        def told(size_bytes: int) -> None:
            build.check()
            self.progress.advance(size_bytes)

        self.progress.begin(f"linking shards of {self.target.name}", shards.size_bytes)
        copied = shards.link(build.set, told)
        self.progress.end()
        digest = write_linked(self.recipe, shards, build.set)
        if self._digest and digest != self._digest:
            raise OtherSourceError(
                f"{self.target}: the sets that it was made of give another record set. Nothing was replaced.",
                path=str(self.target),
            )
        return copied

    def _needed_bytes(self) -> int:
        """Estimate the bytes to write: arrays, and shards from other file systems."""
        here, needed = volume(self.target.parent), 0
        for part in self.recipe.parts:
            manifest = part.reader.manifest
            needed += sum(array.size_bytes for array in manifest.arrays.values())
            if part.reader.folder.stat().st_dev != here:
                needed += sum(shard.size_bytes for shard in manifest.shards)
        return needed


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
                    self.specs.append(dataclasses.replace(old, name=shard_name(new)))
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
            told: Called with the size of each shard; an error that it raises stops the work.
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
        """Return the index of a blob field over all parts."""
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


def write_linked(recipe: CombinedRecipe, shards: SharedShards, folder: Path) -> str:
    """Write a recipe's record set, except for the shards; return its digest.

    Args:
        recipe: A recipe that takes all records of its parts.
        shards: The shards, already in the folder.
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
