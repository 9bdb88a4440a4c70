"""Which shards of an interrupted export are finished: a file for each, written when the shard is on the disk."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from recordzoo import durable
from recordzoo.crash_points import crash_point
from recordzoo.exporting.target import Shard, Written

_FOLDER = ".finished"


class Finished:
    """The finished shards. What no finished shard counts is removed.

    Args:
        folder: Where the output is put together.
        shards: All of its shards.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard]) -> None:
        self._folder, self._output = folder / _FOLDER, folder
        self._found: dict[str, Written] = {}
        self._folder.mkdir(exist_ok=True)
        for shard in shards:
            written = self._read(shard.name)
            if written is not None:
                self._found[shard.name] = written
        self._sweep()

    def __contains__(self, name: str) -> bool:
        return name in self._found

    @property
    def num_files(self) -> int:
        """How many files they have."""
        return sum(len(written.files) for written in self._found.values())

    @property
    def num_bytes(self) -> int:
        """Their size."""
        return sum(sum(written.files.values()) for written in self._found.values())

    def add(self, name: str, written: Written) -> None:
        """Count a shard, whose files are synced."""
        crash_point("export.written")
        for folder in {(self._output / file).parent for file in written.files}:
            durable.sync_directory(folder)
        durable.replace_file(self._folder / f"{name}.json", json.dumps(asdict(written)).encode())
        self._found[name] = written
        crash_point("export.counted")

    def in_order(self, shards: Sequence[Shard]) -> list[Written]:
        """Return all shards' files, in the order of the shards."""
        return [self._found[shard.name] for shard in shards]

    def forget(self) -> None:
        """Remove what only an interrupted export needs."""
        shutil.rmtree(self._folder)

    def _read(self, name: str) -> Written | None:
        """Return a finished shard, all of whose files are there."""
        try:
            written = Written(**json.loads((self._folder / f"{name}.json").read_bytes()))
            complete = all((self._output / file).stat().st_size == size for file, size in written.files.items())
        except (OSError, ValueError, TypeError):
            return None
        return written if complete else None

    def _sweep(self) -> None:
        """Remove files that are not counted: unlinked, so that a process that only looked dead writes nowhere."""
        counted = {os.path.normpath(name) for written in self._found.values() for name in written.files}
        for parent, folders, names in os.walk(self._output):
            if _FOLDER in folders:
                folders.remove(_FOLDER)
            for name in names:
                path = Path(parent) / name
                if os.path.normpath(path.relative_to(self._output)) not in counted:
                    durable.remove(path)
