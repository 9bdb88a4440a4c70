"""`Writer`: writes a format: samples as shards, the files of a shard, and the files beside them."""

import itertools
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.types import JSON
from recordzoo.errors import OtherSourceError
from recordzoo.formats.base import CLASSES_NAME
from recordzoo.formats.samples import Content, ExportSample, Field, printable

Tick = Callable[[int], None]
"""Called with the number of further stored bytes that were written."""


@dataclass(frozen=True)
class Shard:
    """Samples that are written together.

    Attributes:
        split: Their split; "" if there are none.
        number: Its number in the split, from 0.
        total: How many shards the split has.
        positions: Positions in the record set, int64 [n].
        paths: The file name of each sample, if the format writes a file for each.
    """

    split: str
    number: int
    total: int
    positions: NDArray[np.int64]
    paths: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of the file that records the finished shard."""
        return f"{self.split or 'all'}-{self.number:06d}"


Files = Mapping[str, int]
"""The files of a written shard: each one's path in the output, and its size in bytes."""


class Writer(ABC):
    """Base class of the writers of formats. It pickles: a worker process gets a copy.

    Args:
        content: The samples.
        splits: The names of all splits that are exported.

    Attributes:
        name: Its name for ``--to``.
        shard_bytes: Default target shard size in bytes.
        ending: The output's suffix, if it is a file; "" if it is a directory.
        note: What the output says of itself: the record set and how it was exported.
    """

    name: ClassVar[str]
    shard_bytes: ClassVar[int] = 256 << 20
    ending: ClassVar[str] = ""

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        self.content, self.splits = content, tuple(splits)
        self.note: Mapping[str, JSON] = {}

    def shards(self, splits: Mapping[str, NDArray[np.int64]], shard_bytes: int) -> list[Shard]:
        """Cut the splits into shards of about `shard_bytes` of stored images; the same each time."""
        found = []
        lengths = self.content.reader.lengths("image")
        for split, positions in splits.items():
            paths = self.paths(split, positions)
            shard = np.maximum(np.cumsum(lengths[positions], dtype=np.int64) - 1, 0) // shard_bytes
            bounds = [0, *(np.flatnonzero(np.diff(shard)) + 1).tolist(), len(positions)]
            for index, (start, stop) in enumerate(itertools.pairwise(bounds)):
                found.append(Shard(split, index, len(bounds) - 1, positions[start:stop], paths[start:stop]))
        return found

    def paths(self, split: str, positions: NDArray[np.int64]) -> Sequence[str]:
        """Return the name of each sample's file; nothing if the format has no such files."""
        return ()

    @abstractmethod
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Files:
        """Write the files of a shard, synced, under their own names.

        Args:
            shard: What is written.
            folder: Where the output is put together.
            tick: Told after each sample.

        Raises:
            OSError: They cannot be written, or a stored value is damaged.
        """

    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Files]) -> None:
        """Write the files beside the shards."""
        if self.content.classes:
            durable.write_file(folder / CLASSES_NAME, json_line(list(self.content.classes), indent=0))

    def samples(self, shard: Shard, tick: Tick) -> Iterator[tuple[int, ExportSample]]:
        """Read the samples of a shard, each with its place in it."""
        positions = shard.positions.tolist()
        self.content.reader.hint("image", positions)
        lengths = self.content.reader.lengths("image")
        for number, position in enumerate(positions):
            yield number, self.content.sample(position)
            tick(int(lengths[position]))


def synced(file: BinaryIO) -> int:
    """Sync a file, and return its size in bytes."""
    file.flush()
    os.fsync(file.fileno())
    return os.fstat(file.fileno()).st_size


# Any: whatever JSON has.
def json_line(value: Any, indent: int | None = None) -> bytes:
    """Write JSON as UTF-8, with a newline at its end; arrays become lists."""
    return json.dumps(value, ensure_ascii=True, indent=indent, default=plain).encode() + b"\n"


# Any: a value of a record.
def plain(value: Any) -> Any:
    """Return numbers and arrays as Python's numbers and lists."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def json_text(field: Field, sample: ExportSample) -> str:
    """Return a JSON field as text: a text itself, anything else as JSON."""
    value = sample.fields[field.name]
    try:
        return printable(value) if isinstance(value, str) else json_line(value)[:-1].decode()
    except UnicodeEncodeError as err:
        raise OtherSourceError(
            f"{sample.name}: {field.name} has {err.object[err.start : err.end]!a}, half of a letter, which UTF-8 has "
            "not. Export to webdataset, which writes JSON, or correct the text."
        ) from err
