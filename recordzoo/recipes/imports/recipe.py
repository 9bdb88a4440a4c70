"""How the records of an earlier tool's databases become a record set: images as they are, labels, in the old order."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.aliases import JSON
from recordzoo.errors import SourceError
from recordzoo.program import command
from recordzoo.recipes.base import NO_TARGET, Blob, BlobField, Recipe, Sidecar, Stored, Table
from recordzoo.recipes.images import sniffed_ending
from recordzoo.recipes.imports.sample import ForeignValueError, Sample, samples_of
from recordzoo.recipes.imports.source import Block, DatabaseSource, find_source, identity
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.sources.download import RemoteFile
from recordzoo.sources.member import Member, Source

LMDB = "lmdb"
"""What the manifest calls databases as a source."""


class ImportRecipe(Recipe):
    """The records of databases; all of them are of the kind that the first one is.

    Args:
        path: The databases.
        output: The record set's directory.
        wanted: The layout; None to find it out.

    Raises:
        RecordZooError: As `find_source`.
    """

    kind = SetKind.IMPORTED
    origin = LMDB
    part = ""
    raw_files: tuple[RemoteFile, ...] = ()

    def __init__(self, path: Path, output: Path, wanted: str | None = None) -> None:
        self.path, self.output = path, output
        self._found: DatabaseSource | None = find_source(path, wanted)
        self.identity = identity(path)
        self.dataset = self.layout = self._found.layout
        self.first = self._found.first.field, self._found.first.kind
        self.fields = {"image": self.first[0]}
        if isinstance(self._found.first.label, str):
            self.fields["target"] = BlobField("json")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": None}  # workers get their records with their unit

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"layout": self.layout, "kind": self.first[1]}

    @override
    def target(self, root: Path) -> Path:
        return self.output

    @override
    def title(self, root: Path) -> str:
        return self.path.name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", self.path, "--output", self.output)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: the first time what was found when it was made, later by looking again.

        Raises:
            RecordZooError: As `find_source`.
        """
        found, self._found = self._found, None
        return found or find_source(self.path, self.layout)

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [self.path.name]

    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """See `Recipe`.

        Raises:
            SourceError: A value is not what the tool writes; the message has database, key, and why.
        """
        assert isinstance(member, Block)
        side = _Side()
        for name, where, value, label in member.values():
            path = str(member.database.path)
            try:
                samples = list(samples_of(self.layout, value, label))
            except ForeignValueError as err:
                raise SourceError(f"{where}: {err}.", path=path) from err
            for ending, sample in samples:
                if sample.field != self.first[0] or sample.kind != self.first[1]:
                    raise SourceError(
                        f"{where}: it holds {sample.kind}, and the first record {self.first[1]}. A record set has one "
                        "kind of image: read the database with the program that wrote it, and store that with "
                        "recordzoo.convert.",
                        path=path,
                    )
                yield from side.add(f"{name}{ending}", sample)
        yield Sidecar(member.name, json.dumps(asdict(side)).encode())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`.

        Raises:
            SourceError: Two records have one name.
        """
        blocks = [_Side(**json.loads(sidecars[side])) for side in sorted(sidecars)]
        names, labels, shapes = (
            [value for block in blocks for value in getattr(block, each.name)] for each in fields(_Side)
        )
        if len(set(names)) != len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            raise SourceError(
                f"{self.path}: two records are called {twice!r}, once the ending of their format is added.",
                path=str(self.path),
            )
        return Table(
            names=names,
            keys={"target": names} if "target" in self.fields else {},
            arrays={} if "target" in self.fields else {"target": np.array(labels, np.int64)},
            fields={"target": FieldSpec(FieldKind.TEXT)} if "target" in self.fields else {},
            metadata={"databases": self.identity},
            shapes={"image": np.array(shapes, np.uint32)} if shapes else {},
        )


@dataclass
class _Side:
    """What the samples of a member have besides their images.

    Attributes:
        labels: Of texts, which are records, none.
        shapes: Of images' files none.
    """

    names: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, name: str, sample: Sample) -> Iterator[Blob]:
        """Add a sample, and yield its records."""
        if sample.shape is None and "." not in name.rpartition("/")[2]:
            name += sniffed_ending(sample.image)
        self.names.append(name)
        self.shapes += [sample.shape] if sample.shape is not None else []
        yield Blob("image", name, sample.image)
        if isinstance(sample.label, str):
            yield Blob("target", name, json.dumps(sample.label, ensure_ascii=False).encode(), checked=False)
        else:
            self.labels.append(NO_TARGET if sample.label is None else sample.label)
