"""How the files of a list become records, in the order of the list."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.aliases import JSON
from recordzoo.program import command
from recordzoo.recipes.base import Blob, BlobField, Recipe, Stored, Table
from recordzoo.recipes.class_folders import is_image
from recordzoo.recipes.list_file import ListFile, read_list
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.manifest import Manifest
from recordzoo.records.reader import RecordReader
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.listing import ListSource, Note
from recordzoo.sources.member import Member, Source

LIST_FILE = "list.json"
"""Beside the manifest: where the list and its directory were. Not a part of the format."""

_NOTE = "\0"  # in the name of a member that is no file: <column> NUL <position>


def recipe(shuffle_seed: int | None = None, layout: Mapping[str, int] | None = None) -> "ListRecipe":
    """Return the recipe of a list.

    Args:
        shuffle_seed: Write the records in a random order that follows from this number and the paths, so that
            shards read front to back give a mixture. The record set's order stays that of the list.
        layout: What else was asked for that shows in the result (``num_shards``, ``shard_bytes``); it is kept.
    """
    return ListRecipe(shuffle_seed, layout)


class ListRecipe(Recipe):
    """The files of a list; `root` is the list. `find` keeps what it read for `build_table`; a pickled copy does not."""

    kind = dataset = SetKind.LIST
    part = ""
    origin = "list"
    raw_files: tuple[RemoteFile, ...] = ()

    def __init__(self, shuffle_seed: int | None = None, layout: Mapping[str, int] | None = None) -> None:
        self.fields = {"image": BlobField("image")}
        self.written = {"shuffle_seed": shuffle_seed, **(layout or {})}
        self._list: ListFile | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_list": None}  # worker processes get their part of it with their unit

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return self.written

    def is_of(self, manifest: Manifest, root: Path) -> bool:
        """See `Recipe`: not if the list has changed since."""
        held = manifest.metadata
        is_mine = super().is_of(manifest, root) and held.get("written") == self.written
        return is_mine and held.get("list") == read_list(root).digest

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the list."""
        return root.absolute().with_suffix(".records")

    @override
    def title(self, root: Path) -> str:
        return root.name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root)

    def find(self, root: Path) -> Source | None:
        """Read the list.

        Raises:
            ArgumentError, NotPreparedError, SourceError: As `read_list`.
        """
        listed = self._list = read_list(root)
        self.fields = {"image": BlobField("image"), **{name: BlobField("json") for name in listed.texts}}
        lines = dict(zip(reversed(listed.names), reversed(listed.lines), strict=True))
        seed = self.written["shuffle_seed"]
        names = list(lines) if seed is not None else list(dict.fromkeys(listed.names))
        if seed is not None:
            names.sort(key=lambda name: _shuffle_key(seed, name))
        return ListSource(listed.path, names, _notes(listed), lines, listed.digest)

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [root.name]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: `LIST_FILE`."""
        if self._list is None:
            return {}
        places = {"list": os.fspath(self._list.path), "root": os.fspath(self._list.base)}
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
        return Table(
            names=listed.names,
            keys={column: [str(position) for position in range(len(listed.names))] for column in listed.texts},
            arrays={"target": listed.targets, **listed.arrays},
            splits=listed.splits,
            classes=listed.classes,
            fields=dict.fromkeys(listed.texts, FieldSpec(FieldKind.TEXT)),
            metadata={"list": listed.digest, "written": dict(self.written)},
        )


def list_path(reader: RecordReader) -> str | None:
    """Return the list that a record set was made from, if the file beside it says so; it may be a stranger's."""
    try:
        path = json.loads(reader.extra(LIST_FILE) or b"")["list"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return path if isinstance(path, str) else None


def _shuffle_key(seed: int, name: str) -> bytes:
    # Not NumPy's generators: their streams may change with its version.
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()


def _notes(listed: ListFile) -> dict[str, Sequence[Note]]:
    """Write the text of each position as JSON, by the name of its file."""
    notes: dict[str, list[Note]] = {}
    for column, texts in listed.texts.items():
        for position, (name, text) in enumerate(zip(listed.names, texts, strict=True)):
            data = json.dumps(text, ensure_ascii=False).encode()
            notes.setdefault(name, []).append((f"{column}{_NOTE}{position}", data))
    return dict(notes)
