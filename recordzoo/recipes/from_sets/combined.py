"""Recipe for a new set from records of others: stored values unchanged, fields and splits combined."""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.arrays import AnyArray
from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.raw.member import Source
from recordzoo.recipes.base import BlobField, Stored, Table
from recordzoo.recipes.from_sets.alike import check_alike, common_classes, common_metadata, renumbered
from recordzoo.recipes.from_sets.part import Choice, SetPart
from recordzoo.recipes.from_sets.source import SetsRecipe, SetsSource
from recordzoo.recipes.from_sets.splitting import Division
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import COMBINED_FILE, MAX_EXTRA_BYTES
from recordzoo.records.manifest import Manifest
from recordzoo.records.reader import RecordReader, is_record_set


class Change(Protocol):
    """A change that a new set makes to the records of its parts."""

    def to_json(self) -> dict[str, JSON]:
        """What the new set's manifest says of it."""

    def apply(self, table: Table, parts: Sequence[SetPart]) -> Table:
        """Return the changed table of the parts."""


class CombinedRecipe(SetsRecipe):
    """Records of some record sets in order. A pickled copy has no parts: units have their own.

    Args:
        parts: The sets, and which of their records.
        output: The new set's directory.
        unite: Unite classes by name. Default: they must be equal.
        written: The requested number or size of shards; the manifest keeps it.
        change: A change to the records of the parts.
        is_linked: Whether the new set shares the shards of the parts; then all records are taken.
        keeps_names: Whether names of the first part's records stay, even if other parts have them.
    """

    kind = dataset = SetKind.COMBINED
    part = ""
    origin = "records"

    def __init__(
        self,
        parts: Sequence[SetPart],
        output: Path,
        *,
        unite: bool = False,
        written: Mapping[str, JSON] | None = None,
        change: Change | None = None,
        is_linked: bool = False,
        keeps_names: bool = False,
    ) -> None:
        check_alike(parts)
        self.is_linked, self.keeps_names, self.change = is_linked, keeps_names, change
        self.parts, self.output = tuple(parts), output
        self.classes, self._numbers = common_classes(parts, unite=unite)
        first = parts[0].reader.manifest
        self.variant = first.variant
        self.made_from = tuple(dict.fromkeys(raw for part in parts for raw in part.reader.manifest.raw_files))
        self.fields = {name: BlobField(blob.encoding, None, blob.dtype) for name, blob in first.blobs.items()}
        self.made_of: dict[str, JSON] = {
            "sets": [part.to_json() for part in parts],
            "classes": "union" if unite else "equal",
            **({"shards": "linked"} if is_linked else {}),
            **({"names": "kept"} if keeps_names else {}),
            **({} if change is None else change.to_json()),
        }
        is_renumbered = any(numbers is not None for numbers in self._numbers)
        kept = common_metadata(parts, is_renumbered=is_renumbered)
        self.metadata = {**kept, "made_of": self.made_of, "written": dict(written or {})}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "parts": ()}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"made_of": self.made_of}

    @override
    def is_of(self, manifest: Manifest, root: Path) -> bool:
        return super().is_of(manifest, root) and manifest.metadata.get("made_of") == self.made_of

    @override
    def target(self, root: Path) -> Path:
        return self.output

    @override
    def title(self, root: Path) -> str:
        return self.output.name

    @override
    def command(self, root: Path) -> str:
        places = [part.reader.path for part in self.parts]
        return command("merge" if len(places) > 1 else "subset", *places, "--output", self.output)

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: the record sets as they are now; None if one is gone."""
        paths = [part.reader.path for part in self.parts]
        if not all(is_record_set(path) for path in paths if isinstance(path, Path)):
            return None
        again = [RecordReader(part.reader.path, digest=part.reader.digest) for part in self.parts]
        self.parts = tuple(
            SetPart(reader, part.choice, part.split) for part, reader in zip(self.parts, again, strict=True)
        )
        self.source = SetsSource(self.parts, self.keeps_names)
        return self.source

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [part.name for part in self.parts]

    def extras(self) -> Mapping[str, bytes]:
        """See `Recipe`: where the sets were, and what was chosen."""
        said = [
            {
                "path": str(part.reader.path),
                **({} if part.choice.indices is None else {"indices": part.choice.indices.tolist()}),
            }
            for part in self.parts
        ]
        return {COMBINED_FILE: json.dumps({"sets": said}).encode()}

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`."""
        assert self.source is not None
        shapes = {
            name: np.concatenate([part.shapes(name) for part in self.parts])
            for name, field in self.fields.items()
            if field.encoding == "raw"
        }
        return dataclasses.replace(self.table(self.source.names), keys=self.source.keys(), shapes=shapes)

    def table(self, names: Sequence[Sequence[str]]) -> Table:
        """Return all of the table but where values are, and their shapes.

        Args:
            names: The names of each part's records in the new set.
        """
        parts, first = self.parts, self.parts[0].reader.manifest
        table = Table(
            names=list(itertools.chain.from_iterable(names)),
            arrays={name: np.concatenate(list(self._columns(name))) for name in parts[0].reader.columns},
            splits=_splits(parts),
            classes=self.classes,
            fields={
                name: spec
                for name, spec in first.fields.items()
                if all(part.reader.manifest.fields[name] == spec for part in parts)
            },
            default_target=first.default_target,
            metadata=self.metadata,
            skipped={
                name: why for part in parts if part.choice.is_all for name, why in part.reader.manifest.skipped.items()
            },
        )
        return table if self.change is None else self.change.apply(table, parts)

    def _columns(self, name: str) -> Iterator[AnyArray]:
        """Yield an array field of each part; classes with their new numbers, all of one dtype."""
        is_label = name == self.parts[0].reader.manifest.label_field
        is_changed = is_label and any(numbers is not None for numbers in self._numbers)
        for part, numbers in zip(self.parts, self._numbers, strict=True):
            column = part.array(name)
            found = renumbered(column, numbers, str(part.reader.path)) if is_label else column
            yield found.astype(np.int64) if is_changed else found


def _splits(parts: Sequence[SetPart]) -> dict[str, NDArray[np.int64]]:
    """Put splits of one name together, in the order of the parts."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    start = 0
    for part in parts:
        for name, places in part.splits().items():
            found.setdefault(name, []).append(places + start)
        start += len(part.positions)
    return {name: np.concatenate(each) for name, each in found.items()}


def combined_again(reader: RecordReader, places: Sequence[Path] = ()) -> CombinedRecipe | None:
    """Return the recipe of a combined set; None if its sets are missing or were replaced.

    Args:
        places: Directories in which to look for the sets, by their names, before where they were.
    """
    data = reader.extra(COMBINED_FILE, MAX_EXTRA_BYTES)
    made_of: Any = reader.manifest.metadata.get("made_of")  # untrusted JSON
    try:
        noted = [{}] * len(made_of["sets"]) if data is None else json.loads(data)["sets"]
        parts = []
        for said, where in zip(made_of["sets"], noted, strict=True):
            found = _open_again(str(said["name"]), str(said["digest"]), where.get("path"), places)
            if found is None:
                return None
            chosen = said.get("chosen", {})
            indices, labels = where.get("indices"), chosen.get("labels")
            choice = Choice(
                chosen.get("split"),
                None if indices is None else np.array(indices, np.int64).reshape(-1),
                None if labels is None else tuple(map(int, labels)),
            )
            parts.append(SetPart(found, choice, str(said.get("as_split", ""))))
        written = reader.manifest.metadata.get("written")
        recipe = CombinedRecipe(
            parts,
            reader.folder,
            unite=made_of["classes"] == "union",
            written=written,
            is_linked=made_of.get("shards") == "linked",
            keeps_names=made_of.get("names") == "kept",
            change=Division(**made_of["split"]) if "split" in made_of else None,
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):  # untrusted
        return None
    is_same = recipe.made_of == made_of and recipe.variant == reader.manifest.variant
    return recipe if is_same else None


def _open_again(name: str, digest: str, path: object, places: Sequence[Path]) -> RecordReader | None:
    """Open a set by its digest, where it may be."""
    candidates = [place / Path(name).name for place in places]
    if isinstance(path, str) and "://" not in path:  # an untrusted address is not opened
        candidates.append(Path(path))
    for candidate in candidates:
        with contextlib.suppress(OSError):  # RecordErrors among them: it is another one
            if is_record_set(candidate):
                return RecordReader(candidate, digest=digest)
    return None
