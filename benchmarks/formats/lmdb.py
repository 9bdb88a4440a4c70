"""One LMDB of pickled pairs, as folder2lmdb and the many scripts after it write them."""

import functools
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader

_COMMIT_EVERY = 5000  # as folder2lmdb does


def write(samples: Samples, place: Path) -> None:
    """Store (bytes, label) under each number, then the keys and their count."""
    import lmdb

    environment = lmdb.open(str(place / "images.lmdb"), subdir=False, map_size=_map_bytes(samples), meminit=False)
    transaction = environment.begin(write=True)
    for number, (path, label) in enumerate(samples):
        transaction.put(str(number).encode(), pickle.dumps((Path(path).read_bytes(), label)))
        if number % _COMMIT_EVERY == _COMMIT_EVERY - 1:
            transaction.commit()
            transaction = environment.begin(write=True)
    transaction.put(b"__keys__", pickle.dumps([str(number).encode() for number in range(len(samples))]))
    transaction.put(b"__len__", pickle.dumps(len(samples)))
    transaction.commit()
    environment.close()


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(place / "images.lmdb", reading.finish()), reading)


class _Images:
    """The dataset; the database is opened where it is first read, because it may not cross a fork."""

    def __init__(self, path: Path, finish: Finish) -> None:
        self.path, self.finish = path, finish
        environment = self._open()
        with environment.begin() as transaction:
            self.keys: list[bytes] = pickle.loads(transaction.get(b"__keys__"))
        environment.close()

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        data, label = pickle.loads(self._transaction.get(self.keys[index]))
        return self.finish(data), label

    @functools.cached_property
    def _transaction(self) -> Any:
        return self._open().begin(buffers=True)

    def _open(self) -> Any:
        import lmdb

        return lmdb.open(str(self.path), subdir=False, readonly=True, lock=False, readahead=False, meminit=False)


def _map_bytes(samples: Samples) -> int:
    """Return a size that is large enough: on Windows the file is made so large."""
    return 2 * sum(Path(path).stat().st_size + 8192 for path, _ in samples) + (1 << 24)


FORMAT = Format("lmdb", "LMDB (folder2lmdb)", write, read, "lmdb with `readahead=False`, values unpickled")
