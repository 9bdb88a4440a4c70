"""LitData: chunks of Lightning's ``litdata.optimize``, raw or compressed, with an ``index.json``.

The index (litdata/streaming/writer.py) has the chunks and one configuration: ``data_spec``, the tree of dicts, lists
and tuples that a sample is, and ``data_format``, how each of its leaves is stored. `litdata_chunks` reads the chunks.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.formats.base import Piece, split_name
from recordzoo.formats.chunked import Chunked
from recordzoo.formats.chunks import BAD_VALUE
from recordzoo.formats.indexes import INDEX, check_there, file_in, find_indexes
from recordzoo.formats.litdata_chunks import read_chunk
from recordzoo.formats.litdata_leaves import Leaf, leaf_of

LOOKS_FOR = f"{INDEX} beside chunk-0-0.bin, or in folders train, val, ..."

_MAX_DEPTH = 50


def find(location: str, fields: Mapping[str, str]) -> "LitData | None":
    """See `Format`."""
    found = find_indexes(location, lambda document: isinstance(document, dict) and "chunks" in document, "chunk-*.bin")
    return LitData(location, fields, found) if found else None


class LitData(Chunked):
    """The samples of the chunks of an index, or of several: splits. Keys are paths in a sample: ``boxes/0``."""

    format = "litdata"

    def __init__(
        self, location: str, fields: Mapping[str, str], indexes: list[tuple[str, Path, dict[str, Any]]]
    ) -> None:
        super().__init__(location, fields)
        self._leaves: dict[tuple[str, ...], Leaf] = {}
        self._more: list[str] = []
        self._samples: dict[str, int] = {}
        self._compression: dict[str, str] = {}
        pieces: list[Piece] = []
        for split, folder, document in indexes:
            try:
                pieces += self._read_index(split, folder, document)
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as err:
                raise SourceError(f"{folder / INDEX} is damaged ({type(err).__name__}: {err}).") from err
            check_there([piece.files[0] for piece in pieces if piece.split == split_name(split)], folder)
        self.pieces = pieces
        self.look()

    def _read_index(self, split: str, folder: Path, document: dict[str, Any]) -> Iterator[Piece]:
        """Yield the chunks of an index. KeyError, TypeError, ValueError: it is damaged.

        Raises:
            SourceError: It has what is not read, or other leaves than the index before.
        """
        index, config = folder / INDEX, document["config"]
        _check_config(config, index)
        paths = _paths(json.loads(config["data_spec"])[1]) if config["data_spec"] else [()]
        leaves = {
            path or ("0",): leaf_of(str(text), f"{index}, {'/'.join(path) or 'the sample'}")
            for path, text in zip(paths, config["data_format"], strict=True)
        }
        types = config.get("types")
        tops = {path[0] for path in leaves}
        more = [key for key in types if key not in tops] if isinstance(types, dict) and "kind" not in types else []
        if self._leaves and (leaves, more) != (self._leaves, self._more):
            raise SourceError(f"{index}: its samples are other than those of the first index.", path=str(index))
        self._leaves, self._more = leaves, more
        for entry in document["chunks"]:
            path, compression = _file(folder, entry["filename"], config)
            name = f"{split}/{entry['filename']}" if split else str(entry["filename"])
            if not isinstance(entry["chunk_size"], int) or not 0 <= entry["chunk_size"] < 1 << 30:
                raise ValueError(f"chunk_size {entry['chunk_size']!r}")
            name = name.removesuffix(".bin")
            self._samples[name] = entry["chunk_size"]
            self._compression[name] = compression
            yield Piece(name, int(entry["chunk_bytes"]), (path,), split=split_name(split))

    @override
    def items(self, piece: Piece) -> Iterator[tuple[str, dict[str, Any]]]:
        (path,) = piece.files
        chunk = read_chunk(path, self._samples[piece.name], self._compression[piece.name])
        for number, item in enumerate(chunk):
            where = f"{path}, sample {number}"
            yield where, self._decode(item, where) if isinstance(item, bytes) else self._of_row(item)

    def _of_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        values = {}
        for path in [*self._leaves, *((key,) for key in self._more)]:
            value: Any = row
            for key in path:
                value = value.get(key) if isinstance(value, dict) else None
            values["/".join(path)] = value
        return values

    def _decode(self, data: bytes, where: str) -> dict[str, Any]:
        count = len(self._leaves)
        if len(data) < 4 * count:
            raise SourceError(f"{where}: it is damaged: it has {len(data)} bytes.")
        sizes = struct.unpack_from(f"<{count}I", data)
        if 4 * count + sum(sizes) != len(data):
            raise SourceError(f"{where}: it is damaged: its values have other sizes than it says.")
        values, position = dict.fromkeys(self._more), 4 * count
        for (path, leaf), size in zip(self._leaves.items(), sizes, strict=True):
            key = "/".join(path)
            if leaf.decode is None:
                raise SourceError(
                    f"{where}: {key!r} is stored as {leaf.name}: with Python's pickle, which may run code when it is "
                    "read. Write it again as bytes, text, numbers, an array or an image."
                )
            try:
                values[key] = leaf.decode(data[position : position + size])
            except BAD_VALUE as err:
                raise SourceError(f"{where}: {key!r} is no {leaf.name} ({err}).") from err
            position += size
        return values


def _check_config(config: dict[str, Any], index: Path) -> None:
    """Refuse what is not read.

    Raises:
        SourceError: Chunks are encrypted, or not items of a tree.
    """
    if config.get("encryption"):
        raise SourceError(f"{index}: the chunks are encrypted, which is not read.", path=str(index))
    loader = config.get("item_loader") or "PyTreeLoader"
    if loader != "PyTreeLoader":
        raise SourceError(f"{index}: the chunks are for {loader}; those for PyTreeLoader are read.", path=str(index))
    if not config["data_format"]:
        raise SourceError(f"{index}: it has no data_format, so it is not known how values are stored.", path=str(index))


def _file(folder: Path, filename: str, config: Mapping[str, Any]) -> tuple[Path, str]:
    """Return a chunk's file, and how it is compressed, as `read_chunk` has it.

    Raises:
        SourceError: It is compressed in an unknown way.
    """
    index = folder / INDEX
    path = file_in(folder, filename, index)
    name, level = config.get("compression"), config.get("compression_level") or "chunk"
    if not name:
        return path, ""
    if str(name).partition(":")[0] != "zstd" or level not in ("chunk", "batch", "sample"):
        raise SourceError(f"{index}: chunks are compressed with {name!r}, by {level!r}; only zstd is read.")
    if level == "sample":
        return path, "sample"
    unpacked = path.with_name(path.name.removesuffix(f".{name}.bin") + ".bin")  # litdata puts it there when it reads
    if level == "batch" or not path.name.endswith(f".{name}.bin"):
        return path, ""
    return (unpacked, "") if unpacked.is_file() and not path.is_file() else (path, "chunk")


def _paths(spec: dict[str, Any], depth: int = 0) -> list[tuple[str, ...]]:
    """Return the path of each leaf of a tree, as ``treespec_dumps`` writes it (torch/utils/_pytree.py).

    No type of it is imported: it is only known which have keys.
    """
    if spec["type"] is None:
        return [()]
    if depth > _MAX_DEPTH:
        raise ValueError("a tree of more than 50 levels")
    children = spec["children_spec"]
    context = json.loads(spec["context"]) if isinstance(spec["context"], str) else spec["context"]
    if isinstance(context, dict):  # of a defaultdict
        context = context.get("dict_context")
    keys = list(map(str, context)) if isinstance(context, list) else list(map(str, range(len(children))))
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise ValueError(f"a {spec['type']} of {len(children)} with {len(keys)} keys")
    return [(key, *path) for key, child in zip(keys, children, strict=True) for path in _paths(child, depth + 1)]
