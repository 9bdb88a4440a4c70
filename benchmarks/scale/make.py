"""A record set of any number of samples: real arrays, real JPEGs in one shard file that has many names.

Every shard is a hard link to one file of 10,000 small photographs, so 100 million samples are 10,000 shards that take
30 MB together. The arrays are as long as they would be; 100 million samples have 7 GB of them.
"""

import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.base.files import hash_text
from recordzoo.records.arrays import INDEX_DTYPE, file_name, marks_name, pack_marks
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    ArraySpec,
    BlobSpec,
    FieldKind,
    FieldSpec,
    Manifest,
    SetKind,
    ShardSpec,
    shard_name,
)

IN_SHARD = 10_000
CLASS_SIZE = 1000
SIDE = 64
_AT_ONCE = 1 << 20
_NAME = "n00000000/n00000000_000000000.JPEG"


def name_of(number: int) -> str:
    """Return the name of a sample."""
    return f"n{number // CLASS_SIZE:08d}/n{number // CLASS_SIZE:08d}_{number:09d}.JPEG"


def make(folder: Path, num_samples: int) -> None:
    """Write a record set of class folders with so many samples."""
    folder.mkdir(parents=True)
    rows, shard = _write_shard(folder / shard_name(0))
    shards = [shard]
    for number in range(1, -(-num_samples // IN_SHARD)):
        os.link(folder / shard.name, folder / shard_name(number))
        shards.append(ShardSpec(shard_name(number), *_facts(shard)))

    def index(numbers: NDArray[np.int64]) -> NDArray[Any]:
        found = rows[numbers % IN_SHARD]
        found["shard"] = numbers // IN_SHARD
        return found

    def arrays(name: str, dtype: np.dtype[Any], width: int, values: Callable[[NDArray[np.int64]], Any]) -> ArraySpec:
        return _write_array(folder, name, dtype, num_samples, width, values)

    offsets = _write_array(
        folder,
        "names_offsets",
        np.dtype("<u8"),
        num_samples + 1,
        1,
        lambda numbers: (numbers * len(_NAME)).astype(np.uint64),
    )
    specs = {
        "image.index": arrays("image.index", INDEX_DTYPE, 1, index),
        "names": arrays("names", np.dtype("|u1"), len(_NAME), _names),
        "names_offsets": offsets,
        "target": arrays("target", np.dtype("<i8"), 1, lambda numbers: numbers // CLASS_SIZE),
    }
    classes = tuple(f"n{number:08d}" for number in range(-(-num_samples // CLASS_SIZE)))
    manifest = Manifest(
        kind=SetKind.FOLDER,
        dataset="folder",
        part="",
        variant="original",
        num_records=num_samples,
        blobs={"image": BlobSpec("image")},
        arrays=specs,
        splits={},
        shards=tuple(shards),
        fields={"image": FieldSpec(FieldKind.IMAGE), "target": FieldSpec(FieldKind.CLASS, classes)},
        default_target="target",
        source="tree",
        metadata={"selection": "", "empty_classes": []},
    )
    marks = pack_marks(np.ones(num_samples, np.uint8), specs["image.index"])
    (folder / marks_name("image")).write_bytes(marks)
    (folder / MANIFEST_NAME).write_bytes(manifest.to_bytes())


def _facts(shard: ShardSpec) -> tuple[Any, ...]:
    return shard.size_bytes, shard.num_values, shard.page_size, shard.last_page, shard.hash


def _write_shard(path: Path) -> tuple[NDArray[Any], ShardSpec]:
    """Write photographs one behind the other; return their index rows."""
    rng = np.random.default_rng(0)
    rows = np.zeros(IN_SHARD, INDEX_DTYPE)
    digest, offset = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for slot in range(IN_SHARD):
            buffer = io.BytesIO()
            coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(buffer, "JPEG")
            data = buffer.getvalue()
            rows[slot] = (0, slot, len(data), zlib.crc32(data), offset)
            file.write(data)
            digest.update(data)
            offset += len(data)
    return rows, ShardSpec(path.name, offset, IN_SHARD, 4096, offset // 4096, hash_text(digest))


def _names(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return `name_of` of numbers, uint8 [n, length]."""
    names = np.tile(np.frombuffer(_NAME.encode(), np.uint8), (len(numbers), 1))
    _put_digits(names, 1, 8, numbers // CLASS_SIZE)
    _put_digits(names, 11, 8, numbers // CLASS_SIZE)
    _put_digits(names, 20, 9, numbers)
    return names


def _put_digits(names: NDArray[np.uint8], at: int, count: int, numbers: NDArray[np.int64]) -> None:
    for digit in range(count):
        names[:, at + count - 1 - digit] = ord("0") + numbers // 10**digit % 10


def _write_array(
    folder: Path,
    name: str,
    dtype: np.dtype[Any],
    length: int,
    width: int,
    values: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> ArraySpec:
    """Write an array in parts, `width` numbers for each sample."""
    header = io.BytesIO()
    shape = (length * width,)
    np.lib.format.write_array_header_1_0(
        header, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    crc, size, digest = 0, 0, hashlib.sha256()
    with open(folder / file_name(name), "wb") as file:
        for data in _parts(header.getvalue(), dtype, length, values):
            file.write(data)
            digest.update(data)
            crc, size = zlib.crc32(data, crc), size + len(data)
    return ArraySpec("" if dtype == INDEX_DTYPE else dtype.str, shape, size, crc, hash_text(digest))


def _parts(
    header: bytes, dtype: np.dtype[Any], length: int, values: Callable[[NDArray[np.int64]], NDArray[Any]]
) -> Iterator[bytes]:
    yield header
    for start in range(0, length, _AT_ONCE):
        yield values(np.arange(start, min(start + _AT_ONCE, length))).astype(dtype, copy=False).tobytes()
