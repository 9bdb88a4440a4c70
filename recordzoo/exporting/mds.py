"""MDS, the format of MosaicML Streaming: shards with an index of offsets, and ``index.json``.

A shard is the number of samples, the offset of each and of the end (all uint32), the columns as JSON, and the samples:
the sizes of the columns that have no fixed one (uint32), then all values (streaming/base/format/mds/writer.py and
encodings.py).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo import durable
from recordzoo.aliases import JSON
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.exporting.samples import Content, Field, Sample
from recordzoo.exporting.target import Shard, Target, Tick, Written, json_line, sync

_MAX_SHARD_BYTES = 2 << 30  # offsets have 32 bits, and a shard may be longer by one sample


class MDS(Target):
    """See `Target`: ``train/shard.00000.mds``, ... and ``train/index.json``."""

    name = "mds"
    shard_bytes = 64 << 20

    def __init__(self, content: Content, splits: Sequence[str]) -> None:
        super().__init__(content, splits)
        columns: dict[str, tuple[str, int | None]] = {
            "image": ("png" if content.is_raw else "jpeg", None),
            "name": ("str", None),
        }
        if content.has_labels:
            columns["label"] = ("int", 8)
        columns |= {_column(field): _encoding(field) for field in content.fields}
        self._columns = dict(sorted(columns.items()))

    @override
    def shards(self, splits: Mapping[str, NDArray[np.int64]], shard_bytes: int) -> list[Shard]:
        if shard_bytes > _MAX_SHARD_BYTES:
            raise ArgumentError(f"Argument shard_bytes is {shard_bytes:,}; a shard of MDS has 2 GiB at most.")
        self._size_limit = shard_bytes
        return super().shards(splits, shard_bytes)

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Written:
        name = "/".join(filter(None, (self.split_folder(shard.split), f"shard.{shard.number:05d}.mds")))
        (folder / name).parent.mkdir(exist_ok=True)
        config = json.dumps(self._config(), sort_keys=True).encode()
        offsets = np.zeros(1 + len(shard.positions), np.int64)
        offsets[0] = 4 + 4 * len(offsets) + len(config)
        with open(folder / name, "wb") as file:
            file.seek(int(offsets[0]))
            for number, sample in self.samples(shard, tick):
                data = self._sample(sample)
                file.write(data)
                offsets[number + 1] = offsets[number] + len(data)
            file.seek(0)
            file.write(np.uint32(len(shard.positions)).tobytes() + offsets.astype("<u4").tobytes() + config)
            sync(file)
            return Written({name: file.tell()})

    @override
    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Written]) -> None:
        super().finish(folder, shards, written)
        found: dict[str, list[JSON]] = {}
        for shard, each in zip(shards, written, strict=True):
            ((name, size_bytes),) = each.files.items()
            raw: JSON = {"basename": name.rpartition("/")[2], "bytes": size_bytes, "hashes": {}}
            entry = {**self._config(), "samples": len(shard.positions), "raw_data": raw, "zip_data": None}
            found.setdefault(self.split_folder(shard.split), []).append(entry)
        for name, entries in found.items():
            place = folder / name
            durable.write_file(place / "index.json", json_line({"version": 2, "shards": entries}))
            durable.sync_directory(place)

    def _config(self) -> dict[str, JSON]:
        return {
            "version": 2,
            "format": "mds",
            "compression": None,
            "hashes": [],
            "size_limit": self._size_limit,
            "column_names": list(self._columns),
            "column_encodings": [encoding for encoding, _ in self._columns.values()],
            "column_sizes": [size for _, size in self._columns.values()],
        }

    def _sample(self, sample: Sample) -> bytes:
        values = {"image": sample.image, "name": sample.name.encode()}
        if sample.label is not None:
            values["label"] = np.int64(sample.label).tobytes()
        for field in self.content.fields:
            values[_column(field)] = self._value(field, sample)
        ordered = [(values[name], size) for name, (_, size) in self._columns.items()]
        sizes = np.array([len(value) for value, size in ordered if size is None], "<u4")
        return sizes.tobytes() + b"".join(value for value, _ in ordered)

    def _value(self, field: Field, sample: Sample) -> bytes:
        value = sample.fields[field.name]
        if field.kind == "json":
            return json_line(value)[:-1]
        if value is None:
            raise OtherSourceError(
                f"{self.content.reader.path}: record {sample.name!r} has no {field.name!r}; MDS has no place for that."
            )
        return bytes(value) if field.kind in ("image", "bytes") else _numbers(field, value)


# Any: numbers, or an array of them.
def _numbers(field: Field, value: Any) -> bytes:
    array = np.asarray(value, _dtype(field))
    if field.kind == "numbers":
        return array.tobytes()
    wide = next(number for number in (1, 2, 4, 8) if max(array.shape, default=0) < 1 << 8 * number)
    shape = np.array(array.shape, f"<u{wide}").tobytes()
    return bytes([array.ndim << 2 | (wide.bit_length() - 1)]) + shape + array.tobytes()


def _dtype(field: Field) -> str:
    return "uint8" if field.dtype == "bool" else field.dtype


def _column(field: Field) -> str:
    """Return a field's column: its name, if that is none of ours."""
    return f"{field.name}_field" if field.name in ("label", "name") else field.name


def _encoding(field: Field) -> tuple[str, int | None]:
    """Return the encoding of a column, and the size of its values, if they all have one."""
    if field.kind in ("image", "bytes", "json"):
        return {"image": "jpeg", "bytes": "bytes", "json": "json"}[field.kind], None
    dtype = _dtype(field)
    if field.kind == "raw":
        return f"ndarray:{dtype}", None
    size = int(np.dtype(dtype).itemsize * np.prod(field.shape))
    return (f"ndarray:{dtype}:{','.join(map(str, field.shape))}" if field.shape else dtype), size
