"""Recipe for a copy of a record set: names, order, targets, splits and classes stay."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.base import ABSENT, Blob, BlobField, Recipe, Stored, Table
from recordzoo.recipes.folder import TREE_FILE
from recordzoo.recipes.listing import LIST_FILE
from recordzoo.recipes.variants.source import SetSource, StoredValue
from recordzoo.records.made_from import MADE_FROM_FILE
from recordzoo.records.reader import RecordReader, is_record_set

MAX_EXTRA_BYTES = 1 << 30
"""A larger file beside a record set is not copied to its variants: it is optional."""

_COUNTED_ANEW = ("num_bad", "num_skipped")


def original_path(path: Path, variant: str) -> Path:
    """Return where the original of a variant's record set would be: beside it, without the variant in its name."""
    stem = path.name.removesuffix(".records").removesuffix(f"-{variant}")
    return path.with_name(f"{stem}.records")


class StoredRecipe(Recipe):
    """The records of a record set, in place of raw data."""

    raw_files: tuple[RemoteFile, ...] = ()

    def __init__(self, reader: RecordReader) -> None:
        manifest = reader.manifest
        self.reader = reader
        self.kind, self.dataset, self.part = manifest.kind, manifest.dataset, manifest.part
        self.origin = manifest.source
        self.made_from = manifest.raw_files
        self.fields = {name: BlobField(*dataclasses.astuple(spec)) for name, spec in manifest.blobs.items()}
        self._source: SetSource | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    def target(self, root: Path) -> Path:
        """See `Recipe`: itself; not a link to it, beside which variants do not belong."""
        return self.reader.folder.resolve()

    @override
    def title(self, root: Path) -> str:
        return self.reader.path.name.removesuffix(".records")

    @override
    def command(self, root: Path) -> str:
        return command("prepare", self.reader.path)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: the record set as it is now."""
        if not is_record_set(self.reader.folder):
            return None
        self._source = SetSource(RecordReader(self.reader.path))
        return self._source

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.reader.path.name]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: where the tree or the list was, and its files."""
        found = {name: self.reader.extra(name, MAX_EXTRA_BYTES) for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE)}
        return {name: data for name, data in found.items() if data is not None}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        assert isinstance(member, StoredValue)
        yield Blob(member.field, member.name, member.read())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`: the table of that record set."""
        assert self._source is not None
        reader = self.reader
        own_shapes = [name for name in self.fields if f"{name}.shape" in reader.manifest.arrays]
        return Table(
            names=list(reader.names),
            keys={
                field: [None if place == ABSENT else values.keys[place] for place in values.of_position.tolist()]
                for field, values in self._source.values.items()
            },
            arrays={name: reader.array(name) for name in reader.columns},
            splits={name: reader.split(name) for name in reader.manifest.splits},
            fields=reader.manifest.fields,
            default_target=reader.manifest.default_target,
            metadata={name: value for name, value in reader.manifest.metadata.items() if name not in _COUNTED_ANEW},
            shapes={name: reader.array(f"{name}.shape") for name in own_shapes},
            skipped=reader.manifest.skipped,
        )
