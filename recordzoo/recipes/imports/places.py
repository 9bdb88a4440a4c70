"""Where databases are: the LMDB files that a path means, and the databases in each."""

import re
import sys
from collections.abc import Collection
from pathlib import Path

from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.recipes.imports.database import DATA_FILE, Database, Tree
from recordzoo.records.layout import MAGIC, PAGE_HEADER

_PART = re.compile(r"db(0|[1-9]\d{0,5})")
_ENDINGS = (".lmdb", ".mdb")
_OTHERS_NAMED = 10


def database_files(path: Path) -> dict[str, Path]:
    """Find the LMDB files that a path means: by the name of each database, "" if it is one alone.

    Raises:
        NotPreparedError: There is nothing, or nothing that is LMDB's.
        ArgumentError: It holds several databases that do not belong together.
        SourceError: Of TorchRecord's databases one is missing.
    """
    if path.is_file():
        return {"": path}
    if (path / DATA_FILE).is_file():
        return {"": path / DATA_FILE}
    if not path.is_dir():
        raise NotPreparedError(f"There is no LMDB database at {path}: it does not exist.", path=str(path))
    inside = [each for each in sorted(path.iterdir()) if _is_database(each)]
    numbered = {each.name: each / DATA_FILE for each in inside if _PART.fullmatch(each.name)}
    if numbered and len(numbered) == len(inside):
        return {name: numbered[name] for name in _numbered_parts(numbered, path)}
    if len(inside) == 1:
        return database_files(inside[0])
    if inside:
        names = ", ".join(each.name for each in inside[:_OTHERS_NAMED])
        raise ArgumentError(f"{path} holds several databases ({names}). Pass the path of one of them.")
    raise NotPreparedError(
        f"There is no LMDB database at {path} (looked for {DATA_FILE}, *.lmdb, and db0/{DATA_FILE}).",
        path=str(path),
    )


def may_be_database(path: Path) -> bool:
    """Whether a file is called as an LMDB database or begins as one; it may be damaged."""
    if path.suffix in _ENDINGS:
        return True
    with path.open("rb") as file:
        return file.read(PAGE_HEADER + 4)[PAGE_HEADER:] == MAGIC.to_bytes(4, sys.byteorder)


def _numbered_parts(names: Collection[str], path: Path) -> list[str]:
    """Sort the names of TorchRecord's databases by their numbers."""
    last = max(int(name.removeprefix("db")) for name in names)
    wanted = [f"db{number}" for number in range(last + 1)]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise SourceError(
            f"{path} has db{last}, but not {', '.join(missing[:_OTHERS_NAMED])}. All from db0 on are needed.",
            path=str(path),
        )
    return wanted


def parts_of(database: Database) -> dict[str, Tree]:
    """Find a file's databases: its only one by an empty name, or TorchRecord's named ones in their order.

    Raises:
        SourceError: A named database has another name, or one is missing.
    """
    trees = database.trees()
    if not trees[0].name:
        return {"": trees[0]}
    named = {tree.name.decode("utf-8", "backslashreplace"): tree for tree in trees}
    for tree in trees:
        if not _PART.fullmatch(tree.name.decode("utf-8", "backslashreplace")):
            raise SourceError(
                f"{database.path}: key {tree.name!r} has a named database; of the known tools only TorchRecord writes "
                "such ones, and calls them db0, db1, ... Read it with Python's lmdb and store it with "
                "recordzoo.convert.",
                path=str(database.path),
            )
    return {name: named[name] for name in _numbered_parts(named, database.path)}


def _is_database(path: Path) -> bool:
    if path.is_dir():
        return (path / DATA_FILE).is_file()
    return path.suffix in _ENDINGS and path.name != "lock.mdb"
