"""Samples of another tool's files → records: piece by piece, each sample stored as by `RecordWriter`."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.types import JSON
from recordzoo.custom.infer import infer
from recordzoo.custom.plans import Kind, UnevenError
from recordzoo.custom.recipe import Rows, SchemaRecipe, columns_of
from recordzoo.custom.schema import Schema
from recordzoo.custom.values import at_position, describe
from recordzoo.errors import SampleError, SourceError
from recordzoo.formats.base import Foreign, ForeignSource, PieceMember, Sample
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.base import Blob, Sidecar, Stored, Table
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind

_SIDE = "names"


def schema_of(foreign: Foreign, kinds: Mapping[str, Kind]) -> Schema:
    """Find the fields from some samples; see `Foreign.first`.

    Raises:
        SourceError: There are no samples.
        SampleError: A value cannot be stored; the message names its file.
    """
    first = foreign.first()
    if not first:
        raise SourceError(f"{foreign.location} is empty: there is no sample in it.", path=foreign.location)
    stored = {name: cast(Kind, kind) for name, kind in foreign.kinds.items() if name != "name"}
    samples = {number: _without_name(sample) for number, (_, sample) in enumerate(first)}
    try:
        return infer(samples, None, {**stored, **kinds}, has_gaps=True)
    except SampleError as err:
        position = err.details.pop("position", 0)
        piece = first[position][0]
        number = sum(each is piece for each, _ in first[:position])
        text = str(err).removeprefix(f"position {position}: ")
        raise type(err)(
            f"{', '.join(map(str, piece.files)) or piece.name}, sample {number}: {text}", **err.details
        ) from err


def _without_name(sample: Sample) -> dict[str, Any]:  # Any: values of all kinds
    return {key: value for key, value in sample.items() if key != "name"}


class ForeignRecipe(SchemaRecipe):
    """The samples of a foreign dataset. A pickled copy of it has no dataset: a worker process has that already.

    Args:
        foreign: Has the samples.
        schema: How their fields are stored.
        output: The record set's directory.
    """

    kind = SetKind.IMPORTED

    def __init__(self, foreign: Foreign, schema: Schema, output: Path) -> None:
        metadata: dict[str, JSON] = {"identity": foreign.identity(), "named": foreign.fields}
        super().__init__(schema, 0, foreign.classes, metadata, output, 0)
        self.dataset, self.origin = foreign.format, foreign.origin or foreign.format
        self.specs = foreign.specs
        self._foreign: Foreign | None = foreign

    def widened(self, err: UnevenError) -> "ForeignRecipe":
        """Return a copy that stores one field as an `UnevenError` says."""
        assert self._foreign is not None
        return ForeignRecipe(self._foreign, self.schema.widened(err), self.output)

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_foreign": None}

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"schema": self.schema.identity(), "format": self.origin}

    @override
    def title(self, root: Path) -> str:
        assert self._foreign is not None
        return Path(self._foreign.location).name or self._foreign.location

    @override
    def command(self, root: Path) -> str:
        assert self._foreign is not None
        named = [word for key, field in self._foreign.fields.items() for word in ("--field", f"{key}={field}")]
        allowed = ["--allow-paths"] if self._foreign.allows_paths else []
        return command("prepare", self._foreign.location, *named, *allowed, "--output", self.output)

    @property
    def _token(self) -> str:
        return str(self.metadata["identity"])

    @override
    def worker_setup(self) -> Callable[[], None] | None:
        assert self._foreign is not None
        return functools.partial(_bring, self._token, self._foreign)

    @override
    def find(self, root: Path) -> Source | None:
        assert self._foreign is not None
        return ForeignSource(self._foreign)

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """See `Recipe`: a member stands for a piece.

        Raises:
            SourceError: The piece is damaged.
            SampleError: A sample cannot be stored.
        """
        assert isinstance(member, PieceMember)
        foreign = self._foreign if self._foreign is not None else _in_worker[self._token]
        rows, names = Rows(), []
        for number, sample in enumerate(foreign.read(member.piece)):
            key = f"{member.name}-{number:09d}"
            with at_position(number, f"of {member.piece.name} in {foreign.location}"):
                encoded = self.schema.encode(_without_name(sample))
                name = _name_of(sample, f"{member.piece.name}/{number:06d}")
            names.append(name)
            for plan, data, ending in encoded.blobs:
                yield Blob(plan.name, f"{key}{ending}", data, checked=plan.kind == "image", name=name)
            yield from (_of_piece(member, side) for side in rows.add(number, encoded))
        yield from (_of_piece(member, side) for side in rows.rest())
        content = {"piece": member.piece.name, "names": names, "split": member.piece.split}
        yield Sidecar(f"{_SIDE}-{member.name}", json.dumps(content).encode())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`.

        Raises:
            SourceError: Two samples have one name, or a label is beyond the names of classes.
        """
        sides = {name: json.loads(data) for name, data in sorted(sidecars.items()) if name.startswith(f"{_SIDE}-")}
        columns = columns_of({name: data for name, data in sidecars.items() if name not in sides})
        keys = [
            f"{side.removeprefix(f'{_SIDE}-')}-{number:09d}"
            for side, content in sides.items()
            for number in range(len(content["names"]))
        ]
        names = _distinct_names(list(sides.values()))
        splits = np.repeat([content["split"] for content in sides.values()], [len(c["names"]) for c in sides.values()])
        skipped = {_key(name) for field in stored.skipped.values() for name in field}
        kept = np.flatnonzero([key not in skipped for key in keys])
        names = [names[position] for position in kept]
        _check_names(names, self.output)
        if self.classes is not None and "target" in columns:
            _check_labels(columns["target"][kept], self.classes, self.output)
        blobs = {name: {_key(key): key for key in stored.keys.get(name, ())} for name in self.fields}
        return Table(
            names=names,
            keys={name: [found.get(keys[position]) for position in kept] for name, found in blobs.items()},
            arrays={name: column[kept] for name, column in columns.items() if not name.endswith(".shape")},
            splits={split: np.flatnonzero(splits[kept] == split) for split in dict.fromkeys(splits.tolist()) if split},
            classes=self.classes,
            fields={name: spec for name, spec in self.specs.items() if _fits(spec, columns.get(name))},
            metadata={**self.metadata, "sample": self.schema.to_json()},
            shapes={name.removesuffix(".shape"): c[kept] for name, c in columns.items() if name.endswith(".shape")},
        )


def _name_of(sample: Sample, otherwise: str) -> str:
    """Return a sample's name."""
    name = sample.get("name", otherwise)
    if not isinstance(name, str) or not name:
        raise SampleError(f"its name is a {describe(name)}, not a text")
    return name


# Any: of any dtype.
def _fits(spec: FieldSpec, column: NDArray[Any] | None) -> bool:
    """Whether a field's stored type fits its kind: class numbers are integers."""
    return spec.kind is not FieldKind.CLASS or (column is not None and column.ndim == 1 and column.dtype.kind in "iu")


def _of_piece(member: Member, side: Sidecar) -> Sidecar:
    return Sidecar(f"{member.name}-{side.name}", side.data)


def _key(name: str) -> str:
    """Return a blob's key without the ending of an image's file."""
    return name.partition(".")[0]


def _distinct_names(sides: Sequence[Mapping[str, Any]]) -> list[str]:  # Any: JSON
    """Return the names of all samples. If names repeat in several pieces, put the piece's name in front."""
    names = [name for content in sides for name in content["names"]]
    if len(set(names)) == len(names):
        return names
    return [f"{content['piece']}/{name}" for content in sides for name in content["names"]]


def _check_names(names: Sequence[str], output: Path) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise SourceError(f"{output}: two records are called {twice!r}.", path=str(output))


# Any: labels may be numbers of any dtype and shape.
def _check_labels(labels: NDArray[Any], classes: Sequence[str], output: Path) -> None:
    if labels.size and labels.max() >= len(classes):
        raise SourceError(
            f"{output}: label {labels.max()} has no name; {len(classes)} classes have one. If their names are in "
            "classes.json, correct that file and run the same again.",
            path=str(output),
        )


_in_worker: dict[str, Foreign] = {}


def _bring(token: str, foreign: Foreign) -> None:
    """In a worker process: keep the dataset."""
    _in_worker[token] = foreign
