"""Make a record set of all records of others: shards are hard-linked or copied, arrays are written."""

import dataclasses
import functools
import itertools
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.arrays import AnyArray
from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.base.types import JSON
from recordzoo.combining.new_set import is_made, new_metadata, new_place
from recordzoo.errors import CorruptRecordError, RecordZooError, SourceError
from recordzoo.preparing.assemble import MOST_NAMED
from recordzoo.publish.build import Build
from recordzoo.publish.output import ANOTHER_PATH, Output, behind_links
from recordzoo.publish.publishing import publish
from recordzoo.publish.space import volume
from recordzoo.recipes.from_sets.source import shapes_of
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import ENDING, NO_SHARD, VERSION, BlobSpec, ShardSpec, shard_name
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import SetContents, write_set

WRITER = 1
"""Part of the plan. Raise it when the same sets give other bytes."""

Numbers = Sequence[int] | None
"""The new number of each class of a set; None: all stay."""


def link(
    readers: Sequence[RecordReader],
    output: str | os.PathLike[str],
    made_of: Mapping[str, JSON],
    splits: Mapping[str, NDArray[np.int64]],
    classes: Sequence[str] | None,
    numbers: Sequence[Numbers],
    progress: Progress | None,
) -> Path:
    """Publish a set with all records of others, unless it is there; return its directory.

    Args:
        readers: The sets, whose fields are the same.
        output: The new set's directory.
        made_of: What the new manifest says of the sets.
        splits: The splits, as positions in the new set.
        classes: The class names.
        numbers: The new class numbers of each set.
        progress: Receives the progress, and a note on copied shards. Default: as in `NewOptions`.

    Raises:
        OtherSourceError: `output` holds another record set.
        RecordError: A set was replaced since it was opened.
        CorruptRecordError: A copied shard is damaged, or an index names a missing one.
        PrepareError: `output` is occupied, or the disk failed.
    """
    place, progress = new_place(output, readers), progress or default_progress()
    target = behind_links(place)
    is_ready = functools.partial(is_made, target, readers, made_of)

    def write(build: Build) -> None:
        for reader in readers:
            RecordReader(reader.path, digest=reader.digest)  # raises if it was replaced
        build.claim({"writer": WRITER, "format": VERSION, "made_of": made_of}, _needed_bytes(readers, target))
        try:
            shards = _Shards(readers)
            shards.link(build, progress)
            contents = _contents(readers, shards, classes, numbers)
            metadata = {**contents.metadata, **new_metadata(readers, classes, made_of)}
            write_set(build.set, dataclasses.replace(contents, splits=splits, metadata=metadata))
        except RecordZooError:  # not a disk error: the same command would fail again
            build.remove()
            raise

    publish(Output(target, elsewhere=ANOTHER_PATH), is_ready, progress, write)
    return place


def _needed_bytes(readers: Sequence[RecordReader], target: Path) -> int:
    """Estimate the bytes to write: arrays, and shards from URLs and other file systems."""
    here, needed = volume(target.parent), 0
    for reader in readers:
        needed += sum(array.size_bytes for array in reader.manifest.arrays.values())
        if not isinstance(reader.path, Path) or reader.path.stat().st_dev != here:
            needed += sum(shard.size_bytes for shard in reader.manifest.shards)
    return needed


class _Shards:
    """The shards of some sets as those of one set; of shards with the same bytes it has one.

    Attributes:
        specs: Their entries in the new manifest.
        numbers: For each set the new numbers of its shards, uint32.
    """

    def __init__(self, readers: Sequence[RecordReader]) -> None:
        found: dict[str, int] = {}  # by hash
        self._places = []
        self.specs: list[ShardSpec] = []
        self.numbers: list[NDArray[np.uint32]] = []
        for reader in readers:
            for number, spec in enumerate(reader.manifest.shards):
                if found.setdefault(spec.hash, len(self.specs)) == len(self.specs):
                    self.specs.append(dataclasses.replace(spec, name=shard_name(len(self.specs))))
                    self._places.append((reader, number))
            self.numbers.append(np.array([found[spec.hash] for spec in reader.manifest.shards], np.uint32))

    def link(self, build: Build, progress: Progress) -> None:
        """Link the shards into a build; compare the hashes of those that are copied."""
        copied, parent = 0, build.output.path.parent
        progress.begin(f"linking shards of {build.output.path.name}", sum(spec.size_bytes for spec in self.specs))
        for spec, (reader, number) in zip(self.specs, self._places, strict=True):
            old, new = reader.path / reader.manifest.shards[number].name, build.set / spec.name
            fd = reader.open_shard(number)
            try:
                is_linked = durable.link_or_copy(fd, old if isinstance(old, Path) else None, new)
            finally:
                os.close(fd)
            crash_point("shard.linked")
            build.check()
            progress.advance(spec.size_bytes)
            if not is_linked:
                copied += spec.size_bytes
                if hash_of(new) != spec.hash:
                    what = "is damaged: its hash is not the one in the manifest. Nothing was published"
                    raise CorruptRecordError(f"{old} {what}.", path=str(old))
        progress.end()
        if copied:
            progress.note(
                f"{format_bytes(copied)} of shards were copied, not linked: {parent} is on another file system than "
                "they are, or has no hard links, or they belong to another user."
            )

    def index(self, readers: Sequence[RecordReader], field: str) -> AnyArray:
        """Return the index of a blob field over all sets."""
        found = []
        for reader, numbers in zip(readers, self.numbers, strict=True):
            index = np.array(reader.array(f"{field}.index"))
            is_there = index["shard"] != NO_SHARD
            if is_there.any() and index["shard"][is_there].max() >= len(numbers):
                what = f"the index of {field} names a shard that does not exist"
                raise CorruptRecordError(f"{reader.path}: {what}.", path=str(reader.path))
            index["shard"][is_there] = numbers[index["shard"][is_there]]
            found.append(index)
        return np.concatenate(found)


def _contents(
    readers: Sequence[RecordReader], shards: _Shards, classes: Sequence[str] | None, numbers: Sequence[Numbers]
) -> SetContents:
    """Return the contents of the new set, without its splits."""
    manifests = [reader.manifest for reader in readers]
    first, names = manifests[0], _distinct_names(readers)
    arrays = {name: _joined(readers, name, numbers) for name in first.columns}
    blobs = {}
    for name, blob in first.blobs.items():
        shape = blob.shape if all(manifest.blobs[name].shape == blob.shape for manifest in manifests) else None
        blobs[name] = BlobSpec(blob.encoding, shape, blob.dtype)
        if blob.encoding == "raw" and shape is None:
            arrays[f"{name}.shape"] = np.concatenate([shapes_of(reader, name) for reader in readers])
    bad = {new: why for reader, now in zip(readers, names, strict=True) for new, why in _bad(reader, now)}
    skipped = {name: why for manifest in manifests for name, why in manifest.skipped.items()}
    counts = {f"num_{what}": sum(_count(reader, what) for reader in readers) for what in ("bad", "skipped")}
    return SetContents(
        kind=SetKind.COMBINED,
        dataset=SetKind.COMBINED,
        part="",
        variant=first.variant,
        blobs=blobs,
        indices={name: shards.index(readers, name) for name in blobs},
        names=list(itertools.chain.from_iterable(names)),
        shards=shards.specs,
        arrays=arrays,
        classes=classes,
        fields={name: spec for name, spec in first.fields.items() if all(m.fields[name] == spec for m in manifests)},
        default_target=first.default_target,
        source="records",
        raw_files=tuple(dict.fromkeys(raw for manifest in manifests for raw in manifest.raw_files)),
        bad=dict(itertools.islice(bad.items(), MOST_NAMED)),
        skipped=dict(itertools.islice(skipped.items(), MOST_NAMED)),
        metadata={name: count for name, count in counts.items() if count > MOST_NAMED},
        marks={
            name: np.frombuffer(b"".join(reader.marks(name) for reader in readers), np.uint8)
            for name, blob in blobs.items()
            if blob.encoding == "image"
        },
    )


def _joined(readers: Sequence[RecordReader], name: str, numbers: Sequence[Numbers]) -> AnyArray:
    """Return an array field of all sets; classes with their new numbers; negative ones, which mean no class, stay."""
    columns = [reader.array(name) for reader in readers]
    if name == readers[0].manifest.label_field and any(each is not None for each in numbers):
        for place, (labels, new) in enumerate(zip(columns, numbers, strict=True)):
            columns[place] = old = labels.astype(np.int64)
            if len(old) and new is not None:
                if old.max() >= len(new):
                    what = f"a record has the class {old.max()}, and there are only {len(new)} classes"
                    raise SourceError(f"{readers[place].path}: {what}.")
                columns[place] = np.where(old < 0, old, np.array([*new, -1])[np.maximum(old, -1)])
    return np.concatenate(columns)


def _distinct_names(readers: Sequence[RecordReader]) -> list[list[str]]:
    """Return the names of each set's records; a name that several sets have gets its set's name as prefix."""
    names = [list(reader.names) for reader in readers]
    taken = set().union(*names)
    if len(readers) == 1 or len(taken) == sum(map(len, names)):
        return names
    counts = Counter(itertools.chain.from_iterable(map(set, names)))
    shared = {name for name, count in counts.items() if count > 1}
    stems: Counter[str] = Counter()
    for place, reader in enumerate(readers):
        stem = reader.path.name.removesuffix(ENDING) or "records"
        stems[stem] += 1
        prefix = stem if stems[stem] == 1 else f"{stem}-{stems[stem]}"
        new_names = {}
        for name in sorted(shared.intersection(names[place])):
            new = f"{prefix}/{name.lstrip('/')}"
            while new in taken:
                new = f"{prefix}/{new}"
            taken.add(new)
            new_names[name] = new
        names[place] = [new_names.get(name, name) for name in names[place]]
    return names


def _bad(reader: RecordReader, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the images that no decoder recognised, under their new names, with the reasons."""
    bad = reader.manifest.bad
    now = dict(zip(reader.names, names, strict=True)) if bad else {}
    return [(now.get(name, name), why) for name, why in bad.items()]


def _count(reader: RecordReader, what: str) -> int:
    """Return how many images were bad, or skipped: a manifest names 1,000 and notes the number of more."""
    noted = reader.manifest.metadata.get(f"num_{what}")
    return noted if isinstance(noted, int) else len(getattr(reader.manifest, what))
