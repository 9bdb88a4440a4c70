"""The content of a record set for an export: samples by split, with image file, label and other fields; file names."""

import hashlib
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.process import default_workers
from recordzoo.base.progress import Progress
from recordzoo.base.text import as_file_name, no_split
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.formats.base import CLASSES_NAME
from recordzoo.images.decode import from_pixels
from recordzoo.recipes.recipe import PNG_LEVEL, sniffed_ending
from recordzoo.records.manifest import NO_SHARD
from recordzoo.records.reader import RecordReader

REST = "rest"
"""The split name for samples without a split."""

_READ_AHEAD = 32
_ENDING = re.compile(r"\.(jpe?g|png|ppm|bmp|pgm|tiff?|webp|gif)", re.IGNORECASE)
_MAX_FILE_NAME = 200  # bytes


FieldForm = Literal["image", "bytes", "json", "raw", "numbers"]
"""What a field holds: files of images, bytes, JSON, arrays each with its own shape, or numbers of one shape."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field beside the image and the label.

    Attributes:
        name: Its name.
        kind: The kind of its values.
        dtype: NumPy's name of the numbers' type: "float32".
        shape: The shape of arrays; None for each dimension that differs.
    """

    name: str
    kind: FieldForm
    dtype: str = ""
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportSample:
    """One record.

    Attributes:
        name: Its name, as text that can be written as UTF-8.
        image: The image's file.
        ending: Its ending by its first bytes; "" if they are of no known format.
        label: The label; None if the set has none.
        fields: The other fields: bytes, what JSON has, arrays, numbers; None where there is no value.
    """

    name: str
    image: bytes
    ending: str
    label: int | None
    fields: dict[str, Any]  # Any: values of all kinds


class Content:
    """The samples of a record set. It pickles as its reader does.

    Args:
        reader: The record set.

    Attributes:
        classes: Names of the classes by label; none if they are not known.
        label_field: The field with a label, a whole number, for each record; None if the default target is no such.
        is_raw: Whether images are stored as pixels, which become PNG files.
        fields: The fields beside image and label.

    Raises:
        OtherSourceError: It has no images.
    """

    def __init__(self, reader: RecordReader) -> None:
        manifest = reader.manifest
        self.reader = reader
        self.classes = manifest.classes or ()
        spec = manifest.blobs.get("image")
        if spec is None or spec.encoding not in ("image", "bytes", "raw") or spec.dtype not in ("", "|u1"):
            what = f"{spec.dtype} numbers" if spec and spec.dtype else f'"{spec.encoding}"' if spec else "no image"
            raise OtherSourceError(
                f"{reader.path} holds {what}; only image files and uint8 pixels are exported. RecordReader reads it.",
                path=str(reader.path),
            )
        self.is_raw = spec.encoding == "raw"
        self.label_field = manifest.label_field
        own = {"image", self.label_field}
        self.fields = tuple(_field(reader, name) for name in (*manifest.blobs, *reader.columns) if name not in own)

    def plain_label(self, sample: ExportSample) -> str | float | None:
        """Return a sample's label, also one that is text or has a fraction; None if it is none of these."""
        label = sample.fields.get(self.reader.manifest.default_target or "", sample.label)
        return label if isinstance(label, str | float | int) else None

    def class_name(self, label: int | None) -> str:
        """Return the name of a label's class; "" if it has none."""
        return printable(self.classes[label]) if label is not None and 0 <= label < len(self.classes) else ""

    def has_classes(self, positions: NDArray[np.int64]) -> bool:
        """Whether all labels at some positions have a class."""
        if self.label_field is None:
            return False
        labels = self.reader.array(self.label_field)[positions]
        return bool(labels.min() >= 0 and labels.max() < len(self.classes))

    def sample(self, position: int) -> ExportSample:
        """Read one record.

        Raises:
            OtherSourceError: It has no image, or numbers that are no pixels.
            CorruptRecordError: The stored bytes are damaged.
        """
        name = printable(self.reader.names[position])
        image, ending = self._image(position, name)
        label = None if self.label_field is None else int(self.reader.array(self.label_field)[position])
        fields = {field.name: self.reader.value(field.name, position) for field in self.fields}
        return ExportSample(name, image, ending, label, fields)

    def _image(self, position: int, name: str) -> tuple[bytes, str]:
        value = self.reader.value("image", position)
        if value is None:
            raise OtherSourceError(f"{self.reader.path}: record {position} ({name}) has no image.")
        if not self.is_raw:
            return value, sniffed_ending(value)
        buffer = io.BytesIO()
        try:
            from_pixels(value).save(buffer, "png", compress_level=PNG_LEVEL)
        except OSError as err:
            raise OtherSourceError(f"{self.reader.path}: record {position} ({name}): {err}.") from err
        return buffer.getvalue(), ".png"


@dataclass(frozen=True)
class Export:
    """The samples that are exported, and how.

    Attributes:
        content: The record set.
        splits: The positions of each split.
        shard_bytes: Target size of a file with many samples.
        progress: Receives the progress.
    """

    content: Content
    splits: Mapping[str, NDArray[np.int64]]
    shard_bytes: int
    progress: Progress

    def read(self, positions: NDArray[np.int64]) -> Iterator[ExportSample]:
        """Read samples in order, in threads, because making PNG of pixels takes time; report each as done."""
        with ThreadPoolExecutor(default_workers()) as pool:
            for start in range(0, len(positions), _READ_AHEAD):
                some = positions[start : start + _READ_AHEAD]
                self.content.reader.hint("image", some.tolist())
                for number, sample in enumerate(pool.map(self.content.sample, some.tolist())):
                    yield sample
                    self.done(some[number : number + 1])

    def done(self, positions: NDArray[np.int64]) -> None:
        """Report samples as done."""
        lengths = self.content.reader.lengths("image")[positions]
        self.progress.advance(int(lengths.sum(dtype=np.int64)), len(positions))

    def shards(self, positions: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cut positions into shards of about `shard_bytes` of stored images; the same each time."""
        ends = np.cumsum(self.content.reader.lengths("image")[positions], dtype=np.int64)
        return np.split(positions, np.flatnonzero(np.diff(np.maximum(ends - 1, 0) // self.shard_bytes)) + 1)


def _field(reader: RecordReader, name: str) -> Field:
    spec, arrays = reader.manifest.blobs.get(name), reader.manifest.arrays
    if spec is None:
        return Field(name, "numbers", np.dtype(arrays[name].dtype).name, arrays[name].shape[1:])
    if spec.encoding == "raw":
        shape: tuple[int | None, ...] | None = spec.shape
        if shape is None:
            columns = reader.array(f"{name}.shape")[reader.array(f"{name}.index")["shard"] != NO_SHARD].T
            shape = tuple(int(each[0]) if len(each) and (each == each[0]).all() else None for each in columns)
        return Field(name, "raw", np.dtype(spec.dtype).name, shape)
    return Field(name, cast(FieldForm, spec.encoding))


# Any: whatever JSON has.
def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Write JSON as ASCII, with a newline at its end; arrays become lists."""
    return json.dumps(value, indent=indent, default=lambda array: array.tolist()).encode() + b"\n"


def chosen_splits(
    reader: RecordReader, wanted: str | Sequence[str] | None, *, may_share: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split.

    Args:
        reader: The record set.
        wanted: A split, several, or None for all samples.
        may_share: Whether splits may share samples if none is named.

    Raises:
        ArgumentError: There is no such split, or splits share samples.
        OtherSourceError: There are no samples.
    """
    if wanted is None:
        found = _all_splits(reader, may_share)
    else:
        names = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
        for name in names:
            if name not in reader.manifest.splits:
                raise no_split(reader.path, name, reader.manifest.splits)
        found = {name: reader.split(name) for name in names}
    found = {name: positions for name, positions in found.items() if len(positions)}
    if not found:
        raise OtherSourceError(f"{reader.path} has no samples to export.", path=str(reader.path))
    return found


def _all_splits(reader: RecordReader, may_share: bool) -> dict[str, NDArray[np.int64]]:
    found = {name: reader.split(name) for name in reader.manifest.splits}
    if not found:
        return {"": reader.split()}
    counts = np.zeros(len(reader), np.uint8)
    for name, positions in found.items():
        if not may_share and counts[positions].any():
            raise ArgumentError(
                f"Split {name} of {reader.path} shares samples with another one. Name those that are exported: --split "
                f"(split=) with one or several of {', '.join(found)}."
            )
        counts[positions] = 1
    rest = np.flatnonzero(counts == 0)
    if len(rest):
        found[REST if REST not in found else f"{REST}-2"] = rest
    return found


def printable(text: str) -> str:
    """Return a text that UTF-8 can encode: other bytes of a file's name become ``\\xff``."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_ending(name: str) -> tuple[str, str]:
    """Split a name into stem and image suffix; "" if it has no such suffix."""
    stem, dot, rest = name.rpartition(".")
    return (stem, f".{rest}") if stem and _ENDING.fullmatch(f"{dot}{rest}") else (name, "")


def file_name(text: str) -> str:
    """Return a text as the name of a file or directory: no separators, not hidden, at most 200 bytes."""
    name = as_file_name(printable(text).replace("/", "_").replace("\0", "_"))
    if not name or name.startswith("."):
        name = f"_{name}"
    data = name.encode()
    if len(data) <= _MAX_FILE_NAME:
        return name
    digest = hashlib.sha256(data).hexdigest()[:12]
    return f"{digest}-{data[-_MAX_FILE_NAME + 20 :].decode('utf-8', 'ignore')}"


def choose(taken: set[str], *names: str, start: str = "", end: str = "") -> str:
    """Take the first of some names that is free, or else the last one with a number.

    Case is ignored, as by the file systems of macOS and Windows.

    Args:
        taken: The names that are taken; the chosen one is added.
        names: The names, the best one first.
        start: Stands before each name.
        end: Stands behind each name.
    """
    numbered = (f"{names[-1]}-{number}" for number in itertools.count(2))
    all_names = (f"{start}{name}{end}" for name in itertools.chain(names, numbered))
    chosen = next(name for name in all_names if name.casefold() not in taken)
    taken.add(chosen.casefold())
    return chosen


def write_classes(folder: Path, content: Content) -> None:
    """Write the names of the classes beside the samples, if they are known."""
    if content.classes:
        (folder / CLASSES_NAME).write_bytes(json_bytes(list(content.classes), indent=0))
