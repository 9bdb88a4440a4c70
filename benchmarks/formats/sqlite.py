"""SQLite: a table with the columns of the scripts that practitioners compare."""

import contextlib
import functools
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader


def write(samples: Samples, place: Path) -> None:
    """Insert all images in one transaction."""
    with contextlib.closing(sqlite3.connect(place / "images.db")) as database, database:
        database.execute(
            "CREATE TABLE images (id INTEGER PRIMARY KEY, img_path TEXT, img_data BLOB, img_label INTEGER)"
        )
        rows = ((number, path, Path(path).read_bytes(), label) for number, (path, label) in enumerate(samples))
        database.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", rows)


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(place / "images.db", reading.finish()), reading)


class _Images:
    """The dataset; the database is opened where it is first read, because it may not cross a fork."""

    def __init__(self, path: Path, finish: Finish) -> None:
        self.path, self.finish = path, finish
        with contextlib.closing(self._open()) as database:
            self.count = int(database.execute("SELECT count(*) FROM images").fetchone()[0])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        query = "SELECT img_data, img_label FROM images WHERE id = ?"
        data, label = self._database.execute(query, (index,)).fetchone()
        return self.finish(data), label

    def __del__(self) -> None:
        if "_database" in vars(self):
            self._database.close()

    @functools.cached_property
    def _database(self) -> sqlite3.Connection:
        return self._open()

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)


FORMAT = Format("sqlite", "SQLite", write, read, "`SELECT` by the primary key")
