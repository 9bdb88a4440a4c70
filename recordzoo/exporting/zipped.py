"""A zip of class folders: stored, not deflated, because images are compressed already. One process writes it."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.exporting.folder import Folder, with_ending
from recordzoo.exporting.target import Shard, Tick, Written, sync

FILE_NAME = "all.zip"
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can have: the same samples give the same bytes
_MODE = 0o644 << 16
_FOLDER_MODE = 0o40755 << 16


class Zipped(Folder):
    """The same tree in a zip: one shard with everything, which an interrupted export writes again."""

    name = "zip"
    ending = ".zip"

    @override
    def shards(self, splits: Mapping[str, NDArray[np.int64]], shard_bytes: int) -> list[Shard]:
        paths = [path for split, positions in splits.items() for path in self.paths(split, positions)]
        self._split_of = [split for split, positions in splits.items() for _ in range(len(positions))]
        return [Shard("", 0, 1, np.concatenate(list(splits.values())), paths)]

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Written:
        names, comment = [], json.dumps(self.note).encode()
        with open(folder / FILE_NAME, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name in self.tree.folders():
                    _put(archive, f"{name}/", b"", _FOLDER_MODE)
                for number, sample in self.samples(shard, tick):
                    names.append(with_ending(shard.paths[number], sample.ending))
                    _put(archive, names[-1], sample.image, _MODE)
                besides = self.tree.besides(zip(self._split_of, shard.positions.tolist(), names, strict=True))
                for name, data in besides.items():
                    _put(archive, name, data, _MODE)
                archive.comment = comment
            sync(file)
            return Written({FILE_NAME: file.tell()})

    @override
    def finish(self, folder: Path, shards: Sequence[Shard], written: Sequence[Written]) -> None:
        """See `Target`: everything is in the archive."""


def _put(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr = mode
    entry.create_system = 3  # Unix, on Windows too
    archive.writestr(entry, data)


def read_note(path: Path) -> dict[str, object] | None:
    """Return what an export wrote into a zip's comment; None if it is no zip, or no export."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = json.loads(archive.comment)
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    return found if isinstance(found, dict) else None
