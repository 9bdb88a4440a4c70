"""What a recipe is: the part of a preparation that differs between datasets.

A recipe is small, immutable and pickles (worker processes get a copy). It is asked three things: where its raw data
is (`find`), what each member of it becomes (`extract`), and, when everything is stored, in which order and with which
targets (`arrange`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.program import command
from recordzoo.records.manifest import ORIGINAL, Manifest, RawFile
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Member, Source

OWN_DATASETS = ("flat", "imported", "list", "own")
"""Record sets of people's own data carry these names. Theirs are no class folders: records may have any names, in any
order, and any targets."""

ABSENT = -1
"""In an arrangement: this position has no blob in this field."""

NO_TARGET = -1
"""The target of an image that has no label."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes to be stored as one record of a blob field.

    Attributes:
        field: The field's name: "image", "mask", "annotation".
        key: Its name within the field, unique; `Recipe.arrange` refers to blobs by it.
        data: What is stored, untouched.
        checked: Whether an image's header is looked at: not if nobody says that it is an image.
        problem: Why this image is not what it should be, if the recipe has found that out.
    """

    field: str
    key: str
    data: bytes
    checked: bool = True
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """A small file that is not a record but needed to arrange the records: a list of labels, of splits."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class BlobField:
    """What a blob field holds.

    Attributes:
        encoding: "image" (an encoded image file), "raw" (numbers in C order), "json" or "bytes".
        shape: For "raw": the shape of every value, [H, W, C] for pixels; None if the arrangement has their shapes.
        dtype: For "raw": the numbers' type, as NumPy writes it, little-endian.
    """

    encoding: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class Stored:
    """What has been stored.

    Attributes:
        keys: For each blob field the keys, in the order of writing, each once.
        skipped: Keys of images that were left out because the person asked to skip broken ones.
    """

    keys: Mapping[str, Sequence[str]]
    skipped: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Arrangement:
    """How the stored blobs become a dataset of N positions.

    Attributes:
        names: N names in canonical order, unique; what `samples` shows, relative to the dataset's folder.
        blobs: For each blob field an int64 [N] of indices into `Stored.keys[field]`, `ABSENT` where there is none.
        arrays: For each array field an array whose first dimension is N.
        splits: For each split an int64 array of positions, in the split's own order. May be empty: one whole.
        classes: Class names in label order, if the dataset has classes.
        metadata: Anything else that opening needs; JSON, small.
        shapes: For each raw blob field whose shape the recipe does not know: uint32 [N, dimensions].
        skipped: What had been left out before, with the reasons: of a record set that this one is made of.
    """

    names: Sequence[str]
    blobs: Mapping[str, NDArray[np.int64]]
    # Any: arrays of any numeric dtype.
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    splits: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    # Any: JSON values.
    metadata: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


class Recipe(ABC):
    """How one record set is made.

    Attributes:
        dataset: The dataset's name in the catalogue: "cub200", "imagenet".
        part: Which separately obtained part of its raw data, or "" if there is only one: "train", "segmentations".
        fields: The blob fields.
        raw_files: The archives, with where to get them; the order is that of reading.
        variant: What the manifest calls the way in which images are stored.
        origin: What the manifest calls the raw data; by default "archive" or "tree".
        made_from: The archives of a record set that stands for its raw data.
        expansion: About how large the records are for each byte of an archive. The default is that of photographs
            of 110 KB on average, which no archive packs any smaller (benchmarks/size.py).
    """

    dataset: str
    part: str
    fields: Mapping[str, BlobField]
    raw_files: tuple[RemoteFile, ...]
    variant: str = ORIGINAL
    origin: str = ""
    made_from: tuple[RawFile, ...] = ()
    expansion: float = 1.02

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
        """Return about how many bytes become of a file of this size."""
        return size_bytes

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """Whether a record set is what this recipe would make of the raw data, as far as can be told at once."""
        return (manifest.dataset, manifest.part) == (self.dataset, self.part)

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
    def extract(self, member: Member) -> Iterator[Blob | Side]:
        """Turn one member into what is stored; yield nothing for a member that is not wanted (do not read it)."""

    @abstractmethod
    def arrange(self, stored: Stored, sides: Mapping[str, bytes]) -> Arrangement:
        """Put what was stored in canonical order, with targets, names and splits.

        Raises:
            SourceError: Something that must be there is missing (said by name).
        """
