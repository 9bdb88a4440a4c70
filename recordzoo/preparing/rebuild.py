"""Rebuild a damaged record set; replace it if the result has the same digest."""

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.errors import (
    DownloadError,
    FolderError,
    ManifestError,
    NotPreparedError,
    OtherSourceError,
    RecordError,
    TermsError,
)
from recordzoo.preparing.job import Job
from recordzoo.preparing.kinds import kind_of
from recordzoo.preparing.linking import LinkJob
from recordzoo.preparing.located import locate
from recordzoo.preparing.options import Options
from recordzoo.preparing.raw import RawData, check_addresses
from recordzoo.publish.build import Build
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.from_sets.combined import CombinedRecipe
from recordzoo.recipes.from_sets.variant import Variant
from recordzoo.recipes.from_sets.variants import StoredRecipe, VariantRecipe, original_path, variant_recipe
from recordzoo.records.made_from import LAYOUT_FILE
from recordzoo.records.manifest import ORIGINAL
from recordzoo.records.reader import RecordReader, is_record_set


def rebuild(place: Path, root: Path | None, download: bool, options: Options) -> Path:
    """Rebuild a record set from its raw data; replace it if the result is identical, byte for byte.

    Args:
        place: The damaged record set.
        root: Directory of the raw data. None: its former directory, or beside the record set.
        download: Download missing raw data.
        options: Options to download and read the raw data.

    Returns:
        The directory of the raw data.

    Raises:
        ManifestError: The manifest is damaged: the set's source is unknown.
        NotPreparedError: The raw data is missing; the text says what is needed.
        OtherSourceError: The result is another record set; nothing was replaced.
        RecordZooError: As `ensure`.
    """
    try:
        reader = RecordReader(place)
    except ManifestError as err:
        raise ManifestError(
            f"{err} It does not say what the records were made from. Move {place} away and prepare the data again.",
            path=str(place),
        ) from err
    origin = _origin(reader, root)
    if origin is None:
        raise NotPreparedError(
            f"{place} is damaged, and what it was made from is not known, or no longer there. Pass the place of the "
            "raw data (--root). If a program wrote the records, run it again.",
            path=str(place),
        )
    recipe, raw_root = origin
    if isinstance(recipe, CombinedRecipe) and recipe.is_linked:
        LinkJob(recipe, options.progress, digest=reader.digest).run()
        return raw_root
    how = dataclasses.replace(
        options,
        records_dir=place,
        refresh=True,
        prepare=True,
        on_error="skip" if reader.manifest.skipped else "keep",
        check_hash=all(file.hash is not None for file in reader.manifest.raw_files),
        **_layout(reader),
    )
    try:
        _Rebuild(_DamagedRaw(locate(recipe, raw_root, how), download), reader.digest).run()
    except FolderError as err:
        raise NotPreparedError(
            f"{place} is damaged, and cannot be prepared again: {str(err).rstrip('.')}. Pass the place of the raw data "
            "(--root).",
            path=str(place),
        ) from err
    return raw_root


def _origin(reader: RecordReader, root: Path | None) -> tuple[Recipe, Path] | None:
    """Return a record set's recipe and the directory of its raw data, or None if unknown.

    Args:
        root: Directory of the raw data. None: its former directory, or beside the record set.
    """
    variant = reader.manifest.variant
    if root is None and variant != ORIGINAL:
        original = original_path(reader.folder, variant)
        if original != reader.folder and is_record_set(original):
            return _variant(StoredRecipe(RecordReader(original)), variant, original), original
    kind = kind_of(reader.manifest)
    places = [root] if root is not None else [*kind.recorded(reader), *kind.beside(reader)]
    recipe = kind.recipe(reader, places)
    if recipe is None or not places:
        return None
    place = next((each for each in places if _is_there(recipe, each)), places[-1])
    return _variant(recipe, variant, place), place


def _variant(recipe: Recipe, variant: str, root: Path) -> Recipe:
    if variant in (ORIGINAL, recipe.variant):
        return recipe
    if isinstance(recipe, StoredRecipe):
        return VariantRecipe(recipe, Variant.parse(variant), root)
    return variant_recipe(recipe, root, variant)


def _is_there(recipe: Recipe, root: Path) -> bool:
    if not recipe.raw_files:
        return root.exists()
    with contextlib.suppress(RecordError, OSError, RuntimeError):  # broken here: another directory may be intact
        return recipe.find(root) is not None
    return False


def _layout(reader: RecordReader) -> dict[str, Any]:
    """Return the shard layout options, if the file beside the set names one."""
    try:
        given = json.loads(reader.extra(LAYOUT_FILE) or b"{}")
        return {"shard_bytes": given.get("shard_bytes"), "num_shards": given.get("num_shards")}
    except (ValueError, AttributeError, RecursionError):
        return {}


class _Rebuild(Job):
    """A preparation whose result is published only if it has the existing record set's digest.

    Args:
        raw: The raw data of the set.
        digest: The set's digest.
    """

    def __init__(self, raw: RawData, digest: str) -> None:
        super().__init__(raw)
        self._wanted = digest

    @property
    @override
    def is_published(self) -> bool:
        return True  # even if it lacks required files

    @override
    def _may_replace(self, path: Path) -> bool:
        return os.path.lexists(path)

    @override
    def _prepare(self, build: Build) -> None:
        super()._prepare(build)
        if self._digest != self._wanted:
            build.remove()
            raise OtherSourceError(
                f"{self.target}: {self.root} gives another record set. Nothing was replaced. The raw data may have "
                f"changed since, or the set was made with other options. To replace it, run: "
                f"{self.recipe.command(self.root)} --refresh",
                path=str(self.target),
            )


class _DamagedRaw(RawData):
    """The raw data of a damaged record set; errors explain how to repair the set."""

    @override
    def _missing(self) -> str:
        target, looked = self.located.target, ", ".join(self.recipe.looked_for(self.root))
        return f"{target} is damaged, and its raw data is not in {self.root} (looked for {looked})."

    @override
    def _how_to_get(self) -> str:
        missing = [file for file in self.recipe.raw_files if not file.optional and not file.path(self.root).exists()]
        if not missing:
            return "Put it there, or pass another place (--root)."
        try:
            check_addresses(self.located)
        except (DownloadError, TermsError) as err:
            return str(err)
        files = ", ".join(f"{file.name} ({file.facts})" for file in missing)
        return f"Pass --download to fetch {files}; or pass another place (--root)."
