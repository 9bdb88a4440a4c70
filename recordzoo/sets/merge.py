"""`merge`: the records of several sets as one: `link` hard-links or copies their shards, and writes the arrays."""

import dataclasses
import functools
import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import behind_links, hash_of, link_or_copy, volume
from recordzoo.base.process import crash_point
from recordzoo.base.progress import Progress, default_progress, format_bytes
from recordzoo.base.text import JSON, name_first
from recordzoo.errors import ArgumentError, CorruptRecordError, OtherSourceError, RecordZooError, SourceError
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.assemble import MOST_NAMED
from recordzoo.preparing.publish import ANOTHER_PATH, Build, Output, check_place, generation, publishing
from recordzoo.recipes.variant import shapes_of
from recordzoo.records.arrays import AnyArray
from recordzoo.records.manifest import (
    ENDING,
    NO_SHARD,
    SPLIT_PATTERN,
    VERSION,
    BlobSpec,
    Manifest,
    SetKind,
    ShardSpec,
    shard_name,
)
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.writer import write_set

WRITER = 1
"""Part of the plan. Raise it when the same sets give other bytes."""

Numbers = Sequence[int] | None
"""The new number of each class of a set; None: all stay."""

Splits = Mapping[str, NDArray[np.int64]]
"""The positions of each split."""

_CLASSES = ("equal", "union")
_FORM = ("parts", "tensors", "pictures")  # of a sample
_NOT_KEPT = {
    *("num_bad", "num_skipped", "empty_classes", "selection", "written", "made_of"),
    *("list", "identity", "named", "samples", "origin", "kinds"),
}
"""Metadata that says where records came from; a new set has its own."""


def merge(
    sets: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    classes: Literal["equal", "union"] = "equal",
    splits: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Concatenate the records of several sets in a new record set; `recordzoo.open` opens it.

    The sets must have the same fields, encodings and variant. Splits of the same name are concatenated. A name that
    several sets have is prefixed with its set's name: ``a/0001.jpg``.

    The new set shares the shards of the sets by hard links; from another file system or a URL they are cloned or
    copied, and their hashes compared. The sets stay as they are, and the new set does not need them. The same sets
    always give the same bytes. An existing set made from these sets is left unchanged.

    Args:
        sets: The record sets: directories or URLs.
        output: The new set's directory: ``all.records``.
        classes: "equal": the sets must have the same classes. "union": classes are united by name, in order of first
            appearance, and labels are renumbered.
        splits: For sets as given in `sets`, the one split of all their records; their own splits are dropped:
            ``{"a.records": "train", "b.records": "val"}``.
        progress: Receives the progress. Default: as in `OwnOptions`.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: The sets do not fit together: the message names the field, or the classes; or an argument is
            invalid.
        CorruptRecordError: A shard that is copied is damaged; nothing is published.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at a path.
        PrepareError: The disk is full, or a process was killed; run it again.

    Examples:
        >>> import recordzoo
        >>> recordzoo.merge(["2025.records", "2026.records"], "all.records", classes="union")  # doctest: +SKIP
        PosixPath('/home/me/all.records')
    """
    if isinstance(sets, str | os.PathLike):
        raise ArgumentError(f"Argument sets is {sets!r}; it must be a list of record sets.")
    if not sets:
        raise ArgumentError("Argument sets is empty; it must name the record sets to merge.")
    if classes not in _CLASSES:
        raise ArgumentError(f"Unknown value {classes!r} for argument classes. Valid values are {_CLASSES}.")
    named = {os.fspath(path): split for path, split in (splits or {}).items()}
    given = [os.fspath(path) for path in sets]
    for path, split in named.items():
        if path not in given:
            raise ArgumentError(f"Argument splits names {path!r}, which is none of the sets.")
        if not SPLIT_PATTERN.fullmatch(split):
            raise ArgumentError(f"{split!r} is no name of a split: small letters, digits and hyphens.")
    readers = [RecordReader(path) for path in given]
    _check_alike(readers)
    names, numbers = _united_classes(readers) if classes == "union" else _equal_classes(readers)
    said: list[JSON] = []
    new_splits: dict[str, list[NDArray[np.int64]]] = {}
    start = 0
    for path, reader in zip(given, readers, strict=True):
        as_split = named.get(path)
        said.append(said_of(reader, **({"as_split": as_split} if as_split else {})))
        for name, positions in ({as_split: np.arange(len(reader))} if as_split else splits_of(reader)).items():
            new_splits.setdefault(name, []).append(positions + start)
        start += len(reader)
    joined = {name: np.concatenate(positions) for name, positions in new_splits.items()}
    made_of: dict[str, JSON] = {"sets": said, "classes": classes, "shards": "linked"}
    return link(readers, output, made_of, joined, names, numbers, progress)


def splits_of(reader: RecordReader) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split of a set."""
    return {name: np.asarray(reader.split(name), np.int64) for name in reader.manifest.splits}


def said_of(reader: RecordReader, **more: JSON) -> dict[str, JSON]:
    """Return what the manifest of a new set says of one that it is made of."""
    return {"name": reader.path.name, "digest": reader.digest, "records": len(reader), **more}


def _check_alike(readers: Sequence[RecordReader]) -> None:
    """Refuse sets whose records differ in their fields."""
    first, before = readers[0], _facts(readers[0].manifest)
    for reader in readers[1:]:
        now = _facts(reader.manifest)
        for what in dict.fromkeys([*before, *sorted(now)]):
            old, new = before.get(what, "absent"), now.get(what, "absent")
            if old == new:
                continue
            hint = ""
            if "absent" not in (old, new) and old.startswith("raw ") != new.startswith("raw "):
                name = what.removeprefix("the field ")
                hint = f"; convert it again with kinds={{{name}: 'raw'}} where it is no raw field"
            raise ArgumentError(
                f"{first.path} and {reader.path} cannot be merged: {what} is {old} in the first, {new} in the "
                f"second{hint}."
            )


def _facts(manifest: Manifest) -> dict[str, str]:
    """Describe what must be the same in all sets: variant, meaning and encoding of each field, form of the samples."""
    found = {"the variant": manifest.variant}
    for name, blob in manifest.blobs.items():
        encoding = blob.encoding
        if encoding == "raw":
            shape = manifest.arrays.get(f"{name}.shape")
            dimensions = shape.shape[1] if shape is not None else len(blob.shape or ())
            encoding = f"raw {np.dtype(blob.dtype).name} with {dimensions} dimensions"
        found[f"the field {name!r}"] = encoding
    for name in manifest.columns:
        spec = manifest.arrays[name]
        found[f"the field {name!r}"] = f"{np.dtype(spec.dtype).name} {list(spec.shape[1:])}"
    form = manifest.metadata.get("sample")
    given = form if isinstance(form, dict) else {}
    found["the form of a sample"] = json.dumps({key: given.get(key) or None for key in _FORM})
    return found


def _equal_classes(readers: Sequence[RecordReader]) -> tuple[Sequence[str] | None, list[Numbers]]:
    """Return the classes that all sets have."""
    first = readers[0].manifest.classes
    for reader in readers:
        if (classes := reader.manifest.classes) != first:
            what = f"{readers[0].path} and {reader.path} have different classes: {_difference(first, classes)}"
            hint = "" if None in (first, classes) else " Pass --classes union (classes='union') to unite them by name."
            raise ArgumentError(f"{what}.{hint}")
    return first, [None for _ in readers]


def _difference(first: Sequence[str] | None, other: Sequence[str] | None) -> str:
    if first is None or other is None:
        return "one of them has no class names"
    missing = [name for name in first if name not in other] + [name for name in other if name not in first]
    if not missing:
        return "the same names in another order"
    return f"{name_first(missing, 3)} {'is' if len(missing) == 1 else 'are'} in one of them only"


def _united_classes(readers: Sequence[RecordReader]) -> tuple[Sequence[str], list[Numbers]]:
    """Unite classes by name, in order of appearance; return them, and the new number of each class of each set."""
    united: dict[str, int] = {}
    numbers: list[Numbers] = []
    for reader in readers:
        classes = reader.manifest.classes
        if classes is None or reader.manifest.label_field is None:
            raise ArgumentError(f"{reader.path} has no class names: its classes cannot be united with others.")
        if len(set(classes)) != len(classes):
            raise ArgumentError(f"{reader.path} has two classes of one name: they cannot be united with others.")
        new = [united.setdefault(name, len(united)) for name in classes]
        numbers.append(None if new == list(range(len(new))) else new)
    return tuple(united), numbers


def link(
    readers: Sequence[RecordReader],
    output: str | os.PathLike[str],
    made_of: Mapping[str, JSON],
    splits: Splits,
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
    with publishing(Output(target, elsewhere=ANOTHER_PATH), is_ready, progress) as build:
        if build is not None:
            for reader in readers:
                RecordReader(reader.path, digest=reader.digest)  # raises if it was replaced
            build.claim({"writer": WRITER, "format": VERSION, "made_of": made_of}, _needed_bytes(readers, target))
            try:
                shards = _Shards(readers)
                shards.link(build, progress)
                _write(build.set, readers, shards, made_of, splits, classes, numbers)
            except RecordZooError:  # not a disk error: the same command would fail again
                build.remove()
                raise
    return place


def new_place(output: str | os.PathLike[str], readers: Sequence[RecordReader]) -> Path:
    """Return the directory of a new set made of others.

    Raises:
        ArgumentError: It is a URL, or one of the sets.
        PrepareError: It is occupied by something else than a record set.
    """
    if is_url(output):
        raise ArgumentError(
            f"{Url.parse(output)} is a URL; the new record set is made on this machine. Push it afterwards."
        )
    place = Path(output).expanduser().absolute()
    for reader in readers:
        if isinstance(reader.path, Path) and generation(place) == generation(reader.path) is not None:
            raise ArgumentError(f"The output {place} is one of the record sets that are read. Name another directory.")
    check_place(place, ANOTHER_PATH)
    return place


def is_made(place: Path, readers: Sequence[RecordReader], made_of: Mapping[str, JSON]) -> bool:
    """Whether the wanted set is there.

    Raises:
        OtherSourceError: Another record set is there.
    """
    if not is_record_set(place):
        return False
    if RecordReader(place).manifest.metadata.get("made_of") != made_of:
        sets = ", ".join(reader.path.name for reader in readers)
        raise OtherSourceError(
            f"{place} is there and was not made of these records of {sets}. Name another output, or delete it first.",
            path=str(place),
        )
    return True


def new_metadata(
    readers: Sequence[RecordReader], classes: Sequence[str] | None, made_of: Mapping[str, JSON], **written: JSON
) -> dict[str, JSON]:
    """Return the metadata of a new set: what is said of the records by all sets, and what it is made of.

    Args:
        written: The options of the shard layout.
    """
    manifests = [reader.manifest for reader in readers]
    dropped = _NOT_KEPT | ({"synonyms"} if any(manifest.classes != classes for manifest in manifests) else set())
    kept = {
        name: value
        for name, value in manifests[0].metadata.items()
        if name not in dropped and all(name in each.metadata and each.metadata[name] == value for each in manifests)
    }
    forms = [manifest.metadata["sample"] for manifest in manifests if "sample" in manifest.metadata]
    return {**kept, **({"sample": forms[0]} if forms else {}), "made_of": made_of, "written": written}


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
            name = reader.manifest.shards[number].name
            old, new = reader.path / name, build.set / spec.name
            fd = reader.open_file(name, spec.size_bytes)
            try:
                is_linked = link_or_copy(fd, old if isinstance(old, Path) else None, new)
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


def _write(
    folder: Path,
    readers: Sequence[RecordReader],
    shards: _Shards,
    made_of: Mapping[str, JSON],
    splits: Splits,
    classes: Sequence[str] | None,
    numbers: Sequence[Numbers],
) -> None:
    """Write the arrays and the manifest of the new set beside its shards."""
    manifests = [reader.manifest for reader in readers]
    first, names = manifests[0], _distinct_names(readers)
    arrays = {name: _joined(readers, name, numbers) for name in first.columns}
    blobs = {}
    for name, blob in first.blobs.items():
        shape = blob.shape if all(manifest.blobs[name].shape == blob.shape for manifest in manifests) else None
        blobs[name] = BlobSpec(blob.encoding, shape, blob.dtype)
        if blob.encoding == "raw" and shape is None:
            arrays[f"{name}.shape"] = np.concatenate([shapes_of(reader, name) for reader in readers])
    bad: dict[str, str] = {}  # under the new names
    for reader, new in zip(readers, names, strict=True):
        new_of = dict(zip(reader.names, new, strict=True)) if reader.manifest.bad else {}
        bad |= {new_of.get(name, name): why for name, why in reader.manifest.bad.items()}
    skipped = {name: why for manifest in manifests for name, why in manifest.skipped.items()}
    counts = {f"num_{what}": sum(manifest.count(what) for manifest in manifests) for what in ("bad", "skipped")}
    manifest = Manifest(
        kind=SetKind.COMBINED,
        dataset=SetKind.COMBINED,
        part="",
        variant=first.variant,
        blobs=blobs,
        shards=tuple(shards.specs),
        fields={name: spec for name, spec in first.fields.items() if all(m.fields[name] == spec for m in manifests)},
        default_target=first.default_target,
        source="records",
        raw_files=tuple(dict.fromkeys(raw for manifest in manifests for raw in manifest.raw_files)),
        bad=dict(itertools.islice(bad.items(), MOST_NAMED)),
        skipped=dict(itertools.islice(skipped.items(), MOST_NAMED)),
        metadata={
            **{name: count for name, count in counts.items() if count > MOST_NAMED},
            **new_metadata(readers, classes, made_of),
        },
    )
    images = [name for name, blob in blobs.items() if blob.encoding == "image"]
    write_set(
        folder,
        manifest,
        list(itertools.chain.from_iterable(names)),
        {name: shards.index(readers, name) for name in blobs},
        arrays=arrays,
        splits=splits,
        classes=classes,
        marks={name: np.frombuffer(b"".join(reader.marks(name) for reader in readers), np.uint8) for name in images},
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
    counts = Counter(itertools.chain.from_iterable(map(set, names)))
    taken = set(counts)
    stems: Counter[str] = Counter()
    for place, reader in enumerate(readers):
        stem = reader.path.name.removesuffix(ENDING) or "records"
        stems[stem] += 1
        prefix = stem if stems[stem] == 1 else f"{stem}-{stems[stem]}"
        new_names = {}
        for name in sorted(name for name in set(names[place]) if counts[name] > 1):
            new = f"{prefix}/{name.lstrip('/')}"
            while new in taken:
                new = f"{prefix}/{new}"
            taken.add(new)
            new_names[name] = new
        names[place] = [new_names.get(name, name) for name in names[place]]
    return names
