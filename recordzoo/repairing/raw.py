"""The raw data of a repair: found, or downloaded; if neither, an error that says what is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.errors import DownloadError, FolderError, NotPreparedError, TermsError
from recordzoo.preparing.options import PrepareOptions
from recordzoo.preparing.raw import RawData, check_addresses
from recordzoo.progress import Progress
from recordzoo.recipes.base import Recipe
from recordzoo.repairing.origin import Facts, Origin, find_origin
from recordzoo.sources.member import Source
from recordzoo.text import name_first

_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Raw:
    """Raw data that is there.

    Attributes:
        recipe: What makes records of it.
        root: Where it was found.
        source: What is read.
    """

    recipe: Recipe
    root: Path
    source: Source


def find_raw(
    facts: Facts,
    root: Path | None,
    download: bool,
    options: PrepareOptions,
    progress: Progress,
    names: Sequence[str] = (),
) -> Raw:
    """Find the raw data of a damaged record set, or download it.

    Args:
        facts: The record set.
        root: Where the raw data is; None: where it was, or beside the record set.
        download: Download raw data that is not there.
        options: How.
        progress: Told of the download.
        names: Records of which something is read; empty for all.

    Raises:
        NotPreparedError: It is not there, and may not be downloaded; the text says what is needed.
        SourceError: Something of it is missing, or cannot be had.
    """
    what = _what(facts.path, names)
    origin = find_origin(facts, root)
    if origin is None:
        raise NotPreparedError(
            f"{what}, and what {facts.path.name} was made from is not known. Pass its place (--root); of records that "
            "a program of yours wrote, run that again.",
            path=str(facts.path),
        )
    data = RawData(origin.recipe, origin.root, facts.path, download, options, progress)
    try:
        source = data.find()
    except FolderError as err:
        raise NotPreparedError(f"{what}. {err} Pass the place of the raw data (--root).", path=str(facts.path)) from err
    if source is None:
        raise NotPreparedError(f"{what}. {_how_to_get(origin, options)}", path=str(facts.path))
    return Raw(origin.recipe, origin.root, source)


def _what(path: Path, names: Sequence[str]) -> str:
    if not names:
        return f"{path}: the damaged files are made from all of its raw data"
    shown = name_first(names, _NAMES_SHOWN)
    return f"{path}: {len(names):,} damaged value{'s' if len(names) > 1 else ''} ({shown}) must come from its raw data"


def _how_to_get(origin: Origin, options: PrepareOptions) -> str:
    recipe, root = origin.recipe, origin.root
    looked = f"It is not in {root} (looked for {', '.join(recipe.looked_for(root))})."
    missing = [remote for remote in recipe.raw_files if not remote.optional and not remote.path(root).exists()]
    if not missing:
        return f"{looked} Put it there, or pass another place (--root)."
    try:
        check_addresses(recipe, root, options)
    except (TermsError, DownloadError) as err:
        return f"{looked} {err}"
    files = ", ".join(f"{remote.name} ({remote.facts})" for remote in missing)
    return f"{looked} Pass --download to fetch {files}; or pass another place (--root)."
