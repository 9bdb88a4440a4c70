"""Recipe for the files of a list, in its order."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.text import name_first
from recordzoo.base.types import JSON
from recordzoo.net.download import RemoteFile
from recordzoo.raw.listing import ListSource, Note, look
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.base import Blob, BlobField, Recipe, Stored, Table
from recordzoo.recipes.class_folders import is_image
from recordzoo.recipes.list_columns import USUAL, Columns
from recordzoo.recipes.list_file import ListFile, digest_of, interpret, read_rows
from recordzoo.recipes.list_rows import object_table
from recordzoo.recipes.list_table import NUM_SHOWN, Faults
from recordzoo.recipes.list_table import Table as Cells
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import LIST_FILE
from recordzoo.records.manifest import Manifest
from recordzoo.records.reader import RecordReader

_NOTE = "\0"  # in the name of a member that is no file: <column> NUL <position>


# Any: arguments of `ListRecipe`.
def recipe(**settings: Any) -> "ListRecipe":
    """Return the recipe of a list."""
    return ListRecipe(**settings)


class ListRecipe(Recipe):
    """The files of a list; `root` is the list. `find` keeps its result for `build_table`; pickled copies do not.

    Args:
        shuffle_seed: Write the records in a random order that follows from this number and the paths, so that
            shards read front to back give a mixture. The record set's order stays that of the list.
        layout: Options that change how the set is stored (``num_shards``, ``shard_bytes``); the manifest keeps them.
        columns: The columns that the user named.
        skips_missing: Skip rows whose files are missing.
        data: A table in memory in place of the list; `root` only gives the directory for its relative paths.
    """

    kind = dataset = SetKind.LIST
    part = ""
    origin = "list"
    raw_files: tuple[RemoteFile, ...] = ()

    # Any: see `object_table`.
    def __init__(
        self,
        shuffle_seed: int | None = None,
        layout: Mapping[str, int] | None = None,
        columns: Columns = USUAL,
        skips_missing: bool = False,
        data: Any = None,
    ) -> None:
        self.fields = {"image": BlobField("image")}
        self.written: dict[str, JSON] = {"shuffle_seed": shuffle_seed, **(layout or {}), "columns": columns.to_json()}
        self._columns, self._skips_missing, self._data = columns, skips_missing, data
        self._list: ListFile | None = None
        self._missing: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get their rows with their unit.
        return {**self.__dict__, "_list": None, "_data": None, "_missing": {}}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return self.written

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """See `Recipe`. False if the list has changed since the set was made."""
        held = manifest.metadata
        is_mine = super().is_of(manifest, root) and held.get("written") == self.written
        return is_mine and held.get("list") == self.digest(root)

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the list."""
        return root.absolute().with_suffix(".records")

    @override
    def title(self, root: Path) -> str:
        return root.name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, *self._columns.words())

    def read(self, root: Path) -> ListFile:
        """Read the list, including rows whose files are missing.

        Raises:
            ArgumentError, NotPreparedError, PrepareError, SourceError: As `read_list`.
        """
        path = root.absolute()
        return interpret(path, *self._rows(path), self._columns)

    def digest(self, root: Path) -> str:
        """Return the digest of the list's cells, whatever their roles; raises as `read`."""
        table, faults = self._rows(root.absolute())
        faults.raise_if_any()
        return digest_of(table)

    def _rows(self, path: Path) -> tuple[Cells, Faults]:
        if self._data is None:
            return read_rows(path)
        faults = Faults(path, "row")
        return object_table(self._data, faults), faults

    def find(self, root: Path) -> Source | None:
        """Read the list.

        Raises:
            ArgumentError, NotPreparedError, PrepareError, SourceError: As `read_list`.
        """
        listed = self._list = self._without_missing(self.read(root))
        self.fields = {"image": BlobField("image"), **{name: BlobField("json") for name in _texts(listed)}}
        lines = dict(zip(reversed(listed.files), reversed(listed.lines), strict=True))
        seed = self.written["shuffle_seed"]
        names = list(lines) if seed is not None else list(dict.fromkeys(listed.files))
        if seed is not None:
            names.sort(key=lambda name: _shuffle_key(seed, name))
        return ListSource(listed.path, names, _notes(listed), lines, listed.digest, listed.word)

    def _without_missing(self, listed: ListFile) -> ListFile:
        if not self._skips_missing:
            return listed
        looked = {name: look(os.path.join(listed.base, name)) for name in dict.fromkeys(listed.files)}
        self._missing = {name: found for name, found in looked.items() if isinstance(found, str)}
        if not self._missing or len(self._missing) == len(looked):  # if all files are missing, the source reports it
            return listed
        return listed.kept(np.array([name not in self._missing for name in listed.files]))

    def choice(self) -> str:
        """Describe how `find` read the columns and which rows it skipped; "" before `find`."""
        if self._list is None:
            return ""
        left_out = name_first([f"{name} ({why})" for name, why in self._missing.items()], NUM_SHOWN)
        return self._list.choice + (f"; left out: {left_out}" if self._missing else "")

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [root.name]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: `LIST_FILE`."""
        if self._list is None:
            return {}
        path = os.fspath(self._list.path) if self._data is None else None
        places = {"list": path, "root": os.fspath(self._list.base)}
        return {LIST_FILE: json.dumps(places, indent=1).encode()}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        column, is_note, position = member.name.partition(_NOTE)
        if is_note:
            yield Blob(column, position, member.read())
        else:
            yield Blob("image", member.name, member.read(), checked=is_image(member.name))

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the list's order."""
        listed = self._list
        assert listed is not None
        texts = _texts(listed)
        return Table(
            names=listed.names,
            keys={
                "image": listed.files,
                **{column: [str(position) for position in range(len(listed.files))] for column in texts},
            },
            arrays={name: f.values for name, f in listed.fields.items() if isinstance(f.values, np.ndarray)},
            splits=listed.splits,
            fields={name: field.spec for name, field in listed.fields.items()},
            default_target=listed.default_target,
            metadata={"list": listed.digest, "written": self.written},
            skipped=self._missing,
        )


def list_path(reader: RecordReader) -> str | None:
    """Return the list that a record set was made from, if the file beside it says so. That file may be untrusted."""
    try:
        path = json.loads(reader.extra(LIST_FILE) or b"")["list"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if isinstance(path, str) else None


def _texts(listed: ListFile) -> dict[str, Sequence[str]]:
    return {name: f.values for name, f in listed.fields.items() if not isinstance(f.values, np.ndarray)}


# Any: a seed is any number.
def _shuffle_key(seed: Any, name: str) -> bytes:
    # Not NumPy's generators: their streams may change with its version.
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()


def _notes(listed: ListFile) -> dict[str, Sequence[Note]]:
    """Write the text of each position as JSON, by the name of its file."""
    notes: dict[str, list[Note]] = {}
    for column, texts in _texts(listed).items():
        for position, (name, text) in enumerate(zip(listed.files, texts, strict=True)):
            data = json.dumps(text, ensure_ascii=False).encode()
            notes.setdefault(name, []).append((f"{column}{_NOTE}{position}", data))
    return dict(notes)
