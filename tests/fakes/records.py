"""Small record sets, written straight through the writer, and ways to damage them that leave the rest consistent."""

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.records.arrays import INDEX_DTYPE
from recordzoo.records.manifest import (
    MANIFEST_NAME,
    NO_SHARD,
    BlobSpec,
    Manifest,
    SetKind,
    ShardSpec,
    own_hash,
    shard_name,
)
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import ShardWriter, seal, stored_bytes
from recordzoo.records.writer import write_set


def some_values(count: int, *, sizes: Sequence[int] = (30, 700, 5000, 40_000), seed: int = 0) -> list[bytes]:
    """Random bytes, of these sizes in turn: inline in a tree page, and on pages of their own."""
    rng = np.random.default_rng(seed)
    return [rng.bytes(sizes[i % len(sizes)]) for i in range(count)]


def some_names(count: int) -> list[str]:
    return [f"class {i % 3}/{i:04d}.jpg" for i in range(count)]


def write_records(
    folder: Path,
    values: Sequence[bytes | None],
    *,
    per_shard: int = 1000,
    names: Sequence[str] | None = None,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    kind: SetKind = SetKind.ZOO,
    dataset: str = "fake",
    encoding: str = "bytes",
    blob: BlobSpec | None = None,
    **contents: Any,
) -> Path:
    """Write a record set whose field "image" has these values; None: the position has none.

    Values are stored in another order than the canonical one, `per_shard` in a shard. There is an array "target".
    """
    folder.mkdir(parents=True)
    index = np.zeros(len(values), INDEX_DTYPE)
    index["shard"] = NO_SHARD
    order = [int(i) for i in np.random.default_rng(7).permutation(len(values)) if values[i] is not None]
    specs = []
    for number, start in enumerate(range(0, len(order), per_shard)):
        stored = order[start : start + per_shard]
        blobs = [values[position] or b"" for position in stored]
        lengths, crcs = [len(blob) for blob in blobs], [zlib.crc32(blob) for blob in blobs]
        path = folder / shard_name(number)
        with ShardWriter(path, 2 * sum(map(stored_bytes, lengths)) + (1 << 20)) as writer:
            assert [writer.put(blob) for blob in blobs] == list(range(len(blobs)))
        spec, offsets = seal(path, lengths, crcs)
        for slot, position in enumerate(stored):
            index[position] = (number, slot, lengths[slot], crcs[slot], offsets[slot])
        specs.append(spec)
    if names is None:
        names = some_names(len(values))
    if arrays is None:
        arrays = {"target": np.arange(len(values), dtype=np.int64)}
    others = {key: contents.pop(key) for key in ("splits", "classes", "marks", "extras") if key in contents}
    fields = {"image": blob or BlobSpec(encoding)}
    manifest = fake_manifest(kind=kind, dataset=dataset, blobs=fields, shards=tuple(specs), **contents)
    write_set(folder, manifest, names, {"image": index}, arrays=arrays, **others)
    return folder


# Any: what `Manifest` takes.
def fake_manifest(**others: Any) -> Manifest:
    """Give the manifest of a record set, by default of one without fields."""
    usual = {"kind": SetKind.ZOO, "dataset": "fake", "part": "", "variant": "original", "blobs": {}, "shards": ()}
    return Manifest(**{**usual, **others})


def many_missing(folder: Path, count: int) -> Path:
    """Write the manifest and arrays of an empty record set that names so many shards; none of them is there."""
    shards = [ShardSpec(shard_name(number), 4096, 1, 4096, 2, f"sha256:{0:064}") for number in range(count)]
    folder.mkdir()
    write_set(folder, fake_manifest(shards=tuple(shards)), [], {})
    return folder


# Any: JSON values.
def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest as its author could: it names its own hash."""
    path = folder / MANIFEST_NAME
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(signed(json.dumps(document, sort_keys=True, indent=1).encode()))


def signed(data: bytes) -> bytes:
    """Put the right hash into a manifest's bytes."""
    return re.sub(rb'(\n "hash": ")sha256:[0-9a-f]{64}"', lambda match: match[1] + own_hash(data).encode() + b'"', data)


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def flip_byte(path: Path, offset: int) -> None:
    """Flip a bit of a byte, in another inode: other names of the file, as in sets that share it, stay as they are."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.unlink()
    path.write_bytes(data)


def place_of(records: Path, position: int, field: str = "image") -> tuple[Path, int]:
    """The shard of a value, and where in it the value begins."""
    reader = RecordReader(records)
    row = reader.array(f"{field}.index")[position]
    return records / reader.manifest.shards[row["shard"]].name, int(row["offset"])
