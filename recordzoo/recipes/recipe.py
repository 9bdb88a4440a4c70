"""`Recipe`: the part of a preparation that differs between datasets.

A recipe is small, immutable and pickles (worker processes get a copy). It answers three questions: where its raw data
is (`find`), what to store of each member (`extract`) and, at the end, the order and the targets of the records
(`build_table`).
"""

import contextlib
import dataclasses
import io
import itertools
import re
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from recordzoo.base.settings import command
from recordzoo.base.text import JSON
from recordzoo.net.url import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.records.manifest import ORIGINAL, BlobSpec, FieldSpec, Manifest, RawFile, SetKind
from recordzoo.records.shard import stored_bytes

PNG_LEVEL = 3
"""For photographs: half the time of the default, 6, with 2% more bytes."""

_filters = threading.Lock()

_STARTS = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tiff"),
    (b"MM\0*", ".tiff"),
    (b"P5", ".pgm"),
    (b"P6", ".ppm"),
)


def sniffed_ending(data: bytes) -> str:
    """Return ".jpg", ".png", ... by an encoded image's first bytes; "" for an unknown format."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((ending for start, ending in _STARTS if data.startswith(start)), "")


def open_image(data: bytes) -> Image.Image:
    """Open an encoded image; it is decoded when its pixels are read.

    Raises:
        OSError: Pillow does not know the format, or it is PostScript, for which Pillow would run Ghostscript.
    """
    image = Image.open(io.BytesIO(data))
    if image.format == "EPS":
        raise OSError("it is PostScript, which is run and not decoded")
    return image


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings, for example of odd EXIF blocks: they concern reading, not storing."""
    # Warning filters are global: they change only briefly, and in one thread at a time.
    with _filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def problem_of(err: Exception, data: bytes) -> str:
    """Explain from the error why an image cannot be opened or decoded."""
    if isinstance(err, UnidentifiedImageError):
        return "no image format that Pillow knows" if data else "an empty file"
    return f"{type(err).__name__}: {err}"[:300]


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
        is_untrusted: Whether bytes that are no image at all are refused, and not kept as a broken image.
    """

    field: str
    key: str
    data: bytes
    checked: bool = True
    problem: str | None = None
    name: str = ""
    is_untrusted: bool = False


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A small file that is needed to arrange the records, but is not a record: a list of labels or splits."""

    name: str
    data: bytes


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
        skipped: Members that were not read, with the reasons: of a list's missing files, and of those that the source
            record set lacks. Images among them are left out.
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


def name_below(folder: str, name: str) -> str:
    """Return a name relative to a folder, which Kaggle and unzip tools put into another folder of its name."""
    return name.removeprefix(folder).removeprefix(f"{folder.rstrip('/').rpartition('/')[2]}/")


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
        fields: The blob fields. Default: images.
        raw_files: The archives with their addresses, in the order of reading. Default: none.
        variant: The manifest's name for the form of the stored images.
        origin: The manifest's name for the raw data. Default: "archive" or "tree".
        made_from: The archives of a record set that replaces its raw data.
        expansion: Estimated size of the records / size of the raw files. Default: that of photographs of 110 KB on
            average, which archives do not compress (benchmarks/size.py).
        counts: Number of samples of each split in the authors' raw files.
        takes_incomplete: Whether raw data with other classes than the dataset has is stored.
    """

    kind: SetKind = SetKind.ZOO
    dataset: str
    part: str = ""
    fields: Mapping[str, BlobSpec] = MappingProxyType({"image": BlobSpec("image")})
    raw_files: tuple[RemoteFile, ...] = ()
    variant: str = ORIGINAL
    origin: str = ""
    made_from: tuple[RawFile, ...] = ()
    expansion: float = 1.02
    counts: Mapping[str, int] = MappingProxyType({})
    takes_incomplete: bool = False

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

    def difference(self, manifest: Manifest, root: Path) -> str | None:
        """Say how a record set differs from this recipe's result for the raw data, by a quick check; None: in nothing.

        The text follows the path of the set in messages.
        """
        is_mine = (manifest.kind, manifest.dataset, manifest.part) == (self.kind, self.dataset, self.part)
        return None if is_mine else f"holds {manifest.title}, not {self.kind.text or self.set_name}"

    def target(self, root: Path) -> Path:
        """Return the path of the record set for the raw data under `root`."""
        return root / f"{self.set_name}.records"

    def command(self, root: Path) -> str:
        """Return the command line that prepares it."""
        label = f"{self.dataset}.{self.part}" if self.part else self.dataset  # like `recordzoo.cli.options`
        return command("prepare", label, "--root", root)

    @abstractmethod
    def find(self, root: Path) -> Source | None:
        """Find the raw data under `root`: an extracted tree, else the archives, else None."""

    @abstractmethod
    def looked_for(self, root: Path) -> list[str]:
        """List what `find` looks for, for the error if nothing is found."""

    def remarks(self) -> Iterable[str]:
        """Say what of the raw data that `find` found may not be meant, or was left out."""
        return ()

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


UNKNOWN, PLAIN, OTHER = range(3)
"""Marks of a value."""

_START = b"\xff\xd8\xff"
_DQT, _DHT, _DRI, _SOS, _EOI, _COM, _RST0 = 0xDB, 0xC4, 0xDD, 0xDA, 0xD9, 0xFE, 0xD0
_SOF = (0xC0, 0xC1)  # Huffman-coded, sequential
_APP = range(0xE0, 0xF0)
_MARKER = re.compile(rb"\xff[^\x00]")
"""In entropy-coded data, where a byte FF is followed by 00."""

_METADATA = (b"JFIF\0", 14), (b"ICC_PROFILE\0", 14), (b"Adobe", 12)
"""Starts of segments of which Pillow reads fixed places, and how far; it takes them with any content."""

_FORMATS = ("JPEG", "MPO")  # as Pillow calls them
_MAX_BLOCKS = 1 << 20
_MAX_DC_CATEGORY = 11
"""More blocks of one component, each 2,047 brighter than the last, would overflow libjpeg's sum (which is an error in
later versions); higher categories, which no encoder of 8 bits needs, sooner."""


class _Broken(Exception):
    """The header of the file is not that of a plain JPEG."""


class _Component(NamedTuple):
    """A component of the frame header: its name, sampling factors and quantisation table."""

    name: int
    across: int
    down: int
    table: int


class Look(NamedTuple):
    """The result of checking an encoded image: why no decoder accepts it (None if one does), and its mark."""

    problem: str | None
    mark: int


def look(data: bytes, *, decode: bool = False) -> Look:
    """Look at the header of an encoded image or, if `decode`, at all of it; Pillow's warnings are silenced.

    Pillow opens the image once. It is not asked about most plain JPEGs: their segments prove that it opens them.
    """
    header = _header_of(data)
    if header is not None and header.is_surely_opened and not decode:
        return Look(None, PLAIN)
    mark = OTHER
    try:
        with quiet(), open_image(data) as image:
            if header is not None and image.format in _FORMATS:
                mark = PLAIN
            if decode:
                image.load()
    except Exception as err:  # noqa: BLE001  # Pillow's format plug-ins raise anything on hostile headers
        return Look(problem_of(err, data), mark)
    return Look(None, mark)


def mark_of(data: bytes) -> int:
    """Return the mark of an encoded image, `PLAIN` or `OTHER`, in less than a tenth of the decoding time."""
    return PLAIN if is_plain_jpeg(data) else OTHER


def is_plain_jpeg(data: bytes) -> bool:
    """Whether an image is a plain JPEG, as ``docs/format.md`` defines it."""
    header = _header_of(data)
    return header is not None and (header.is_surely_opened or _is_opened(data))


def _header_of(data: bytes) -> "_Header | None":
    """Read a file whose segments and markers are those of a plain JPEG; None if they are not."""
    if not data.startswith(_START):
        return None
    header = _Header(data)
    try:
        start, num_restarts = header.read()
    except (_Broken, IndexError):
        return None
    return header if _ends_well(data, start, num_restarts) else None


class _Header:
    """The segments before the entropy-coded data.

    Args:
        data: The file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._quantisation: set[int] = set()
        self._huffman: set[int] = set()  # class and number, as DHT has them
        self._components: list[_Component] = []
        self._size = 0, 0
        self._restart_interval = 0
        self._has_other_metadata = False

    @property
    def is_surely_opened(self) -> bool:
        """Whether Pillow, without a warning, opens a file of these segments: it has no other check."""
        limit = Image.MAX_IMAGE_PIXELS
        return not self._has_other_metadata and (limit is None or self._size[0] * self._size[1] <= limit)

    def read(self) -> tuple[int, int]:
        """Return where the entropy-coded data begins, and how many restart markers are in it."""
        data, at = self._data, 2
        while True:
            marker, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
            end = at + 2 + length
            if data[at] != 0xFF or length < 2 or end > len(data):
                raise _Broken
            segment = data[at + 4 : end]
            if marker == _SOS:
                self._check_scan(segment)
                return end, self._num_restarts()
            self._note(marker, segment)
            at = end

    def _note(self, marker: int, segment: bytes) -> None:
        if marker in _SOF:
            self._note_frame(segment)
        elif marker == _DQT:
            self._note_quantisation(segment)
        elif marker == _DHT:
            self._note_huffman(segment)
        elif marker == _DRI:
            _check(len(segment) == 2)
            self._restart_interval = segment[0] << 8 | segment[1]
        elif marker in _APP:
            if not any(segment.startswith(start) and len(segment) >= length for start, length in _METADATA):
                self._has_other_metadata = True
        else:
            _check(marker == _COM)

    def _note_frame(self, segment: bytes) -> None:
        count = segment[5]
        _check(not self._components and segment[0] == 8 and count in (1, 3) and len(segment) == 6 + 3 * count)
        self._size = segment[3] << 8 | segment[4], segment[1] << 8 | segment[2]
        self._components = [
            _Component(name, factors >> 4, factors & 15, table)
            for name, factors, table in zip(segment[6::3], segment[7::3], segment[8::3], strict=True)
        ]
        _check(min(self._size) > 0 and len({each.name for each in self._components}) == count)
        _check(all(1 <= each.across <= 4 and 1 <= each.down <= 4 for each in self._components))

    def _note_quantisation(self, segment: bytes) -> None:
        at = 0
        while at < len(segment):
            precision, number = segment[at] >> 4, segment[at] & 15
            _check(precision < 2 and number < 4)
            self._quantisation.add(number)
            at += 1 + 64 * (precision + 1)
        _check(at == len(segment))

    def _note_huffman(self, segment: bytes) -> None:
        at = 0
        while at < len(segment):
            table, values = segment[at], at + 17
            count = sum(segment[at + 1 : values])
            at = values + count
            _check(table & 0xEC == 0 and count <= 256 and at <= len(segment))
            _check(table >= 16 or max(segment[values:at], default=0) <= _MAX_DC_CATEGORY)
            self._huffman.add(table)

    def _check_scan(self, segment: bytes) -> None:
        count = len(self._components)
        _check(count > 0 and len(segment) == 4 + 2 * count and segment[0] == count and segment[-3:] == b"\x00\x3f\x00")
        for component, name, tables in zip(self._components, segment[1:-3:2], segment[2:-3:2], strict=True):
            _check(name == component.name and component.table in self._quantisation)
            _check(tables >> 4 in self._huffman and tables & 15 | 16 in self._huffman)

    def _num_restarts(self) -> int:
        """Return how many restart markers the scan has; its units are blocks if there is one component."""
        most_across = max(each.across for each in self._components)
        most_down = max(each.down for each in self._components)
        if len(self._components) == 1:
            most_across = most_down = 1
        width, height = self._size
        num_units = -(-width // (8 * most_across)) * -(-height // (8 * most_down))
        _check(num_units * most_across * most_down <= _MAX_BLOCKS)
        return -(-num_units // self._restart_interval) - 1 if self._restart_interval else 0


def _check(is_right: bool) -> None:
    if not is_right:
        raise _Broken


def _ends_well(data: bytes, start: int, num_restarts: int) -> bool:
    """Whether the markers from a place on are the restart markers, in their order, and EOI."""
    found = _MARKER.finditer(data, start)
    expected = itertools.chain((_RST0 + number % 8 for number in range(num_restarts)), [_EOI])
    return all((marker := next(found, None)) is not None and marker[0][1] == each for each in expected)


def _is_opened(data: bytes) -> bool:
    """Whether Pillow opens it as a JPEG. It also reads the metadata, and refuses an image for some kinds of damage."""
    try:
        with open_image(data) as image:
            return image.format in _FORMATS
    except Exception:  # noqa: BLE001  # Pillow's readers of metadata raise anything
        return False
