"""What another tool stored → a record set; the formats are modules of `recordzoo.formats` and `recipes.imports`."""

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from recordzoo.addresses import shown
from recordzoo.bars import default_progress
from recordzoo.custom.foreign import ForeignRecipe, schema_of
from recordzoo.custom.options import options_to_make
from recordzoo.custom.schema import Kind, UnevenError
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError
from recordzoo.formats import FORMATS
from recordzoo.formats.base import Foreign, classes_beside
from recordzoo.formats.find import find_foreign
from recordzoo.formats.sets import without_braces
from recordzoo.preparing import Options, ensure
from recordzoo.publish.exchange import check_place
from recordzoo.publish.output import ANOTHER_PATH
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.imports import LAYOUTS
from recordzoo.recipes.imports.places import database_files, may_be_database
from recordzoo.recipes.imports.recipe import ImportRecipe
from recordzoo.recipes.imports.source import identity
from recordzoo.recipes.list_table import LIST_ENDINGS
from recordzoo.records.reader import RecordReader

NAMES = (*LAYOUTS, *FORMATS)
"""The formats of other tools, as `from_` names them."""


def is_known(path: Path, fields: Mapping[str, str]) -> bool:
    """Whether a directory holds another tool's files.

    Raises:
        ArgumentError, SourceError: It does, and they are not one dataset, or damaged.
        PrepareError: A package that reads them is missing.
    """
    try:
        database_files(path)
    except NotPreparedError:
        return find_foreign(str(path.absolute()), None, fields) is not None
    return True


def default_place(location: str) -> Path:
    """Return LOCATION with the ending .records: ``train.records`` for ``train-{00..12}.tar.gz``.

    Of an address, it is the last part in the current directory; of a table in a file, the last part beside the file.
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
) -> Recipe:
    """Return how another tool's data becomes records.

    Args:
        location: An absolute path, or an address.
        output: The record set's directory.
        format: One of `NAMES`. Default: detected.
        fields: What keys are called as fields. Not for LMDB.
        kinds: How fields are stored, as `convert` has it. Not for LMDB.

    Raises:
        NotPreparedError: There is nothing of a known format.
        SourceError, PrepareError: As `Format.find`.
        ArgumentError: `location` holds several databases, or fields are given for LMDB.
    """
    foreign = _find(location, format, fields or {}, kinds or {})
    return ImportRecipe(Path(location), output, format) if foreign is None else _recipe_of(foreign, output, kinds or {})


def _find(location: str, format: str | None, fields: Mapping[str, str], kinds: Mapping[str, Kind]) -> Foreign | None:
    """Find what is at a place; None for LMDB databases. Raises as `foreign_recipe`."""
    foreign = None if format in LAYOUTS else find_foreign(location, format, fields)
    if foreign is None:
        if "://" in location:
            raise NotPreparedError(f"{shown(location)} is an address; LMDB databases are on this machine.")
        if fields or kinds:
            raise ArgumentError(
                "fields (--field) and kinds are not for LMDB databases, whose fields are image and target."
            )
        if format is None:
            _check_known(Path(location))
    return foreign


def _recipe_of(foreign: Foreign, output: Path, kinds: Mapping[str, Kind]) -> ForeignRecipe:
    foreign.open()
    if foreign.classes is None:
        foreign.classes = classes_beside(foreign.location)
    return ForeignRecipe(foreign, schema_of(foreign, kinds), output)


def import_foreign(
    location: str,
    output: Path,
    format: str | None,
    fields: Mapping[str, str],
    kinds: Mapping[str, Kind],
    options: Options,
) -> Path:
    """Store what another tool stored as a record set, in its order. An existing set of the same data stays as it is.

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
    foreign = _find(location, format, fields, kinds)

    def check() -> None:
        _check_same(output, location, format) if foreign is None else _check_foreign(output, foreign)

    to_make = options_to_make(output, options, check)
    if to_make is None:
        return output
    if foreign is None:
        ensure(ImportRecipe(Path(location), output, format), output.parent, to_make)
    else:
        _ensure_even(_recipe_of(foreign, output, kinds), kinds, to_make)
    check()  # another process may have been faster, with something else
    return output


def _ensure_even(recipe: ForeignRecipe, kinds: Mapping[str, Kind], options: Options) -> None:
    """Make the record set; begin again with another kind if a field turns out to be uneven."""
    progress = options.progress or default_progress()
    while True:
        try:
            ensure(recipe, recipe.output.parent, options)
        except UnevenError as err:
            if err.details["field"] in kinds:
                raise
            recipe = recipe.widened(err.details["field"], err.details["kind"])
            progress.note(f"{err} It is stored as {err.details['kind']}; beginning again.")
        else:
            return


def _check_known(path: Path) -> None:
    """Refuse what is no LMDB database, and so of no known format."""
    try:
        database_files(path)
        reason = f"{path} is of no known format."
        is_known = not path.is_file() or may_be_database(path)
    except NotPreparedError as err:
        if not path.exists():
            raise NotPreparedError(f"There is nothing at {path}.", path=str(path)) from None
        reason, is_known = f"{err} It is of no other known format either.", False
    if not is_known:
        raise NotPreparedError(
            f"{reason} Known are: a directory with one folder for each class, a list of files "
            f"({', '.join(LIST_ENDINGS)}), and {', '.join(NAMES)}. Anything else: recordzoo.convert(dataset).",
            path=str(path),
        )


def _check_foreign(place: Path, foreign: Foreign) -> None:
    """Compare what is there with what is asked for."""
    held = RecordReader(place).manifest.metadata
    if held.get("identity") != foreign.identity():
        _refuse(place, f"other records than {foreign.location}")
    if held.get("named") != foreign.fields:
        _refuse(place, f"the same samples with other fields: {held.get('named') or 'the default ones'}")


def _check_same(place: Path, databases: str, format: str | None) -> None:
    """Compare what is there with what is asked for."""
    manifest = RecordReader(place).manifest
    if manifest.metadata.get("databases") != identity(Path(databases)) or format not in (None, manifest.dataset):
        _refuse(place, f"other records than {databases}")


def _refuse(place: Path, what: str) -> NoReturn:
    raise OtherSourceError(
        f"{place} is there and holds {what}. Pass refresh=True (--refresh) to replace it, or another output.",
        path=str(place),
    )
