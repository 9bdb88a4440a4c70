"""Store the facts of finished shards and units as files and journal lines of a build directory."""

import hashlib
import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base import durable
from recordzoo.base.arrays import AnyArray
from recordzoo.base.types import JSON
from recordzoo.errors import PrepareError
from recordzoo.recipes.jpeg import UNKNOWN
from recordzoo.records.arrays import Names, pack_names
from recordzoo.system.npy import arrays_of


def shard_stem(unit: int, number: int) -> str:
    """Return the name of a shard in the build directory, without an ending."""
    return f"u{unit:05d}-s{number:04d}"


def sidecars_name(unit: int) -> str:
    """Return the name of a unit's side files in the build directory."""
    return f"u{unit:05d}.sidecars.npz"


@dataclass(frozen=True, slots=True)
class ShardDone:
    """A finished shard: its unit, its number in the unit, the facts for the manifest, the digest of its rows.

    `num_images` counts the values of the recipe's main field, not labels or masks.
    """

    unit: int
    number: int
    num_values: int
    size_bytes: int
    page_size: int
    last_page: int
    hash: str
    rows: str
    num_images: int = 0

    @property
    def name(self) -> str:
        """Its `shard_stem`."""
        return shard_stem(self.unit, self.number)


@dataclass(frozen=True, slots=True)
class UnitDone:
    """A finished unit: its shards, the digest of its side files, its broken images, `Unit.stamp`."""

    unit: int
    shards: tuple[ShardDone, ...]
    sidecars: str
    bad: Mapping[str, str]
    skipped: Mapping[str, Mapping[str, str]]
    stamp: str = ""

    def to_json(self) -> dict[str, JSON]:
        """The journal line, without the shards: each has its own."""
        line = asdict(self)
        line["shards"] = len(self.shards)
        return line


@dataclass
class ShardRows:
    """The values of a shard by slot: field, key, length in bytes, CRC-32 and mark."""

    fields: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    crcs: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)

    def append(self, field_name: str, key: str, length: int, crc: int, mark: int) -> None:
        """Note the next slot."""
        self.fields.append(field_name)
        self.keys.append(key)
        self.lengths.append(length)
        self.crcs.append(crc)
        self.marks.append(mark)


@dataclass(frozen=True)
class LoadedRows:
    """`ShardRows` read back, as arrays, with the offsets that sealing found."""

    field_names: Sequence[str]
    fields: NDArray[np.uint8]
    names: Names
    lengths: NDArray[np.uint32]
    crcs: NDArray[np.uint32]
    marks: NDArray[np.uint8]
    offsets: NDArray[np.uint64]

    def values(self) -> Iterator[tuple[str, str, int]]:
        """Field, key and CRC-32 of each value, by slot."""
        for number, name, crc in zip(self.fields.tolist(), self.names, self.crcs.tolist(), strict=True):
            yield self.field_names[number], name, crc


def save_rows(folder: Path, name: str, rows: ShardRows, offsets: NDArray[np.uint64]) -> str:
    """Write a shard's rows beside it and return their digest."""
    field_names = sorted(set(rows.fields))
    numbers = {field_name: number for number, field_name in enumerate(field_names)}
    packed, bounds = pack_names(rows.keys)
    return _save(
        folder / f"{name}.rows.npz",
        field_names=np.array(field_names, dtype=np.str_),
        fields=np.array([numbers[field_name] for field_name in rows.fields], np.uint8),
        packed=packed,
        bounds=bounds,
        lengths=np.array(rows.lengths, np.uint32),
        crcs=np.array(rows.crcs, np.uint32),
        marks=np.array(rows.marks, np.uint8),
        offsets=offsets,
    )


def load_rows(folder: Path, shard: ShardDone) -> LoadedRows:
    """Read a shard's rows."""
    arrays = _load(folder / f"{shard.name}.rows.npz", shard.rows)
    return LoadedRows(
        field_names=arrays["field_names"].tolist(),
        fields=arrays["fields"],
        names=Names(arrays["packed"], arrays["bounds"]),
        lengths=arrays["lengths"],
        crcs=arrays["crcs"],
        # Builds of an earlier version have no marks.
        marks=arrays.get("marks", np.full(len(arrays["crcs"]), UNKNOWN, np.uint8)),
        offsets=arrays["offsets"],
    )


def save_sidecars(folder: Path, unit: int, sidecars: Mapping[str, bytes]) -> str:
    """Write a unit's side files and return their digest."""
    packed, bounds = pack_names(list(sidecars))
    sizes = np.array([len(data) for data in sidecars.values()], np.int64)
    content = np.frombuffer(b"".join(sidecars.values()), np.uint8)
    path = folder / sidecars_name(unit)
    digest = _save(path, packed=packed, bounds=bounds, sizes=sizes, content=content)
    durable.sync_directory(folder)
    return digest


def has_sidecars(folder: Path, unit: UnitDone) -> bool:
    """Whether a unit's side files exist unchanged."""
    try:
        load_sidecars(folder, unit)
    except PrepareError:
        return False
    return True


def load_sidecars(folder: Path, unit: UnitDone) -> dict[str, bytes]:
    """Read a unit's side files."""
    arrays = _load(folder / sidecars_name(unit.unit), unit.sidecars)
    ends = np.cumsum(arrays["sizes"]).tolist()
    content = arrays["content"]
    names = Names(arrays["packed"], arrays["bounds"])
    starts = [0, *ends]
    return {name: content[start:end].tobytes() for name, start, end in zip(names, starts, ends, strict=False)}


def _save(path: Path, **arrays: AnyArray) -> str:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    data = buffer.getvalue()
    # Two workers may convert the same unit: the second must not overwrite files that are being read.
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    durable.write_file(aside, data)
    durable.move(aside, path)
    return hashlib.sha256(data).hexdigest()


def _load(path: Path, digest: str) -> dict[str, AnyArray]:
    try:
        data = path.read_bytes()
    except OSError as err:
        raise PrepareError(f"{path} cannot be read: {err.strerror}.") from err
    if hashlib.sha256(data).hexdigest() != digest:
        raise PrepareError(f"{path} was changed since it was written. Run the same command again: it is made anew.")
    return arrays_of(data)
