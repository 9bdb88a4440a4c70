"""Another tool's data → a record set: piece by piece, each sample stored as by `RecordWriter`."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn, cast

import numpy as np
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, shown
from recordzoo.errors import NotPreparedError, OtherSourceError, SampleError, SourceError
from recordzoo.formats import FORMATS, LAYOUTS, find_foreign
from recordzoo.formats.base import Foreign, ForeignSource, PieceMember, classes_beside, without_braces
from recordzoo.own.columns import LIST_ENDINGS
from recordzoo.own.fields import Fields, infer
from recordzoo.own.sample import Row, SampleRecipe, options_to_make, store
from recordzoo.own.values import Encoded, Kind, at_position, describe
from recordzoo.preparing.options import Options
from recordzoo.preparing.publish import ANOTHER_PATH, check_place
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.recipe import Recipe, Stored, Table
from recordzoo.records.kinds import SetKind
from recordzoo.records.reader import RecordReader

MAX_NAME = 4096
"""The most characters of a class name in a manifest."""

NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


def schema_of(foreign: Foreign, kinds: Mapping[str, Kind]) -> Fields:
    """Find the fields from some samples; see `Foreign.first`.

    Raises:
        SourceError: There are no samples.
        SampleError: A value cannot be stored; the message names its file.
    """
    first = foreign.first()
    if not first:
        raise SourceError(f"{foreign.location} is empty: there is no sample in it.", path=foreign.location)
    stored = {name: cast(Kind, kind) for name, kind in foreign.kinds.items() if name != "name"}
    samples = {number: each.values for number, (_, each) in enumerate(first)}
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


class ForeignRecipe(SampleRecipe):
    """The samples of a foreign dataset.

    Args:
        foreign: Has the samples.
        schema: How their fields are stored.
        output: The record set's directory.
    """

    kind = SetKind.IMPORTED

    def __init__(self, foreign: Foreign, schema: Fields, output: Path) -> None:
        metadata: dict[str, JSON] = {"identity": foreign.identity(), "named": foreign.fields}
        super().__init__(schema, output, foreign.classes, metadata, foreign)
        self.dataset, self.origin = foreign.format, foreign.origin or foreign.format
        self.specs = foreign.specs

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"schema": self.schema.identity(), "format": self.origin}

    @override
    def title(self, root: Path) -> str:
        return Path(self.data.location).name or str(self.data.location)

    @override
    def command(self, root: Path) -> str:
        named = [word for key, field in self.data.fields.items() for word in ("--field", f"{key}={field}")]
        allowed = ["--allow-paths"] if self.data.allows_paths else []
        return command("prepare", self.data.location, *named, *allowed, "--output", self.output)

    @override
    def find(self, root: Path) -> Source | None:
        return ForeignSource(self.data)

    @override
    def read(self, member: Member) -> Iterator[tuple[Row, Encoded]]:
        """See `SampleRecipe`: a member stands for a piece.

        Raises:
            SourceError: The piece is damaged.
            SampleError: A sample cannot be stored.
        """
        assert isinstance(member, PieceMember)
        foreign, piece = self.data, member.piece
        splits = [piece.split] if piece.split else []
        for number, sample in enumerate(foreign.read(piece)):
            with at_position(number, f"of {piece.name} in {foreign.location}"):
                if not isinstance(sample.name, str) or not sample.name:
                    raise SampleError(f"its name is a {describe(sample.name)}, not a text")
                encoded = self.schema.encode(sample.values)
            yield Row(f"{member.name}-{number:09d}", sample.name, splits, piece.name), encoded

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`.

        Raises:
            SourceError: Two samples have one name, or a label is beyond the names of classes.
        """
        table = super().build_table(stored, sidecars)
        if len(set(table.names)) != len(table.names):
            twice = next(name for name, count in Counter(table.names).items() if count > 1)
            raise SourceError(f"{self.output}: two records are called {twice!r}.", path=str(self.output))
        labels = table.arrays.get("target", np.zeros(0))
        if self.classes is not None and labels.size and labels.max() >= len(self.classes):
            raise SourceError(
                f"{self.output}: label {labels.max()} has no name; {len(self.classes)} classes have one. If their "
                "names are in classes.json, correct that file and run the same again.",
                path=str(self.output),
            )
        return table


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
        store(_recipe_of(foreign, output, kinds), kinds, to_make)
        check()  # another process may have published a different set meanwhile
    return output


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
