"""`subset`: select records of a set into a new set, or samples of an open dataset without copying."""

import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Subset
from typing_extensions import override

from recordzoo import zoo
from recordzoo.base.progress import Progress
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, did_you_mean, name_first, no_split
from recordzoo.errors import ArgumentError
from recordzoo.families.base import ZooDataset
from recordzoo.families.folders import ClassFolderDataset
from recordzoo.families.selection import Selection
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.job import ensure
from recordzoo.preparing.options import NewOptions, Options
from recordzoo.raw.member import Source
from recordzoo.recipes.from_sets import SetRecipe, SetSource
from recordzoo.recipes.recipe import BlobField, Stored, Table
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import ENDING
from recordzoo.records.reader import RecordReader, class_numbers
from recordzoo.sets.merge import (
    checked_indices,
    chosen,
    is_made,
    link,
    new_metadata,
    new_numbers,
    new_place,
    refuse_repeated,
    said_of,
    taken,
)

TRAIN, VAL = "train", "val"


def split(
    records: str | os.PathLike[str],
    val: float | str,
    *,
    by: str | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Divide the records of a set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val, up to rounding. The same set, share and seed give the same division. If the
    set has a split train, that split is divided and the others stay; otherwise all records without a split are divided.

    Args:
        records: The record set's directory; it stays as it is.
        val: The share of val: 0.1, or "10%".
        by: Records with the same value of this field stay together, in train or in val: a patient, a scene.
        seed: Another number gives another division.
        output: The new set's directory. Default: ``photos-split.records`` beside ``photos.records``.
        progress: Receives the progress.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: There is no such field or share; the set has a split val; or one of the splits would be empty.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at `records`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.split("photos.records", "10%")  # doctest: +SKIP
        PosixPath('/home/me/photos-split.records')
    """
    reader, share = RecordReader(records), _share(val)
    made_of: dict[str, JSON] = {
        "sets": [said_of(reader)],
        "classes": "equal",
        "shards": "linked",
        "split": {"val": share, "by": by, "seed": seed},
    }
    splits = {name: np.asarray(reader.split(name), np.int64) for name in reader.manifest.splits}
    splits |= _divided(reader, share, by, seed)
    place = split_place(records) if output is None else output
    return link([reader], place, made_of, splits, reader.manifest.classes, [None], progress)


def split_place(records: str | os.PathLike[str]) -> Path:
    """Return the default path of the divided set: beside the original; of one at a URL in the current directory."""
    path = Path(Url.parse(records).name if is_url(records) else records).expanduser().absolute()
    return path.with_name(f"{path.name.removesuffix(ENDING)}-split{ENDING}")


def _share(val: float | str) -> float:
    """Read a share: 0.1, "0.1" or "10%"."""
    text = str(val).strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ArgumentError(f"Argument val (--val) is {val!r}; it must be a share, such as 10% or 0.1.")
    return share


def _divided(reader: RecordReader, share: float, by: str | None, seed: int) -> dict[str, NDArray[np.int64]]:
    """Return the splits train and val."""
    pool = _pool(reader)
    column = reader.manifest.label_field
    labels = np.zeros(len(pool), np.int64) if column is None else reader.array(column)[pool].astype(np.int64)
    draws = np.random.PCG64(seed % (1 << 64)).random_raw(len(pool))  # the same with every version of NumPy
    if by is None:
        is_val = _stratified(labels, draws, share)
    else:
        is_val = _grouped(labels, _groups(reader, by, pool), draws, share)
    if not is_val.any() or is_val.all():
        raise ArgumentError(
            f"{len(pool):,} records of {reader.path} cannot be divided with {share:.2%} for val: one of the two "
            "splits would be empty."
        )
    return {TRAIN: pool[~is_val], VAL: pool[is_val]}


def _pool(reader: RecordReader) -> NDArray[np.int64]:
    """Return the positions that are divided: the split train; without one, those that are in no split."""
    splits = reader.manifest.splits
    if VAL in splits:
        raise ArgumentError(f"{reader.path} has a split {VAL} already: {VAL} {splits[VAL]:,}.")
    if TRAIN in splits:
        return np.sort(reader.split(TRAIN))
    is_free = np.ones(len(reader), bool)
    for name in splits:
        is_free[reader.split(name)] = False
    return np.flatnonzero(is_free)


def _stratified(labels: NDArray[np.int64], draws: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Choose the same share of each class; the remainder goes to the classes that lack most."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    exact = counts * share
    quota = np.floor(exact).astype(np.int64)
    missing = round(len(labels) * share) - int(quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:missing]] += 1
    order = np.lexsort((draws, classes))
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(labels), bool)
    chosen[order] = rank < quota[classes[order]]
    return chosen


def _grouped(
    labels: NDArray[np.int64], groups: NDArray[np.int64], draws: NDArray[np.uint64], share: float
) -> NDArray[np.bool_]:
    """Choose whole groups, large ones first, while each moves the classes' counts closer to their share."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    wanted = counts * share
    sizes = np.bincount(groups)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    is_chosen = np.zeros(len(sizes), bool)
    for group in np.lexsort((draws[: len(sizes)], -sizes)).tolist():
        found, times = np.unique(classes[members[group]], return_counts=True)
        if (times * times).sum() < 2 * (times * wanted[found]).sum():
            wanted[found] -= times
            is_chosen[group] = True
    return is_chosen[groups]


def _groups(reader: RecordReader, field: str, pool: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the values of a field, from 0, in the order of the values."""
    if field in reader.columns:
        values = reader.array(field)[pool]
        return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    if field not in reader.manifest.blobs:
        fields = [*reader.manifest.fields]
        raise ArgumentError(
            f"{reader.path} has no field {field!r}; it has {', '.join(fields)}.{did_you_mean(field, fields)}"
        )
    there = [reader.has(field, place) for place in pool.tolist()]
    data = [reader.read(field, place) if has else b"" for place, has in zip(pool.tolist(), there, strict=True)]
    numbers = {key: number for number, key in enumerate(sorted(set(zip(there, data, strict=True))))}
    return np.array([numbers[key] for key in zip(there, data, strict=True)], np.int64)


def view(
    records: Any,
    classes: Sequence[str | int] | None,
    indices: Sequence[int] | NDArray[np.integer[Any]] | None,
    split: str | None,
) -> Any:
    """Return the chosen samples of a dataset, or of a record set; the arguments are those of `recordzoo.subset`."""
    dataset = zoo.open(records) if isinstance(records, str | os.PathLike) else records
    if not isinstance(dataset, ZooDataset):
        raise ArgumentError(
            f"Argument records is {type(dataset).__name__}; it must be a record set's path, or a dataset of recordzoo. "
            "Others have torch.utils.data.Subset."
        )
    items = dataset._ITEMS
    if hasattr(type(dataset), items) and not dataset._is_as_opened(items):
        raise ArgumentError("The samples of the dataset were changed. Choose from a new one, then change those.")
    # Datasets other than class folders, or with a __getitem__ of their own, may use more than the selection.
    is_plain = isinstance(dataset, ClassFolderDataset) and not dataset._label_problem(ClassFolderDataset, items)
    if classes is not None and not (is_plain and dataset._selection.has_labels):
        raise ArgumentError(
            f"{type(dataset).__name__} has other samples than an image and a class, so its classes cannot be numbered "
            "anew. Pass indices; or a record set's path and output, to store a new one."
        )
    selection = dataset._selection
    chosen = _in_split(selection, split)
    if indices is not None:
        chosen = taken(chosen, checked_indices(indices), f"there are {len(chosen):,} samples")
    labels = None if classes is None else _numbers(dataset, classes)
    if labels is not None:
        refuse_repeated("class", labels)
        chosen = chosen[np.isin(selection.targets(chosen), labels)]
    if not len(chosen):
        raise ArgumentError(f"No sample of {selection.reader.path} is left by what is chosen.")
    if is_plain:
        return _shown(dataset, chosen, labels)
    shown: Any = dataset  # torchvision's class makes it a Dataset
    return Subset(shown, chosen.tolist())


def _numbers(dataset: Any, classes: Sequence[str | int]) -> tuple[int, ...]:
    """Return the numbers of classes as the dataset shows them: a view or another target may renumber them."""
    selection = dataset._selection
    if "classes" not in vars(dataset) and selection.column == selection.reader.manifest.label_field:
        return class_numbers(selection.reader, classes)
    names = dataset.classes
    found = []
    for given in classes:
        number = names.index(given) if given in names else given
        if not isinstance(number, int) or not 0 <= number < len(names):
            raise ArgumentError(f"There is no class {given!r} in the subset; it has {name_first(names, 5)}.")
        found.append(number)
    return tuple(found)


def _in_split(selection: Selection, split: str | None) -> NDArray[np.int64]:
    """Return a dataset's indices in a split, in the split's order if the dataset shows all records."""
    everything = selection.all_positions()
    if split is None:
        return np.arange(len(everything), dtype=np.int64)
    reader = selection.reader
    if split not in reader.manifest.splits:
        raise no_split(reader.path, split, reader.manifest.splits)
    index_of = np.full(len(reader), -1, np.int64)
    index_of[everything] = np.arange(len(everything))
    found = index_of[reader.split(split)]
    return found[found >= 0]


def _shown(dataset: Any, chosen: NDArray[np.int64], labels: tuple[int, ...] | None) -> Any:
    """Return a copy of a dataset that shows other samples; its derived lists are rebuilt on access."""
    twin: Any = copy.copy(dataset)
    selection = dataset._selection
    positions = selection.positions(chosen)
    twin._made = {}
    if labels is None:
        targets = selection.targets(chosen) if selection.has_labels and selection._given_targets is not None else None
        kind = type(selection)
        twin._show(kind(selection.reader, positions=positions, targets=targets, column=selection.column))
        return twin
    targets = new_numbers(labels)[selection.targets(chosen)]
    twin._show(Selection(selection.reader, positions=positions, targets=targets, column=selection.column))
    names = dataset.classes
    twin.classes = [names[label] if label < len(names) else str(label) for label in labels]
    twin.class_to_idx = {name: label for label, name in enumerate(twin.classes)}
    return twin


@overload
def subset(
    records: Any,
    *,
    classes: Sequence[str | int] | None = None,
    indices: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    split: str | None = None,
    output: None = None,
) -> Any: ...
@overload
def subset(
    records: str | os.PathLike[str],
    *,
    classes: Sequence[str | int] | None = None,
    indices: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    split: str | None = None,
    output: str | os.PathLike[str],
    **options: Unpack[NewOptions],
) -> Path: ...
def subset(
    records: Any,
    *,
    classes: Sequence[str | int] | None = None,
    indices: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    split: str | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[NewOptions],
) -> Any:
    """Select the records that match `split`, `indices` and `classes`; at least one of them is required.

    Without `output` nothing is copied: the result is a dataset that shows only these samples, with the transforms of
    the given one. `RecordLoader` reads it as fast as the given one. With `output` a new record set is stored: values
    are copied unchanged, in parallel, and their CRC-32s compared; an interrupted call can be resumed.

    With `classes`, the result has only these classes, numbered from 0 in the given order; otherwise the classes and
    their numbers stay. With `output`, splits keep their selected records.

    Args:
        records: A record set's directory or URL. Without `output` also a dataset of this package.
        classes: Only records of these classes: names, or numbers.
        indices: Only records at these places of the split (of a dataset: of its samples), in this order.
        split: Only records of this split, in its order.
        output: The new set's directory: ``some.records``. Default: no new set.
        **options: See `NewOptions`; only with `output`.

    Returns:
        With `output`, its path. Without: a dataset of the same class; for datasets other than class folders, which do
        not take `classes`, a ``torch.utils.data.Subset``.

    Raises:
        ArgumentError: There is no such class, index or split; no record is selected; or no criterion is given.
        CorruptRecordError: A value is damaged; nothing is published.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at `records`.
        PrepareError: The disk is full, or a process was killed; finished work is kept.

    Examples:
        >>> import recordzoo
        >>> pets = recordzoo.subset("photos.records", classes=["cat", "dog"])  # doctest: +SKIP
        >>> pets.class_to_idx  # doctest: +SKIP
        {'cat': 0, 'dog': 1}
        >>> recordzoo.subset("photos.records", split="train", output="train.records")  # doctest: +SKIP
        PosixPath('/home/me/train.records')
    """
    wanted = Options.of(options, "subset()", NewOptions)
    if classes is None and indices is None and split is None:
        raise ArgumentError("Nothing is chosen: pass classes, indices or split.")
    if isinstance(classes, str):
        raise ArgumentError(f"Argument classes is {classes!r}; it must be a list of names.")
    if output is None:
        pass  # imports torch

        if options:
            raise ArgumentError(f"Argument {next(iter(options))} is for a new record set: pass output, too.")
        return view(records, classes, indices, split)
    if not isinstance(records, str | os.PathLike):
        raise ArgumentError(
            f"Argument records is {type(records).__name__}; a new set is made of a record set: pass its path "
            "(dataset.records_path)."
        )
    reader = RecordReader(records)
    labels = None if classes is None else class_numbers(reader, classes)
    taken = None if indices is None else checked_indices(indices)
    recipe = SubsetRecipe(reader, split, taken, labels, new_place(output, [reader]), wanted.layout)
    is_made(recipe.output, [reader], recipe.made_of)  # raises if another set is there
    ensure(recipe, recipe.output.parent, dataclasses.replace(wanted, prepare=True, records_dir=recipe.output))
    is_made(recipe.output, [reader], recipe.made_of)  # another process may have published something else first
    return recipe.output


class SubsetRecipe(SetRecipe):
    """Some records of a record set. A pickled copy has no positions: units have the values' own.

    Args:
        reader: The set.
        split: Only records of this split, in its order.
        indices: Only records at these places of the split.
        labels: Only records of these classes, which are numbered anew in this order.
        output: The new set's directory.
        layout: The requested number or size of shards; the manifest keeps it.

    Raises:
        ArgumentError: No record is chosen, or there is no such split, index or class.
    """

    kind = dataset = SetKind.COMBINED
    part = ""
    origin = "records"

    def __init__(
        self,
        reader: RecordReader,
        split: str | None,
        indices: NDArray[np.int64] | None,
        labels: tuple[int, ...] | None,
        output: Path,
        layout: Mapping[str, JSON],
    ) -> None:
        manifest = reader.manifest
        self.reader, self.output, self.variant = reader, output, manifest.variant
        self.made_from = manifest.raw_files
        self.fields = {name: BlobField(blob.encoding, None, blob.dtype) for name, blob in manifest.blobs.items()}
        self.positions = chosen(reader, split, indices, labels)
        self.labels, self.classes = labels, manifest.classes
        said: dict[str, JSON] = {"records": len(self.positions)}
        if split is not None:
            said["split"] = split
        if indices is not None:
            refuse_repeated("index", indices)
            digest = hashlib.sha256(indices.astype("<i8").tobytes()).hexdigest()
            said["indices"] = {"count": len(indices), "digest": digest}
        if labels is not None:
            refuse_repeated("class", labels)
            said["labels"] = list(labels)
            self.classes = self.classes and tuple(self.classes[label] for label in labels)
        self.made_of: dict[str, JSON] = {"sets": [said_of(reader, chosen=said)], "classes": "equal"}
        self.metadata = new_metadata([reader], self.classes, self.made_of, **layout)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "positions": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"made_of": self.made_of}

    @override
    def target(self, root: Path) -> Path:
        return self.output

    @override
    def title(self, root: Path) -> str:
        return self.output.name

    @override
    def command(self, root: Path) -> str:
        return command("subset", self.reader.path, "--output", self.output)

    def find(self, root: Path) -> Source:
        """See `Recipe`: the record set, which must be the same."""
        digest = hashlib.sha256(json.dumps(self.made_of, sort_keys=True).encode()).hexdigest()
        again = RecordReader(self.reader.path, digest=self.reader.digest)
        self.source = SetSource(again, digest, self.positions)
        return self.source

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.reader.path.name]

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        arrays, label = dict(table.arrays), self.reader.manifest.label_field
        if self.labels is not None and label is not None:
            arrays[label] = new_numbers(self.labels)[arrays[label]]
        return dataclasses.replace(table, arrays=arrays, classes=self.classes, metadata=self.metadata)
