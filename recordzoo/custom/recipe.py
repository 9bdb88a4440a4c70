"""The user's samples → records: encoded one after another, with their numbers in side files."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.types import JSON
from recordzoo.custom.plans import Encoded
from recordzoo.custom.schema import Schema
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.base import Blob, BlobField, Recipe, Sidecar, Stored, Table
from recordzoo.records.kinds import SetKind
from recordzoo.system.npy import arrays_of

BLOCK = 256
"""The number of samples that share a side file."""

_NUMBER = re.compile(r"\d+")


class Rows:
    """Collects the numbers of samples, and writes a side file for each `BLOCK` of samples."""

    def __init__(self) -> None:
        self._first = 0
        self._rows: list[Mapping[str, NDArray[Any]]] = []  # Any: of any dtype

    def add(self, position: int, encoded: Encoded) -> Iterator[Sidecar]:
        """Add the numbers of the next sample."""
        if not self._rows:
            self._first = position
        self._rows.append(encoded.row)
        if len(self._rows) >= BLOCK:
            yield from self.rest()

    def rest(self) -> Iterator[Sidecar]:
        """Return the side file of the remaining rows."""
        if self._rows and self._rows[0]:
            yield packed(self._first, {name: np.stack([row[name] for row in self._rows]) for name in self._rows[0]})
        self._rows = []


# Any: numbers of any dtype.
def packed(first: int, columns: Mapping[str, NDArray[Any]]) -> Sidecar:
    """Return the side file of some columns; their first row belongs to the sample at `first`."""
    buffer = io.BytesIO()
    named = {f".{name}": column for name, column in columns.items()}
    np.savez(buffer, **named)  # type: ignore[arg-type]  # its own allow_pickle; "." before names such as that
    return Sidecar(f"{first:012d}", buffer.getvalue())


class SchemaRecipe(Recipe):
    """The recipe for records of one schema, in the order in which they come.

    Args:
        schema: Their fields.
        count: How many there are.
        classes: Class names, if there are.
        metadata: JSON to store in the manifest.
        output: The record set's directory.
        width: How many digits the number in a name has.
    """

    kind = SetKind.OWN
    dataset: str = SetKind.OWN
    part = ""
    raw_files: tuple[RemoteFile, ...] = ()

    def __init__(
        self,
        schema: Schema,
        count: int,
        classes: Sequence[str] | None,
        metadata: Mapping[str, JSON],
        output: Path,
        width: int,
    ) -> None:
        self.schema = schema
        self.count = count
        self.classes = None if classes is None else tuple(classes)
        self.metadata = metadata
        self.output = output
        self.width = width
        self.splits: Mapping[str, NDArray[np.int64]] = {}
        self.fields: Mapping[str, BlobField] = {
            plan.name: plan.blob_field for plan in schema.fields.values() if plan.blob_field is not None
        }

    @property
    def set_name(self) -> str:
        """See `Recipe`: the user's name for it."""
        return self.output.name

    @override
    def target(self, root: Path) -> Path:
        return self.output

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: there is nothing to find."""
        return None

    @override
    def looked_for(self, root: Path) -> list[str]:
        return []

    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """See `Recipe`: nothing comes from members."""
        yield from ()

    def blobs(self, position: int, encoded: Encoded) -> Iterator[Blob]:
        """Give a sample's blobs, each named by its position; an image with the ending of its file."""
        for plan, data, ending in encoded.blobs:
            yield Blob(plan.name, f"{position:0{self.width}d}{ending}", data, checked=plan.kind == "image")

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        columns = columns_of(sidecars)
        skipped = {_position(key) for keys in stored.skipped.values() for key in keys}
        kept = [position for position in range(self.count) if position not in skipped]
        key_of = {name: {_position(key): key for key in stored.keys[name]} for name in self.fields}
        shapes = {name: columns.pop(f"{name}.shape")[kept] for name in self.fields if f"{name}.shape" in columns}
        return Table(
            names=self.names(stored, kept),
            keys={name: [keys.get(position) for position in kept] for name, keys in key_of.items()},
            arrays={name: column[kept] for name, column in columns.items()},
            splits=self.splits,
            classes=self.classes,
            metadata={**self.metadata, "sample": self.schema.to_json()},
            shapes=shapes,
        )

    def names(self, stored: Stored, kept: Sequence[int]) -> Sequence[str]:
        """Name the records: by their position, with the ending of the first field that holds images."""
        for name, field in self.fields.items():
            if field.encoding == "image":
                keys = {_position(key): key for key in stored.keys[name]}
                return [keys.get(position, f"{position:0{self.width}d}") for position in kept]
        return [f"{position:0{self.width}d}" for position in kept]


def _position(key: str) -> int:
    match = _NUMBER.match(key)
    assert match is not None, key
    return int(match[0])


# Any: of any dtype.
def columns_of(sidecars: Mapping[str, bytes]) -> dict[str, NDArray[Any]]:
    """Put the numbers of side files together, in the order of the files' names: an array for each field."""
    blocks = [arrays_of(sidecars[name]) for name in sorted(sidecars)]
    return {name[1:]: np.concatenate([block[name] for block in blocks]) for name in blocks[0]} if blocks else {}
