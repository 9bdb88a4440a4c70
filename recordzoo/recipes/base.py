"""What a recipe is: the part of a preparation that differs between datasets.

A recipe is small, immutable and pickles (worker processes get a copy). It is asked three things: where its raw data
is (`find`), what each member of it becomes (`extract`), and, when everything is stored, in which order and with which
targets (`build_table`).
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

ABSENT = -1
"""In a table: this position has no blob in this field."""

INCOMPLETE = "The data is not complete: extract or download it again."
"""What helps where something is missing in the raw data."""

NO_TARGET = -1
"""The target of an image that has no label."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes to be stored as one record of a blob field.

    Attributes:
        field: The field's name: "image", "mask", "annotation".
        key: Its name within the field, unique; `Recipe.build_table` refers to blobs by it.
        data: What is stored, untouched.
        checked: Whether an image's header is looked at: not if nobody says that it is an image.
        problem: Why this image is not what it should be, if the recipe has found that out.
        name: What messages call it, if not by its key.
    """

    field: str
    key: str
    data: bytes
    checked: bool = True
    problem: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A small file that is not a record but needed to arrange the records: a list of labels, of splits."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BlobField:
    """What a blob field holds.

    Attributes:
        encoding: "image" (an encoded image file), "raw" (numbers in C order), "json" or "bytes".
        shape: For "raw": the shape of every value, [H, W, C] for pixels; None if the table has their shapes.
        dtype: For "raw": the numbers' type, as NumPy writes it, little-endian.
    """

    encoding: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class Stored:
    """What has been stored.

    Attributes:
        keys: For each blob field the keys, in the order of writing, each once; behind them those of images that were
            left out because the person asked to skip broken ones, for `Recipe.main_field`.
        skipped: For each blob field the keys of the latter. Positions whose image was left out, are left out, too.
    """

    keys: Mapping[str, Sequence[str]]
    skipped: Mapping[str, Set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """What the records are: N positions, of which `recordzoo.preparing.resolve` makes a record set.

    Attributes:
        names: N names in canonical order, unique; what `samples` shows, relative to the dataset's folder.
        keys: For each blob field the keys of N blobs, None where there is none. Those of `Recipe.main_field` are the
            names unless they are given.
        arrays: For each array field an array whose first dimension is N.
        splits: For each split its names or int64 positions, in the split's own order. Empty: there are no splits.
        classes: Class names in label order, if the dataset has classes.
        fields: What fields are, where their storage does not show it: boxes, masks, names of other classes.
        default_target: The field that is the target by default. Default: "target" or "label".
        metadata: Anything else that opening needs; JSON, small.
        shapes: For each raw blob field whose shape the recipe does not know: uint32 [N, dimensions].
        skipped: What was left out earlier, with the reasons: in the record set that this one is made from.
    """

    names: Sequence[str]
    keys: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    # Any: arrays of any numeric dtype.
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
    """Return the keys, with None instead of those that are not stored: a blob field of a `Table`."""
    there = set(stored)
    return [key if key in there else None for key in keys]


class Recipe(ABC):
    """How one record set is made.

    Attributes:
        kind: What the record set is made from.
        dataset: The dataset's name in the catalogue, "cub200"; the format of imported data; else the kind.
        part: Which separately obtained part of its raw data, or "" if there is only one: "train", "segmentations".
        fields: The blob fields.
        raw_files: The archives, with where to get them; the order is that of reading.
        variant: What the manifest calls the way in which images are stored.
        origin: What the manifest calls the raw data; by default "archive" or "tree".
        made_from: The archives of a record set that stands for its raw data.
        expansion: Estimated size of the records divided by that of the raw files. The default is that of photographs
            of 110 KB on average, which no archive makes smaller (benchmarks/size.py).
        counts: Numbers of samples of splits, in the authors' raw files.
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
        """The blob field for whose values positions stand: "image", or the first; "" if there are no blob fields."""
        return "image" if "image" in self.fields else next(iter(self.fields), "")

    @property
    def set_name(self) -> str:
        """The record set's directory name without its ending: "cub200", "imagenet.train"."""
        return f"{self.dataset}.{self.part}" if self.part else self.dataset

    def title(self, root: Path) -> str:
        """Return what people call this data: a dataset's name, that of their directory or list."""
        return self.set_name

    @property
    def options(self) -> Mapping[str, Any]:
        """What besides the raw data decides the result (JSON); part of the plan, so that a resume never mixes."""
        return {}

    def stored_bytes(self, size_bytes: int) -> int:
        """Estimate the stored size of a file, in bytes."""
        return size_bytes

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """Whether a record set is what this recipe would make of the raw data, as far as can be told at once."""
        return (manifest.kind, manifest.dataset, manifest.part) == (self.kind, self.dataset, self.part)

    def target(self, root: Path) -> Path:
        """Return where the record set of the raw data under `root` lies."""
        return root / f"{self.set_name}.records"

    def command(self, root: Path) -> str:
        """Return the command line that prepares it."""
        label = f"{self.dataset}.{self.part}" if self.part else self.dataset  # as in `recordzoo.cli.targets`
        return command("prepare", label, "--root", root)

    @abstractmethod
    def find(self, root: Path) -> Source | None:
        """Find raw data under `root`: an extracted tree first, then the archives; None if there is none."""

    @abstractmethod
    def looked_for(self, root: Path) -> list[str]:
        """Say what `find` looks for, for the error that says it was not there."""

    def worker_setup(self) -> Callable[[], None] | None:
        """Return what a worker process calls before its first unit (it is pickled); None for nothing."""
        return None

    def extras(self) -> Mapping[str, bytes]:
        """Small files to lay beside the manifest, by name: what may differ between two runs over the same raw data."""
        return {}

    @abstractmethod
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """Turn one member into what is stored; yield nothing for a member that is not wanted (do not read it)."""

    @abstractmethod
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """Put what was stored in canonical order, with targets, names and splits.

        Raises:
            SourceError: Something that must be there is missing (said by name).
        """
