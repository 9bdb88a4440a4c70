"""MDS: shards of MosaicML Streaming, raw or compressed, with an ``index.json``.

Version 2 (streaming/base/format/mds/writer.py, streaming/base/format/base/writer.py): the index has for each shard its
files with their sizes and hashes, the number of samples, and the columns. A shard is a chunk (see `chunks`). A sample
is the size of each column that has no fixed one (uint32), and the values, in the order of the columns.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Piece, split_name
from recordzoo.formats.chunked import Chunked
from recordzoo.formats.chunks import BAD_VALUE, check_end, decompressed, split_items
from recordzoo.formats.indexes import INDEX, check_there, file_in, find_indexes
from recordzoo.formats.mds_encodings import Encoding, encoding_of
from recordzoo.packages import need

LOOKS_FOR = f"{INDEX} beside shard.00000.mds, or in folders train, val, ..."

_BLOCK = 1 << 20
_COMPRESSIONS = ("zstd", "br", "gz", "bz2", "snappy")
_BY_PYARROW = ("zstd", "br", "snappy")
_XXHASHES = ("xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128")
_MAX_SHARD_BYTES = 1 << 32  # offsets have 32 bits


@dataclass(frozen=True, slots=True)
class _Shard:
    """What the index says of a shard.

    Attributes:
        path: The file that is there.
        size_bytes: Its size, and that of the shard when it is decompressed.
        hashes: Its digests in hexadecimal, by algorithm.
        compression: Of this file; "" if it is not compressed.
    """

    path: Path
    size_bytes: int
    raw_bytes: int
    hashes: Mapping[str, str]
    compression: str
    samples: int


def find(location: str, fields: Mapping[str, str]) -> "MDS | None":
    """See `Format`."""
    found = find_indexes(
        location, lambda document: isinstance(document, dict) and "shards" in document, "*shard.*.mds*"
    )
    return MDS(location, fields, found) if found else None


class MDS(Chunked):
    """The samples of the shards of an index, or of several: splits."""

    format = "mds"

    def __init__(
        self, location: str, fields: Mapping[str, str], indexes: list[tuple[str, Path, dict[str, Any]]]
    ) -> None:
        super().__init__(location, fields)
        self._shards: dict[str, _Shard] = {}
        self._columns: dict[str, Encoding] = {}
        pieces = []
        for split, folder, document in indexes:
            for name, shard in self._read_index(folder, document):
                name = f"{split}/{name}" if split else name
                pieces.append(Piece(name, shard.raw_bytes, (shard.path,), split=split_name(split)))
                self._shards[name] = shard
        self.pieces = pieces
        self._need_packages()
        self.look()

    def _read_index(self, folder: Path, document: dict[str, Any]) -> list[tuple[str, _Shard]]:
        """Return the name of each shard, and what is known of it.

        Raises:
            SourceError: A file is missing, or the index is not one that streaming writes.
        """
        path = folder / INDEX
        try:
            if document["version"] != 2:
                raise SourceError(f"{path}: its version is {document['version']!r}; version 2 is read.", path=str(path))
            shards = [_shard(folder, entry) for entry in document["shards"]]
            for number, entry in enumerate(document["shards"]):
                self._check_columns(entry, f"{path}, shard {number}")
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise SourceError(f"{path} is damaged ({type(err).__name__}: {err}).", path=str(path)) from err
        check_there([shard.path for _, shard in shards], folder)
        return shards

    def _check_columns(self, entry: dict[str, Any], where: str) -> None:
        """Compare the columns of a shard with those of the first one, and refuse pickles.

        Raises:
            SourceError: They differ, or one cannot be read.
        """
        names, encodings, sizes = entry["column_names"], entry["column_encodings"], entry["column_sizes"]
        columns = {
            str(name): encoding_of(text, f"{where}, column {name!r}")
            for name, text in zip(names, encodings, strict=True)
        }
        if len(columns) != len(names):
            raise SourceError(f"{where}: two of its columns have one name.")
        if self._columns and columns != self._columns:
            raise SourceError(f"{where}: its columns are other than those of the first shard.")
        for column, size in zip(columns.values(), sizes, strict=True):
            if (size or None) != column.size:
                raise SourceError(f"{where}: a column of {column.name} has {size!r} bytes instead of {column.size}.")
        self._columns = columns

    def _need_packages(self) -> None:
        for shard in self._shards.values():
            if shard.compression in _BY_PYARROW:
                need("pyarrow", "mds", f"MDS compressed with {shard.compression} is read")
            if any(name in _XXHASHES for name in shard.hashes):
                need("xxhash", "mds", "MDS with hashes of xxhash is read")

    @override
    def items(self, piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
        shard = self._shards[piece.name]
        where = str(shard.path)
        _check_file(shard)
        with ExitStack() as stack:
            file: BinaryIO = stack.enter_context(shard.path.open("rb"))
            if shard.compression:
                file = stack.enter_context(decompressed(file, shard.compression, shard.raw_bytes, where))
            for number, data in enumerate(split_items(file, shard.samples, where)):
                place = f"{where}, sample {number}"
                yield place, self._decode(data, place)
            check_end(file, where)

    def _decode(self, data: bytes, where: str) -> dict[str, Any]:
        free = [column for column in self._columns.values() if column.size is None]
        if len(data) < 4 * len(free):
            raise SourceError(f"{where}: it is damaged: it has {len(data)} bytes.")
        found = iter(struct.unpack_from(f"<{len(free)}I", data))
        sizes = [column.size if column.size is not None else next(found) for column in self._columns.values()]
        position = 4 * len(free)
        if position + sum(sizes) != len(data):
            raise SourceError(f"{where}: it is damaged: its values have other sizes than it says.")
        values = {}
        for (name, column), size in zip(self._columns.items(), sizes, strict=True):
            try:
                values[name] = column.decode(data[position : position + size])
            except BAD_VALUE as err:
                raise SourceError(f"{where}: column {name!r} is no {column.name} ({err}).") from err
            position += size
        return values


def _shard(folder: Path, entry: dict[str, Any]) -> tuple[str, _Shard]:
    """Read what the index says of a shard. KeyError, TypeError, ValueError: it is damaged.

    Raises:
        SourceError: It is of another format, or compressed in an unknown way.
    """
    path = folder / INDEX
    if entry["format"] != "mds":
        raise SourceError(f"{path}: a shard's format is {entry['format']!r}; only mds is read.", path=str(path))
    raw, packed, compression = entry["raw_data"], entry.get("zip_data"), ""
    there = file_in(folder, raw["basename"], path)
    info = raw
    if packed and not there.is_file():
        there, info, compression = file_in(folder, packed["basename"], path), packed, _compression(entry, path)
    sizes = info["bytes"], raw["bytes"], entry["samples"]
    if not all(isinstance(size, int) and 0 <= size < _MAX_SHARD_BYTES for size in sizes):
        raise ValueError(f"sizes {sizes}")
    hashes = {str(name): str(value) for name, value in info["hashes"].items()}
    shard = _Shard(there, sizes[0], sizes[1], hashes, compression, sizes[2])
    return str(raw["basename"]).removesuffix(".mds"), shard


def _compression(entry: dict[str, Any], index: Path) -> str:
    family = str(entry["compression"]).partition(":")[0]
    if family not in _COMPRESSIONS:
        raise SourceError(
            f"{index}: a shard is compressed with {entry['compression']!r}; known are {', '.join(_COMPRESSIONS)}.",
            path=str(index),
        )
    return family


def _check_file(shard: _Shard) -> None:
    """Compare a file's size and hashes with the index.

    Raises:
        SourceError: They differ.
    """
    size_bytes = shard.path.stat().st_size
    if size_bytes != shard.size_bytes:
        raise SourceError(
            f"{shard.path} has {size_bytes:,} bytes, and the index says {shard.size_bytes:,}; it is cut or damaged.",
            path=str(shard.path),
        )
    digests = {name: _hash(name, shard.path) for name in shard.hashes}
    with shard.path.open("rb") as file:
        while digests and (block := file.read(_BLOCK)):
            for digest in digests.values():
                digest.update(block)
    for name, digest in digests.items():
        if digest.hexdigest() != shard.hashes[name]:
            raise SourceError(
                f"{shard.path}: its {name} is not that of the index; it is damaged.", path=str(shard.path)
            )


# hashlib and xxhash have no common type.
def _hash(name: str, path: Path) -> "hashlib._Hash":
    if name in _XXHASHES:
        import xxhash

        return cast("hashlib._Hash", getattr(xxhash, name)())
    if name not in hashlib.algorithms_available or name.startswith("shake_"):
        raise SourceError(f"{path}: the index has a hash of {name!r}, which is not known.", path=str(path))
    return hashlib.new(name)
