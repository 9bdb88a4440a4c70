"""Another tool's data → a record set: piece by piece, each sample stored as by `RecordWriter`."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import numpy as np
from typing_extensions import override

from recordzoo.base.settings import command
from recordzoo.base.text import JSON, shown
from recordzoo.errors import NotPreparedError, SampleError, SourceError
from recordzoo.formats import FORMATS, LAYOUTS, find_foreign
from recordzoo.formats.base import Foreign, ForeignSource, PieceMember, classes_beside, without_braces
from recordzoo.own.columns import LIST_ENDINGS
from recordzoo.own.fields import Encoded, Fields, Kind, infer
from recordzoo.own.sample import Row, SampleRecipe
from recordzoo.own.values import at_position, describe
from recordzoo.raw.member import Member, Source
from recordzoo.recipes.recipe import Stored, Table
from recordzoo.records.kinds import SetKind
from recordzoo.records.manifest import Manifest

_MAX_NAME = 4096
"""The most characters of a class name in a manifest."""

NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


class ForeignRecipe(SampleRecipe):
    """The samples of a foreign dataset, which is opened by `find`.

    Args:
        foreign: Has the samples.
        output: The record set's directory.
        format: The format that the user named.
        kinds: How fields are stored, for the fields that the user names.
    """

    kind = SetKind.IMPORTED
    replacing = "refresh=True (--refresh)"

    def __init__(self, foreign: Foreign, output: Path, format: str | None, kinds: Mapping[str, Kind]) -> None:
        super().__init__(output, kinds, data=foreign)
        self._format = format

    @override
    def find(self, root: Path) -> Source | None:
        """Return the pieces; the first call opens the data and determines its fields.

        Raises:
            RemoteError, SourceError: The data cannot be downloaded, is empty or damaged.
            SampleError: A value cannot be stored; the message names its file.
        """
        foreign: Foreign = self.data
        if not self.metadata:
            foreign.open()
            foreign.classes = classes_beside(foreign.location) if foreign.classes is None else foreign.classes
            _check_names(foreign)
            self.use(_schema_of(foreign, self.kinds))
            self.classes = None if foreign.classes is None else tuple(foreign.classes)
            self.dataset, self.origin, self.specs = foreign.format, foreign.origin or foreign.format, foreign.specs
            self.metadata = {"identity": foreign.identity(), "named": foreign.fields}
        return ForeignSource(foreign)

    @override
    def difference(self, manifest: Manifest) -> str | None:
        held = manifest.metadata
        if held.get("identity") != self.data.identity() or self._format not in (None, manifest.dataset):
            return f"other records than {self.data.location}"
        if held.get("named") != self.data.fields:
            return f"the same samples with other fields: {held.get('named') or 'the default ones'}"
        return None

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


def _check_names(foreign: Foreign) -> None:
    """Raise for names of classes that a manifest does not take."""
    names = [*(foreign.classes or ()), *(name for spec in foreign.specs.values() for name in spec.names or ())]
    if (longest := max(names, key=len, default="")) and len(longest) > _MAX_NAME:
        raise SourceError(
            f"{foreign.location}: the name of a class has {len(longest):,} letters, and {_MAX_NAME:,} are the most: "
            f"{longest[:80]!r}...",
            path=foreign.location,
        )


def _schema_of(foreign: Foreign, kinds: Mapping[str, Kind]) -> Fields:
    """Find the fields from some samples; see `Foreign.first`."""
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
    format: str | None,
    fields: Mapping[str, str],
    kinds: Mapping[str, Kind],
    allow_paths: bool,
) -> ForeignRecipe:
    """Return how another tool's data becomes records, in the same order.

    Nothing that is read is executed, imported or unpickled, and nothing is written beside it.

    Args:
        location: An absolute path, or an address.
        output: The record set's directory.
        format: One of `NAMES`. None: detected.
        fields: What keys are called as fields.
        kinds: How fields are stored, as `convert` has it.
        allow_paths: Paths in the data may lead out of its folder.

    Raises:
        NotPreparedError: There is nothing of a known format.
        SourceError, PrepareError: As `Format.find`.
        ArgumentError: `location` holds several databases.
    """
    foreign = find_foreign(location, format, fields)
    if foreign is not None:
        foreign.allows_paths = allow_paths
        return ForeignRecipe(foreign, output, format, kinds)
    if "://" not in location and not Path(location).exists():
        raise NotPreparedError(f"There is nothing at {location}.", path=location)
    raise NotPreparedError(
        f"{shown(location)} is of no known format. Known are: a directory with one folder for each class, a list of "
        f"files ({', '.join(LIST_ENDINGS)}), and {', '.join(NAMES)}. Anything else: recordzoo.convert(dataset).",
        path=shown(location),
    )
