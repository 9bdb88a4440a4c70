"""`subset`: select records of a set into a new set, or samples of an open dataset without copying."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.combining.choice import checked_indices, chosen, new_numbers, refuse_repeated
from recordzoo.combining.new_set import is_made, new_metadata, new_place, said_of
from recordzoo.errors import ArgumentError
from recordzoo.preparing import NewOptions, Options, ensure
from recordzoo.raw.member import Source
from recordzoo.recipes.base import BlobField, Stored, Table
from recordzoo.recipes.from_sets.source import SetRecipe, SetSource
from recordzoo.records.kinds import SetKind
from recordzoo.records.labels import class_numbers
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
