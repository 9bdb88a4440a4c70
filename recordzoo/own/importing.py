"""Samples of another tool's files → records: piece by piece, each sample stored as by `RecordWriter`."""

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.base.progress import default_progress
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, shown
from recordzoo.errors import NotPreparedError, OtherSourceError, SampleError, SourceError
from recordzoo.formats import FORMATS, LAYOUTS
from recordzoo.formats.base import Foreign, ForeignSource, PieceMember, Sample, classes_beside
from recordzoo.formats.find import find_foreign
from recordzoo.formats.sets import without_braces
from recordzoo.own.plans import Kind, UnevenError, at_position, describe, options_to_make
from recordzoo.own.schema import Rows, Schema, SchemaRecipe, columns_of, infer
from recordzoo.preparing.job import ensure
from recordzoo.preparing.options import Options
from recordzoo.preparing.publish import check_place
from recordzoo.preparing.space import ANOTHER_PATH
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.columns import LIST_ENDINGS
from recordzoo.recipes.recipe import Blob, Recipe, Sidecar, Stored, Table
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.reader import RecordReader

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


MAX_NAME = 4096
"""The most characters of a class name in a manifest."""


NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


def is_known(path: Path, fields: Mapping[str, str]) -> bool:
    """Whether a directory holds another tool's files.

    Raises:
        ArgumentError, SourceError: It does, and they are not one dataset, or damaged.
        PrepareError: A package that reads them is missing.
    """
    return find_foreign(str(path.absolute()), None, fields) is not None


def default_place(location: str) -> Path:
    """Return LOCATION with the ending .records: ``train.records`` for ``train-{00..12}.tar.gz``.

    For an address, it is the last part in the current directory; for a table in a file, the last part beside the file.
    """
    if "://" in location:
        name = shown(location).rstrip("/").rpartition("/")[2]
        return Path(name).absolute().with_suffix(".records")
    whole = Path(location).absolute()
    name = re.sub(r"\.(tar|tar\.\w+|tgz)$", ".records", whole.name, flags=re.IGNORECASE)
    if "{" in location and not whole.exists():
        folder = Path(*itertools.takewhile(lambda part: "{" not in part, whole.parts))
        name = without_braces(name)
        return folder.with_suffix(".records") if name in ("", ".records") else (folder / name).with_suffix(".records")
    place = whole.with_name(name).with_suffix(".records")
    file = next((each for each in place.parents if each.is_file()), None)
    return place if file is None else file.with_name(place.name)


def foreign_recipe(
    location: str,
    output: Path,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    allow_paths: bool = False,
) -> Recipe:
    """Return how another tool's data becomes records.

    Args:
        location: An absolute path, or an address.
        output: The record set's directory.
        format: One of `NAMES`. Default: detected.
        fields: What keys are called as fields.
        kinds: How fields are stored, as `convert` has it.
        allow_paths: Paths in the data may lead out of its folder.

    Raises:
        NotPreparedError: There is nothing of a known format.
        SourceError, PrepareError: As `Format.find`.
        ArgumentError: `location` holds several databases.
    """
    return _recipe_of(_find(location, format, fields or {}, allow_paths=allow_paths), output, kinds or {})


def _find(location: str, format: str | None, fields: Mapping[str, str], *, allow_paths: bool) -> Foreign:
    """Find the foreign dataset at a location. Raises as `foreign_recipe`."""
    foreign = find_foreign(location, format, fields)
    if foreign is not None:
        foreign.allows_paths = allow_paths
        return foreign
    if "://" not in location and not Path(location).exists():
        raise NotPreparedError(f"There is nothing at {location}.", path=location)
    raise NotPreparedError(
        f"{shown(location)} is of no known format. Known are: a directory with one folder for each class, a list of "
        f"files ({', '.join(LIST_ENDINGS)}), and {', '.join(NAMES)}. Anything else: recordzoo.convert(dataset).",
        path=shown(location),
    )


def _recipe_of(foreign: Foreign, output: Path, kinds: Mapping[str, Kind]) -> ForeignRecipe:
    foreign.open()
    if foreign.classes is None:
        foreign.classes = classes_beside(foreign.location)
    names = [*(foreign.classes or ()), *(name for spec in foreign.specs.values() for name in spec.names or ())]
    if (longest := max(names, key=len, default="")) and len(longest) > MAX_NAME:
        raise SourceError(
            f"{foreign.location}: the name of a class has {len(longest):,} letters, and {MAX_NAME:,} are the most: "
            f"{longest[:80]!r}...",
            path=foreign.location,
        )
    return ForeignRecipe(foreign, schema_of(foreign, kinds), output)


def import_foreign(
    location: str,
    output: Path,
    format: str | None,
    fields: Mapping[str, str],
    kinds: Mapping[str, Kind],
    allow_paths: bool,
    options: Options,
) -> Path:
    """Convert another tool's data into a record set, in the same order. An existing set of the same data is kept.

    Nothing that is read is executed, imported or unpickled, and nothing is written beside it.

    Args:
        location: As `foreign_recipe` has it, and so the next four.
        options: How the record set is made.

    Raises:
        RecordZooError: As `foreign_recipe`, and `ensure`.
        OtherSourceError: `output` holds something else.
        SampleError: A sample cannot be stored.
    """
    check_place(output, ANOTHER_PATH)
    foreign = _find(location, format, fields, allow_paths=allow_paths)

    def check() -> None:
        _check_same(output, foreign, format)

    to_make = options_to_make(output, options, check)
    if to_make is not None:
        _ensure_even(_recipe_of(foreign, output, kinds), kinds, to_make)
        check()  # another process may have published a different set meanwhile
    return output


def _ensure_even(recipe: ForeignRecipe, kinds: Mapping[str, Kind], options: Options) -> None:
    """Make the record set; start again with another kind if a field's values turn out to differ."""
    progress = options.progress or default_progress()
    while True:
        try:
            ensure(recipe, recipe.output.parent, options)
        except UnevenError as err:
            if err.details["field"] in kinds:
                raise
            recipe = recipe.widened(err)
            progress.note(f"{err} It is stored as {err.details['plans'][0].kind}; beginning again.")
        else:
            return


def _check_same(place: Path, foreign: Foreign, format: str | None) -> None:
    """Raise if the existing set differs from the requested one."""
    manifest = RecordReader(place).manifest
    held = manifest.metadata
    if held.get("identity") != foreign.identity() or format not in (None, manifest.dataset):
        _refuse(place, f"other records than {foreign.location}")
    if held.get("named") != foreign.fields:
        _refuse(place, f"the same samples with other fields: {held.get('named') or 'the default ones'}")


def _refuse(place: Path, what: str) -> NoReturn:
    raise OtherSourceError(
        f"{place} is there and holds {what}. Pass refresh=True (--refresh) to replace it, or another output.",
        path=str(place),
    )
