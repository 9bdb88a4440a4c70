"""`subset`: select records of a set into a new set, or samples of an open dataset without copying."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from recordzoo.combining.making import make_combined
from recordzoo.errors import ArgumentError
from recordzoo.preparing import Options, OwnOptions
from recordzoo.preview.labels import class_numbers
from recordzoo.recipes.from_sets.part import Choice, SetPart, checked_indices
from recordzoo.records.reader import RecordReader


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
    **options: Unpack[OwnOptions],
) -> Path: ...
def subset(
    records: Any,
    *,
    classes: Sequence[str | int] | None = None,
    indices: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    split: str | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[OwnOptions],
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
        **options: See `OwnOptions`; only with `output`.

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
    wanted = Options.of(options, "subset()", OwnOptions)
    if classes is None and indices is None and split is None:
        raise ArgumentError("Nothing is chosen: pass classes, indices or split.")
    if isinstance(classes, str):
        raise ArgumentError(f"Argument classes is {classes!r}; it must be a list of names.")
    if output is None:
        from recordzoo.combining.view import view  # imports torch

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
    part = SetPart(reader, Choice(split, None if indices is None else checked_indices(indices), labels))
    if not len(part.positions):
        raise ArgumentError(f"No record of {reader.path} is left by what is chosen. Nothing was made.")
    return make_combined([part], output, wanted)
