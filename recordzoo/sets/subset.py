"""`subset`: select records of a set into a new set, or samples of an open dataset without copying."""

import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, counted, no_split
from recordzoo.errors import ArgumentError
from recordzoo.preparing.options import NewOptions, Options
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import Source
from recordzoo.recipes.recipe import Stored, Table
from recordzoo.recipes.variant import SetRecipe, SetSource
from recordzoo.records.manifest import BlobSpec, SetKind
from recordzoo.records.reader import Labels, RecordReader, class_numbers
from recordzoo.sets.merge import is_made, new_metadata, new_place, said_of

Indices = Sequence[int] | NDArray[np.integer[Any]]


# Any: a record set or a dataset; a path or a dataset.
def subset(
    records: Any,
    *,
    classes: Sequence[str | int] | None = None,
    indices: Indices | None = None,
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
    places = None if indices is None else _checked_indices(indices)
    if output is None:
        if options:
            raise ArgumentError(f"Argument {next(iter(options))} is for a new record set: pass output, too.")
        return _view(records, classes, places, split)
    if not isinstance(records, str | os.PathLike):
        raise ArgumentError(
            f"Argument records is {type(records).__name__}; a new set is made of a record set: pass its path "
            "(dataset.records_path)."
        )
    reader = RecordReader(records)
    labels = None if classes is None else class_numbers(reader, classes)
    recipe = SubsetRecipe(reader, split, places, labels, new_place(output, [reader]), wanted.layout)
    is_made(recipe.output, [reader], recipe.made_of)  # raises if another set is there
    ensure(recipe, recipe.output.parent, dataclasses.replace(wanted, prepare=True, records_dir=recipe.output))
    is_made(recipe.output, [reader], recipe.made_of)  # another process may have published something else first
    return recipe.output


def _checked_indices(indices: Indices) -> NDArray[np.int64]:
    """Return indices as int64 [n]."""
    found = np.asarray(indices)
    if not found.size:
        found = found.astype(np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ArgumentError("Argument indices must be a list of whole numbers, or an array with one dimension of them.")
    return found.astype(np.int64)


def _taken(positions: NDArray[np.int64], indices: NDArray[np.int64], extent: str) -> NDArray[np.int64]:
    """Return the positions at some indices; the error for an index out of range says `extent`."""
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(positions):
        bad = int(indices.min() if indices.min() < 0 else indices.max())
        raise ArgumentError(f"Index {bad:,} is out of range: {extent}.")
    return positions[indices]


def _refuse_repeated(what: str, numbers: Sequence[int] | NDArray[np.int64]) -> None:
    """Refuse numbers of which one is given twice."""
    found, counts = np.unique(np.asarray(numbers, np.int64), return_counts=True)
    if (counts > 1).any():
        raise ArgumentError(f"The {what} {found[counts > 1][0]} is given twice; a record set holds a record once.")


def _new_numbers(labels: Sequence[int]) -> NDArray[np.int64]:
    """Return the new number of each class if only some are taken, in this order: -1 for the others."""
    found = np.full(max(labels) + 1, -1, np.int64)
    found[list(labels)] = np.arange(len(labels))
    return found


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
        ArgumentError: No record is chosen, or there is no such split or index.
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
        self.fields = {name: BlobSpec(blob.encoding, None, blob.dtype) for name, blob in manifest.blobs.items()}
        self.labels, self.classes = labels, manifest.classes
        if split is not None and split not in manifest.splits:
            raise no_split(reader.path, split, manifest.splits)
        positions = np.array(reader.split(split or ""), np.int64)
        said: dict[str, JSON] = {} if split is None else {"split": split}
        if indices is not None:
            where = f"split {split!r} of {reader.path}" if split else str(reader.path)
            positions = _taken(positions, indices, f"{where} has {counted(len(positions), 'record')}")
            _refuse_repeated("index", indices)
            digest = hashlib.sha256(indices.astype("<i8").tobytes()).hexdigest()
            said["indices"] = {"count": len(indices), "digest": digest}
        if labels is not None and manifest.label_field is not None:  # it has one: `class_numbers` found the labels
            _refuse_repeated("class", labels)
            positions = positions[np.isin(reader.array(manifest.label_field)[positions], labels)]
            said["labels"] = list(labels)
            self.classes = self.classes and tuple(self.classes[label] for label in labels)
        if not len(positions):
            raise ArgumentError(f"No record of {reader.path} is left by what is chosen. Nothing was made.")
        self.positions = positions
        chosen = {"records": len(positions), **said}
        self.made_of: dict[str, JSON] = {"sets": [said_of(reader, chosen=chosen)], "classes": "equal"}
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
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        arrays, label = dict(table.arrays), self.reader.manifest.label_field
        if self.labels is not None and label is not None:
            arrays[label] = _new_numbers(self.labels)[arrays[label]]
        return dataclasses.replace(table, arrays=arrays, classes=self.classes, metadata=self.metadata)


def _view(
    records: Any, classes: Sequence[str | int] | None, indices: NDArray[np.int64] | None, split: str | None
) -> Any:
    """Return the chosen samples of a dataset, or of a record set."""
    from torch.utils.data import Subset  # takes a second, and a new set needs none

    from recordzoo import zoo
    from recordzoo.families.base import ZooDataset
    from recordzoo.families.folders import ClassFolderDataset

    dataset = zoo.open(records) if isinstance(records, str | os.PathLike) else records
    if not isinstance(dataset, ZooDataset):
        raise ArgumentError(
            f"Argument records is {type(dataset).__name__}; it must be a record set's path, or a dataset of recordzoo. "
            "Others have torch.utils.data.Subset."
        )
    items, selection = dataset._ITEMS, dataset._selection
    if hasattr(type(dataset), items) and not dataset._is_as_opened(items):
        raise ArgumentError("The samples of the dataset were changed. Choose from a new one, then change those.")
    # Datasets other than class folders, or with a __getitem__ of their own, may use more than the selection.
    is_plain = isinstance(dataset, ClassFolderDataset) and not dataset._label_problem(ClassFolderDataset, items)
    if classes is not None and not (is_plain and selection.has_labels):
        raise ArgumentError(
            f"{type(dataset).__name__} has other samples than an image and a class, so its classes cannot be numbered "
            "anew. Pass indices; or a record set's path and output, to store a new one."
        )
    chosen = np.arange(len(selection)) if split is None else _in_split(selection, split)
    if indices is not None:
        chosen = _taken(chosen, indices, f"there are {len(chosen):,} samples")
    labels = None
    if classes is not None:
        labels = _numbers(dataset, classes)
        _refuse_repeated("class", labels)
        chosen = chosen[np.isin(selection.targets(chosen), labels)]
    if not len(chosen):
        raise ArgumentError(f"No sample of {selection.reader.path} is left by what is chosen.")
    if is_plain:
        return _twin(dataset, chosen, labels)
    shown: Any = dataset  # torchvision's class makes it a Dataset
    return Subset(shown, chosen.tolist())


# Any, here and below: a `Selection` and a `ZooDataset`, which import torch.
def _twin(dataset: Any, indices: NDArray[np.int64], labels: tuple[int, ...] | None) -> Any:
    """Return a copy of a dataset of class folders that shows some of its samples; their classes are renumbered."""
    from recordzoo.families.selection import Selection

    selection, twin = dataset._selection, copy.copy(dataset)
    twin._made = {}  # its derived lists are made again on access
    targets = None
    if labels is not None:
        targets, names = _new_numbers(labels)[selection.targets(indices)], dataset.classes
        twin.classes = [names[label] if label < len(names) else str(label) for label in labels]
        twin.class_to_idx = {name: label for label, name in enumerate(twin.classes)}
    elif selection.has_labels and selection._given_targets is not None:
        targets = selection.targets(indices)
    positions = selection.positions(indices)
    kind = Selection if labels is not None else type(selection)
    twin._show(kind(selection.reader, positions=positions, targets=targets, column=selection.column))
    return twin


def _in_split(selection: Any, split: str) -> NDArray[np.int64]:
    """Return a dataset's indices in a split, in the split's order if the dataset shows all records."""
    reader = selection.reader
    if split not in reader.manifest.splits:
        raise no_split(reader.path, split, reader.manifest.splits)
    index_of = np.full(len(reader), -1, np.int64)
    index_of[selection.all_positions()] = np.arange(len(selection))
    found: NDArray[np.int64] = index_of[reader.split(split)]
    return found[found >= 0]


def _numbers(dataset: Any, classes: Sequence[str | int]) -> tuple[int, ...]:
    """Return the numbers of classes as the dataset shows them: a view or another target may renumber them."""
    selection = dataset._selection
    if "classes" not in vars(dataset) and selection.column == selection.reader.manifest.label_field:
        return class_numbers(selection.reader, classes)
    return Labels("", np.arange(len(dataset.classes)), dataset.classes).numbers_of(classes)
