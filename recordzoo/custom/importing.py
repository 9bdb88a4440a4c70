"""Another tool's files → a record set; `recordzoo.formats` has a module for each format."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from recordzoo.base.addresses import shown
from recordzoo.base.bars import default_progress
from recordzoo.custom.foreign import ForeignRecipe, schema_of
from recordzoo.custom.options import options_to_make
from recordzoo.custom.plans import Kind, UnevenError
from recordzoo.errors import NotPreparedError, OtherSourceError, SourceError
from recordzoo.formats import FORMATS, LAYOUTS
from recordzoo.formats.base import Foreign, classes_beside
from recordzoo.formats.find import find_foreign
from recordzoo.formats.sets import without_braces
from recordzoo.preparing import Options, ensure
from recordzoo.publish.exchange import check_place
from recordzoo.publish.output import ANOTHER_PATH
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.list_table import LIST_ENDINGS
from recordzoo.records.reader import RecordReader

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
