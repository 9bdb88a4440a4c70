"""What is stored: an image tree, and what each library makes of it; each made once and kept."""

import hashlib
import importlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import WORK, many

_CLASSES = 40
_FEW_BYTES = 1_000_000


@dataclass(frozen=True)
class Store:
    """The benchmark's folder, for these photographs and sizes.

    Attributes:
        folder: Where everything lies.
        shard_bytes: Target size of a file that holds many photographs, in every format.
    """

    folder: Path
    shard_bytes: int

    @property
    def tree(self) -> Path:
        """The image tree: a folder for each class."""
        return self.folder / "tree"

    @property
    def few(self) -> Path:
        """A tree of a few photographs, for imports and compilers before the clock starts."""
        return self.folder / "few"

    @property
    def bucket(self) -> Path:
        """What the server serves: a folder for each format. Ours is also read as local records."""
        return self.folder / "server" / "bench"

    @property
    def cache(self) -> Path:
        """What contestants may keep on this machine; emptied before each run."""
        return self.folder / "cache"

    def write(self, module: str) -> None:
        """Have a contestant's module write its format, unless it is there."""
        target = self.bucket / module
        if target.exists():
            return
        draft = self.folder / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        importlib.import_module(f"benchmarks.object_storage.{module}").write(self.tree, draft, self.shard_bytes)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(target)


def make_store(photos: Sequence[bytes], num_bytes: int, shard_bytes: int) -> Store:
    """Return the folder for photographs, repeated up to so many bytes; the trees are made if they are not there."""
    digest = hashlib.blake2b(b"".join(photos), digest_size=4).hexdigest()
    store = Store(WORK / "object-storage" / f"{digest}-{num_bytes}-{shard_bytes}", shard_bytes)
    _write_tree(store.tree, many(list(photos), num_bytes))
    _write_tree(store.few, many(list(photos), _FEW_BYTES))
    return store


def _write_tree(tree: Path, photos: Iterable[bytes]) -> None:
    if tree.exists():
        return
    draft = tree.with_suffix(".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    for number, data in enumerate(photos):
        path = draft / f"class{number % _CLASSES:03d}" / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    draft.rename(tree)
