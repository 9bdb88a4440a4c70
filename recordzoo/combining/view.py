"""Some samples of an open dataset, without copying: the same dataset with another selection."""

import copy
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Subset

from recordzoo import zoo
from recordzoo.base.meant import no_split
from recordzoo.base.text import name_first
from recordzoo.combining.choice import checked_indices, new_numbers, refuse_repeated, taken
from recordzoo.errors import ArgumentError
from recordzoo.families.base import ZooDataset
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.selection import Selection
from recordzoo.records.labels import class_numbers


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
