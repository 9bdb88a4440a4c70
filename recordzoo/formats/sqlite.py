"""SQLite: a table with images in a column of BLOBs. No view, trigger or extension of the file is run.

The header's fields are those of https://www.sqlite.org/fileformat.html, section 1.3; for untrusted files,
https://www.sqlite.org/security.html.
"""

import contextlib
import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.base.text import did_you_mean
from recordzoo.errors import ArgumentError
from recordzoo.formats.base import Foreign, Piece, Sample, even_ranges, fault, first_bytes, holds_images, image_ending
from recordzoo.raw.member import MAX_MEMBER_BYTES

LOOKS_FOR = "a database of SQLite 3, or a table of one: photos.db/table"

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_VERSIONS, _WAL = slice(18, 20), 2  # the file format's versions for writing and reading
_CHANGES = slice(24, 28)  # a counter that each transaction increases
_TABLE = re.compile(r"CREATE TABLE\b", re.IGNORECASE)  # SQLite stores statements with this beginning
_ROWIDS = ("rowid", "_rowid_", "oid")
_VIRTUAL_COLUMN = 2  # table_xinfo's `hidden`: it is computed by an expression of the file's
_LOCK_S = 10.0
_NEAR = 10_000
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    if "://" in location:
        return None
    whole = Path(location)
    path = next((each for each in (whole, *whole.parents) if each.is_file()), None)
    if path is None:
        return None
    header = first_bytes(path, _HEADER_BYTES)
    if header[: len(_MAGIC)] != _MAGIC:
        return None
    return SQLiteTable(location, fields, path, header, "" if path == whole else whole.relative_to(path).as_posix())


class SQLiteTable(Foreign):
    """The rows of a table ("" for the only one that has images) by rowid; each range of rowids is a piece."""

    format = "sqlite"

    def __init__(self, location: str, fields: Mapping[str, str], path: Path, header: bytes, table: str) -> None:
        super().__init__(location, fields)
        self._path, self._header = path, header
        _check_no_journal(path)
        with self._connected() as connection:
            tables = _tables(connection)
            self.table = _known(table, tables, connection, path) if table else self._with_images(connection, tables)
            columns = _columns(connection, self.table)
            values = _first_values(connection, self.table, columns)
            self._rowid = self._rowid_of(connection, columns)
            first, last = self._ends(connection)
        self._fields = self.name_columns(values)
        self.pieces = [] if first is None or last is None else list(self._cut(first, last))

    @override
    def identity(self) -> str:
        """See `Foreign`; a counter in the file changes with it."""
        return hashlib.sha256(super().identity().encode() + self._header[_CHANGES]).hexdigest()

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        number, columns = f"t.{self._rowid}", ", ".join(f"t.{_quoted(column)}" for column in self._fields)
        query = f"SELECT {number}, {columns} FROM {_quoted(self.table)} AS t WHERE {number} BETWEEN ? AND ? ORDER BY 1"
        last = None
        with self._connected() as connection:
            for rowid, *values in connection.execute(query, (piece.start, piece.stop)):
                if last is not None and rowid <= last:  # a forged tree of pages may lead to one page again and again
                    raise fault(
                        self._path,
                        f", table {self.table!r}, behind row {last}: the rows are not in order. The file is damaged.",
                    )
                last = rowid
                sample = dict(zip(self._fields.values(), values, strict=True))
                yield Sample.of(sample, f"{rowid:09d}{image_ending(sample)}")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the database for reading; nothing is written, not even beside it."""
        # A reader of a database in WAL mode writes files beside it, unless it is told that nobody else writes. That is
        # so where there is no log, and a change during the work is noticed by the file's times.
        is_wal = _WAL in self._header[_VERSIONS]
        address = f"{self._path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_wal else ''}"
        try:
            connection = sqlite3.connect(
                address, uri=True, timeout=_LOCK_S, isolation_level=None, check_same_thread=False
            )
            with contextlib.closing(connection):
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA cell_size_check = ON")
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_MEMBER_BYTES)
                connection.set_authorizer(_authorize)
                yield connection
        except (sqlite3.Error, UnicodeError) as err:
            advice = " Another program is writing to it; run the same command when it has ended."
            raise fault(self._path, f": SQLite cannot read it: {err}.{advice if 'locked' in str(err) else ''}") from err

    def _with_images(self, connection: sqlite3.Connection, tables: Sequence[str]) -> str:
        firsts = {table: _first_values(connection, table, _columns(connection, table)) for table in tables}
        found = [table for table, columns in firsts.items() if any(map(holds_images, columns.values()))]
        if len(found) == 1:
            return found[0]
        which = "which table has the images" if not found else f"which table of {', '.join(map(repr, found))} is meant"
        example = (found or tables or ["TABLE"])[0]
        raise ArgumentError(
            f"{self._path}: it does not tell {which}. Name it behind the file: {self._path}/{example}. The tables are "
            f"{', '.join(map(repr, tables)) or 'none'}."
        )

    def _rowid_of(self, connection: sqlite3.Connection, columns: Iterable[str]) -> str:
        """Return a name for the row's number."""
        there = {column.lower() for column in columns}
        name = next((each for each in _ROWIDS if each not in there), "")
        try:
            connection.execute(f"SELECT t.{name} FROM {_quoted(self.table)} AS t LIMIT 0")
        except sqlite3.OperationalError as err:
            if "no such column" in str(err):
                text = "has no rowid (WITHOUT ROWID). Copy it into one that has: CREATE TABLE ... AS SELECT ..."
                raise ArgumentError(f"{self._path}: table {self.table!r} {text}") from err
            raise
        return name

    def _ends(self, connection: sqlite3.Connection) -> tuple[int | None, int | None]:
        """Return the first and the last rowid; None if there are no rows."""
        row = f"SELECT t.{self._rowid} FROM {_quoted(self.table)} AS t ORDER BY t.{self._rowid}"
        first, last = connection.execute(f"SELECT ({row} ASC LIMIT 1), ({row} DESC LIMIT 1)").fetchone()
        return first, last

    def _cut(self, first: int, last: int) -> Iterator[Piece]:
        """Cut the rowids into even ranges: ranges with equal numbers of rows would need a scan of all pages."""
        size_bytes = self._path.stat().st_size
        ranges = list(even_ranges(first, last + 1, size_bytes))
        for start, stop in ranges:
            yield Piece(f"{self.table}-{start}", size_bytes // len(ranges), (self._path,), start, stop - 1)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, within: str | None) -> int:
    """Allow SQLite to read tables; `within` is the view or trigger that reads."""
    is_look = action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"
    return sqlite3.SQLITE_OK if (action in _ALLOWED and within is None) or is_look else sqlite3.SQLITE_DENY


def _check_no_journal(path: Path) -> None:
    """Raise if the database has changes outside its file: SQLite would write them into it."""
    for ending in ("-wal", "-journal"):
        beside = path.with_name(path.name + ending)
        if beside.is_file() and beside.stat().st_size:
            raise fault(
                path,
                f": changes in {beside.name} are not in the database yet. Close the programs that use it; if "
                f"one was killed, run: sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            )


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Return the names of ordinary tables: no views, no virtual tables."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid").fetchall()
    return [str(name) for name, sql in found if not str(name).startswith("sqlite_") and _TABLE.match(str(sql))]


def _known(table: str, tables: Sequence[str], connection: sqlite3.Connection, path: Path) -> str:
    """Return the name of a table, spelt as in the database."""
    found = next((each for each in tables if each.lower() == table.lower()), None)
    if found is not None:
        return found
    others = dict(connection.execute("SELECT name, type FROM sqlite_master").fetchall())
    if table in others:
        raise ArgumentError(
            f"{path}: {table!r} is a {others[table]} whose rows are computed by code in the file, which is not run. "
            "Only ordinary tables are read; make one of it: CREATE TABLE ... AS SELECT ..."
        )
    raise ArgumentError(
        f"{path} has no table {table!r}. It has {', '.join(map(repr, tables)) or 'none'}.{did_you_mean(table, tables)}"
    )


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the names of the stored columns."""
    rows = connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchall()
    return [str(row[1]) for row in rows if row[6] != _VIRTUAL_COLUMN]


# Any: values of all kinds.
def _first_values(connection: sqlite3.Connection, table: str, columns: Iterable[str]) -> dict[str, list[Any]]:
    """Return the first value of each column that is not NULL, if it is near the beginning."""
    found = {}
    for key in columns:
        near = f"SELECT t.{_quoted(key)} AS value FROM {_quoted(table)} AS t LIMIT {_NEAR}"
        found[key] = [row[0] for row in connection.execute(f"SELECT value FROM ({near}) WHERE value NOTNULL LIMIT 1")]
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
