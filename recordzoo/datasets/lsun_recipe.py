"""How LSUN becomes records: the values of an LMDB database in the order of its keys, read without LMDB."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.formats.base import ForeignSource, PieceMember
from recordzoo.formats.lmdb import LMDB, STORED, Records, as_name
from recordzoo.formats.lmdb_values import DATA_FILE, Database
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.declared import DeclaredRecipe
from recordzoo.recipes.recipe import Blob, Stored, Table

ENDING = "_lmdb"
"""Suffix of a database's folder, after category and split."""


class LSUN(DeclaredRecipe):
    """The images of a category and split. From a zip, the database is unpacked to a temporary file (``TMPDIR``)."""

    @property
    def _database(self) -> str:
        return f"{self.part}{ENDING}/{DATA_FILE}"

    @override
    def find(self, root: Path) -> Source | None:
        file = root / self._database  # it cannot be read front to back, as other trees are
        if not file.is_file():
            return super().find(root)
        database = LMDB(str(file), {}, {"": file}, STORED)
        database.open()
        return ForeignSource(database)

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [self._database]

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        if isinstance(member, PieceMember) and isinstance(member.piece, Records):
            for name, _, value, _ in member.piece.values():
                yield Blob("image", name, value)
        elif member.name == self._database:
            with _unpacked(member) as database:
                for entry in database.entries():
                    yield Blob("image", as_name(entry.key), database.value(entry))

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys["image"], key=key_of)
        return Table(names, splits={self.part.replace("_", "-"): np.arange(len(names))})


@contextmanager
def _unpacked(member: Member) -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="recordzoo-") as folder:  # a temporary file opens only once on Windows
        path = Path(folder) / DATA_FILE
        with path.open("wb") as copy, member.open() as packed:
            shutil.copyfileobj(packed, copy, 1 << 20)
        with Database(path) as database:
            yield database


def key_of(name: str) -> bytes:
    """Return the key of a record's name, as bytes for sorting."""
    return name.encode("utf-8", "surrogateescape")
