"""What people build themselves to hold photographs: a folder's worth of (bytes, label) in one file or a few.

Each store is opened where it is first read, because neither LMDB nor SQLite may cross a fork.
"""

import functools
import io
import pickle
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from PIL import Image

Value = tuple[bytes, int]


class Store(ABC):
    """Values by position, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def write(self, photos: Iterable[tuple[str, int]]) -> None:
        """Store the photographs at these paths."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, position: int) -> Value: ...

    def open_image(self, data: bytes) -> Image.Image:
        """Make an image of a value's bytes."""
        return Image.open(io.BytesIO(data)).convert("RGB")


class PickledLmdb(Store):
    """folder2lmdb: the JPEG and its label, pickled, in one LMDB."""

    def write(self, photos: Iterable[tuple[str, int]]) -> None:
        env = lmdb.open(str(self.folder / "photos.lmdb"), subdir=False, map_size=1 << 40)
        with env.begin(write=True) as txn:
            count = 0
            for count, (path, label) in enumerate(photos, 1):
                txn.put(str(count - 1).encode(), self.pack(Path(path), label))
            txn.put(b"__len__", str(count).encode())
        env.close()

    def pack(self, path: Path, label: int) -> bytes:
        return pickle.dumps((path.read_bytes(), label))

    @functools.cached_property
    def _txn(self) -> lmdb.Transaction:
        path = str(self.folder / "photos.lmdb")
        return lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False, meminit=False).begin()

    def __len__(self) -> int:
        return int(self._txn.get(b"__len__"))

    def __getitem__(self, position: int) -> Value:
        value: Value = pickle.loads(self._txn.get(str(position).encode()))
        return value


class RawLmdb(PickledLmdb):
    """Decoded pixels in one LMDB, as TorchRecord stores by default."""

    _SIZE = struct.Struct("<II")

    def pack(self, path: Path, label: int) -> bytes:
        image = Image.open(path).convert("RGB")
        return pickle.dumps((self._SIZE.pack(*image.size) + image.tobytes(), label))

    def open_image(self, data: bytes) -> Image.Image:
        return Image.frombuffer("RGB", self._SIZE.unpack_from(data), data[self._SIZE.size :])


class Sqlite(Store):
    """A table of blobs."""

    def write(self, photos: Iterable[tuple[str, int]]) -> None:
        with sqlite3.connect(self.folder / "photos.db") as database:
            database.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, image BLOB, label INTEGER)")
            rows = ((number, Path(path).read_bytes(), label) for number, (path, label) in enumerate(photos))
            database.executemany("INSERT INTO photos VALUES (?, ?, ?)", rows)
        database.close()

    @functools.cached_property
    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.folder / 'photos.db'}?mode=ro&immutable=1", uri=True)

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM photos").fetchone()[0])

    def __getitem__(self, position: int) -> Value:
        found: Value = self._database.execute("SELECT image, label FROM photos WHERE id = ?", (position,)).fetchone()
        return found


class OneFile(Store):
    """All bytes in one file, and an index of (offset, length, label)."""

    def write(self, photos: Iterable[tuple[str, int]]) -> None:
        index, offset = [], 0
        with (self.folder / "photos.bin").open("wb") as file:
            for path, label in photos:
                length = file.write(Path(path).read_bytes())
                index.append((offset, length, label))
                offset += length
        np.save(self.folder / "index.npy", np.array(index, np.int64))

    @functools.cached_property
    def _index(self) -> Any:
        return np.load(self.folder / "index.npy")

    @functools.cached_property
    def _file(self) -> Any:
        return (self.folder / "photos.bin").open("rb", buffering=0)

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, position: int) -> Value:
        offset, length, label = self._index[position].tolist()
        self._file.seek(offset)
        return self._file.read(length), label


STORES: dict[str, type[Store]] = {
    "pickled_lmdb": PickledLmdb,
    "raw_lmdb": RawLmdb,
    "sqlite": Sqlite,
    "one_file": OneFile,
}
