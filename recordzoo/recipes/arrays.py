"""Datasets with many images as arrays in a few files: IDX, pickles, .mat, raw bytes, text, HDF5."""

import hashlib
import io
import math
import shutil
import tempfile
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.archive import decompressed
from recordzoo.raw.member import Member, OnePassFile
from recordzoo.recipes.declared import DeclaredRecipe
from recordzoo.recipes.recipe import Blob, Sidecar, Stored, Table
from recordzoo.records.arrays import MAX_HEADER_BYTES, array_of, header_of
from recordzoo.records.manifest import BlobSpec

Chunk = Mapping[str, NDArray[Any]]
"""Consecutive samples: "image" uint8 [n, H, W] or [n, H, W, C], and any other field [n, ...]."""

Splits = Mapping[str, Sequence[str | tuple[str, ...]]]

_CHUNK_BYTES = 3 << 20

_COLUMN = "\0"  # in the name of a sidecar, between file and field


class ArraysRecipe(DeclaredRecipe):
    """A recipe for which subclasses define the files of each split and how to decode a file.

    Attributes:
        splits: The files of each split, in order. Files in a tuple have different fields of the same samples. A part
            whose name is a split's is that split; "{part}" in a file's name is the part.
        unpacked: The folder of the files in the archive and the tree, with a final "/"; "" for none.
        texts: Small files that `build_table` reads: class names, folds. A tree may lack them.
        image_shape: Shape of every image, [H, W] or [H, W, C].
    """

    splits: ClassVar[Splits]
    unpacked: ClassVar[str] = ""
    texts: ClassVar[Sequence[str]] = ()
    image_shape: ClassVar[tuple[int, ...]]

    @abstractmethod
    def decode(self, name: str, file: BinaryIO) -> Iterable[Chunk]:
        """Decode a file; a large one in chunks.

        Args:
            name: One of `files`.
            file: Its bytes, in order; possibly not seekable.

        Raises:
            SourceError, ValueError, KeyError: It is damaged or another file.
        """

    def encode(self, image: NDArray[np.uint8]) -> bytes:
        """Encode an image as `fields` says. Default: its pixels."""
        return image.tobytes()

    def classes(self, texts: Mapping[str, bytes]) -> Sequence[str] | None:
        """Return the class names. Default: those in the catalogue.

        Args:
            texts: The contents of the existing files of `texts`.

        Raises:
            SourceError, ValueError, KeyError: They are damaged or other files.
        """
        return self.entry.classes

    @property
    @override
    def fields(self) -> Mapping[str, BlobSpec]:  # type: ignore[override]  # a constant of other recipes
        return {"image": BlobSpec("raw", self.image_shape, "|u1")}

    @property
    def groups(self) -> Mapping[str, Sequence[tuple[str, ...]]]:
        """The files of each split of the part."""
        chosen = [self.part] if self.part in self.splits else self.splits
        return {split: [_group(files, self.part) for files in self.splits[split]] for split in chosen}

    @property
    def files(self) -> tuple[str, ...]:
        """All files of all these splits, each once."""
        groups = [group for split in self.groups.values() for group in split]
        return tuple(dict.fromkeys(file for group in groups for file in group))

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        if not all((base / self.unpacked / file).is_file() for file in self.files):
            return None
        there = [*self.files, *(text for text in self.texts if (base / self.unpacked / text).is_file())]
        return [self.unpacked + file for file in there]

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self.unpacked] if self.unpacked else [self.files[0]]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        member = decompressed(member)
        name = member.name.removeprefix(self.unpacked) if self.unpacked else PurePosixPath(member.name).name
        if name in self.texts:
            data = member.read()
            self.compare_md5(name, hashlib.md5(data, usedforsecurity=False).hexdigest(), self.unpacked)
            yield Sidecar(name, data)
        elif name in self.files:
            yield from self._samples(name, member)

    def _samples(self, name: str, member: Member) -> Iterator[Blob | Sidecar]:
        columns: dict[str, list[NDArray[Any]]] = {}
        count = 0
        try:
            with member.open() as file:
                hashed = _Hashed(file)
                for chunk in self.decode(name, hashed):  # type: ignore[arg-type]  # can be read like a file
                    for field, values in chunk.items():
                        if field != "image":
                            columns.setdefault(field, []).append(values)
                            continue
                        for image in self._images(values):
                            yield Blob("image", f"{name}/{count:05d}", self.encode(image))
                            count += 1
                self.compare_md5(name, hashed.rest(), self.unpacked)
        except (ValueError, LookupError, TypeError, AttributeError) as err:
            raise SourceError(f"{member.name} is not a file of {self.dataset}: {err}") from err
        for field, parts in columns.items():
            yield Sidecar(f"{name}{_COLUMN}{field}", _to_bytes(np.concatenate(parts)))

    # Any: values from a file.
    def _images(self, images: NDArray[Any]) -> NDArray[np.uint8]:
        if images.dtype != np.uint8 or images.shape[1:] != self.image_shape:
            raise ValueError(f"its images are {images.dtype} {images.shape[1:]}, not uint8 {self.image_shape}")
        return images

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        lengths = Counter(key.rpartition("/")[0] for key in stored.keys["image"])
        names: list[str] = []
        columns: dict[str, list[NDArray[Any]]] = {}
        positions: dict[str, NDArray[np.int64]] = {}
        for split, groups in self.groups.items():
            start = len(names)
            for group in groups:
                names += [f"{file}/{index:05d}" for file in group for index in range(lengths[file])]
                for field, values in self._columns(group, sidecars):
                    columns.setdefault(field, []).append(values)
            if len(names) > start:  # skip a split without files
                positions[split] = np.arange(start, len(names), dtype=np.int64)
        if not names:
            raise self.no_image(" or ".join(self.files))
        arrays = {field: np.concatenate(parts) for field, parts in columns.items()}
        if wrong := [field for field, values in arrays.items() if len(values) != len(names)]:
            counts = ", ".join(f"{field} {len(arrays[field]):,}" for field in wrong)
            raise SourceError(f"{self.dataset}: there are {len(names):,} images, but {counts}.")
        texts = {name: sidecars[name] for name in self.texts if name in sidecars}
        return Table(names=names, arrays=arrays, splits=positions, classes=self.classes(texts))

    # Any: of whatever dtype.
    def _columns(self, group: tuple[str, ...], sidecars: Mapping[str, bytes]) -> Iterator[tuple[str, NDArray[Any]]]:
        for name, data in sidecars.items():
            file, is_column, field = name.partition(_COLUMN)
            if is_column and file in group:
                yield field, array_of(data)


# Any: of whatever dtype.
def read_npy(file: BinaryIO) -> Iterator[NDArray[Any]]:
    """Read a `.npy` file in order, in chunks of its first axis; whole if that axis is not the outermost in the file.

    Raises:
        ValueError: It is damaged, cut, or holds Python objects.
    """
    left = file.read(MAX_HEADER_BYTES)
    header = header_of(left)
    if header.is_fortran:
        yield array_of(left + file.read(), header)
    else:
        yield from read_rows(file, header.dtype, header.shape, left[header.size_bytes :])


# Any: of whatever dtype.
def read_rows(file: BinaryIO, dtype: DTypeLike, shape: Sequence[int], left: bytes = b"") -> Iterator[NDArray[Any]]:
    """Read the rest of a file, an array after a header, in chunks of the first axis.

    Args:
        file: The file.
        dtype: The array's type.
        shape: The array's shape.
        left: What was read of the array together with the header.

    Raises:
        ValueError: The array is cut, or something follows it.
    """
    count, row_bytes = 0, np.dtype(dtype).itemsize * math.prod(shape[1:]) or 1
    chunk_bytes = max(_CHUNK_BYTES // row_bytes, 1) * row_bytes
    while data := left + file.read(max(chunk_bytes - len(left), 0)):
        values = np.frombuffer(data, dtype).reshape(-1, *shape[1:])
        count, left = count + len(values), b""
        yield values
    if count != shape[0]:
        raise ValueError(f"it has {count:,} of {shape[0]:,} rows")


@contextmanager
def seekable(file: BinaryIO) -> Iterator[IO[bytes]]:
    """Yield a seekable file, for formats that cannot be read in order.

    Compressed files and members of archives are copied to a temporary file (``TMPDIR``).
    """
    whole = file.whole() if isinstance(file, _Hashed) else None
    if whole is not None:
        yield whole
        return
    with tempfile.TemporaryFile(prefix="recordzoo-") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.seek(0)
        yield copy


def _group(files: str | tuple[str, ...], part: str) -> tuple[str, ...]:
    names = (files,) if isinstance(files, str) else files
    return tuple(name.replace("{part}", part) for name in names)


class _Hashed(OnePassFile):
    """Hashes a file while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._md5 = hashlib.md5(usedforsecurity=False)

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        data = self._file.read(-1 if size is None else size)
        self._md5.update(data)
        return data

    def whole(self) -> BinaryIO | None:
        """Hash the rest and return the file itself, at its start; None if it is not seekable."""
        if not self._file.seekable():
            return None
        self.rest()
        whole, self._file = self._file, io.BytesIO()  # nothing is left to hash
        whole.seek(0)
        return whole

    def rest(self) -> str:
        """Read to the end and return the MD5."""
        while self.read(1 << 20):
            pass
        return self._md5.hexdigest()


# Any: of whatever dtype.
def _to_bytes(values: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()
