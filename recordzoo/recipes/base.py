"""`Recipe`: the part of a preparation that differs between datasets.

A recipe is small, immutable and pickles (worker processes get a copy). It answers three questions: where its raw data
is (`find`), what to store of each member (`extract`) and, at the end, the order and the targets of the records
(`build_table`).
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.records.kinds import FieldSpec, SetKind
from recordzoo.records.manifest import ORIGINAL, Manifest, RawFile
from recordzoo.records.shard import stored_bytes

ABSENT = -1
"""In a table: the position has no blob in this field."""

INCOMPLETE = "The data is not complete: extract or download it again."
"""Advice if something is missing in the raw data."""

NO_TARGET = -1
"""The target of an image without label."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes to store as one value of a blob field.

    Attributes:
        field: The field's name: "image", "mask", "annotation".
        key: Its unique name in the field; `Recipe.build_table` refers to blobs by it.
        data: The bytes, stored unchanged.
        checked: Whether to check that it has an image's header; False if it need not be an image.
        problem: Why this image is bad, if the recipe has found out.
        name: Its name in messages, if not the key.
    """

    field: str
    key: str
    data: bytes
    checked: bool = True
    problem: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A small file that is needed to arrange the records, but is not a record: a list of labels or splits."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BlobField:
    """The encoding of a blob field.

    Attributes:
        encoding: "image" (an encoded image file), "raw" (numbers in C order), "json" or "bytes".
        shape: For "raw", the shape of every value, [H, W, C] for pixels; None if the table has the shapes.
        dtype: For "raw", the numbers' type in NumPy's notation, little-endian.
    """

    encoding: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class Stored:
    """The stored values.

    Attributes:
        keys: The keys of each blob field in the order of writing, each once. For `Recipe.main_field`, followed by the
            keys of broken images that were skipped on request.
        skipped: The keys of skipped images, by blob field. Their positions are skipped too.
    """

    keys: Mapping[str, Sequence[str]]
    skipped: Mapping[str, Set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """The description of N records, which `recordzoo.preparing.assemble` turns into a record set.

    Attributes:
        names: N unique names in canonical order, as in `samples`, relative to the dataset's folder.
        keys: The keys of each blob field's N blobs, None for no blob. Default for `Recipe.main_field`: the names.
        arrays: Array fields; the first dimension is N.
        splits: Names or int64 positions of each split, in the split's own order. Empty: no splits.
        classes: Class names in label order, if the dataset has classes.
        fields: The meaning of fields whose storage does not show it: boxes, masks, names of other classes.
        default_target: The field of the default target. Default: "target" or "label".
        metadata: Further small values that opening needs; JSON.
        shapes: Shapes of raw blob fields for which the recipe has none: uint32 [N, dimensions].
        skipped: Earlier skipped members with the reasons, from the source record set.
    """

    names: Sequence[str]
    keys: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    # Any: any numeric dtype.
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    splits: Mapping[str, Sequence[str] | NDArray[np.int64]] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    fields: Mapping[str, FieldSpec] = field(default_factory=dict)
    default_target: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    shapes: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def with_splits(self, splits: Mapping[str, Sequence[str] | NDArray[np.int64]]) -> "Table":
        """Return the table with more splits."""
        return dataclasses.replace(self, splits={**self.splits, **splits})


def present(keys: Iterable[str], stored: Iterable[str]) -> list[str | None]:
    """Return the keys for a `Table`, with None in place of keys that are not stored."""
    there = set(stored)
    return [key if key in there else None for key in keys]


class Recipe(ABC):
    """The instructions to build one record set.

    Attributes:
        kind: The source of the record set.
        dataset: The dataset's name in the catalogue, "cub200"; the format of imported data; else the kind.
        part: The separately obtained part of the raw data: "train", "segmentations"; "" if there is only one.
        fields: The blob fields.
        raw_files: The archives with their addresses, in the order of reading.
        variant: The manifest's name for the form of the stored images.
        origin: The manifest's name for the raw data. Default: "archive" or "tree".
        made_from: The archives of a record set that replaces its raw data.
        expansion: Estimated size of the records / size of the raw files. Default: that of photographs of 110 KB on
            average, which archives do not compress (benchmarks/size.py).
        counts: Number of samples of each split in the authors' raw files.
    """

    kind: SetKind = SetKind.ZOO
    dataset: str
    part: str
    fields: Mapping[str, BlobField]
    raw_files: tuple[RemoteFile, ...]
    variant: str = ORIGINAL
    origin: str = ""
    made_from: tuple[RawFile, ...] = ()
    expansion: float = 1.02
    counts: Mapping[str, int] = MappingProxyType({})

    @property
    def main_field(self) -> str:
        """The blob field that defines the positions: "image", or the first; "" without blob fields."""
        return "image" if "image" in self.fields else next(iter(self.fields), "")

    @property
    def set_name(self) -> str:
        """The record set's directory name without suffix: "cub200", "imagenet.train"."""
        return f"{self.dataset}.{self.part}" if self.part else self.dataset

    def title(self, root: Path) -> str:
        """Return the data's name for messages: the name of the dataset, directory or list."""
        return self.set_name

    @property
    def options(self) -> Mapping[str, Any]:
        """Settings that influence the result (JSON); part of the plan, so that a resume never mixes settings."""
        return {}

    def stored_bytes(self, size_bytes: int) -> int:
        """Estimate the stored size of a file, in bytes."""
        return size_bytes

    def records_bytes(self, raw: Source | int) -> int:
        """Estimate the size of the records, from the raw data or, before its download, the size of its archives."""
        if isinstance(raw, int):
            return int(raw * self.expansion)
        return raw.records_bytes(self.expansion, lambda size: stored_bytes(self.stored_bytes(size)))

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """Whether a record set is this recipe's result for the raw data, by a quick check."""
        return (manifest.kind, manifest.dataset, manifest.part) == (self.kind, self.dataset, self.part)

    def target(self, root: Path) -> Path:
        """Return the path of the record set for the raw data under `root`."""
        return root / f"{self.set_name}.records"

    def command(self, root: Path) -> str:
        """Return the command line that prepares it."""
        label = f"{self.dataset}.{self.part}" if self.part else self.dataset  # like `recordzoo.cli.targets`
        return command("prepare", label, "--root", root)

    @abstractmethod
    def find(self, root: Path) -> Source | None:
        """Find the raw data under `root`: an extracted tree, else the archives, else None."""

    @abstractmethod
    def looked_for(self, root: Path) -> list[str]:
        """List what `find` looks for, for the error if nothing is found."""

    def worker_setup(self) -> Callable[[], None] | None:
        """Return a function, which is pickled, that each worker process calls before its first unit; None for none."""
        return None

    def extras(self) -> Mapping[str, bytes]:
        """Small files beside the manifest, by name: they may differ between two runs over the same raw data."""
        return {}

    @abstractmethod
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """Yield the values to store of one member; nothing, without reading it, for an unwanted member."""

    @abstractmethod
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """Put the stored values in canonical order, with targets, names and splits.

        Raises:
            SourceError: Required data is missing; the message names it.
        """
