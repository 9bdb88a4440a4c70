"""Record sets for `cache`: which files belong to one, and whether it could be made again."""

import os
import re
from pathlib import Path

from recordzoo import catalogue
from recordzoo.cli.cache.item import Item, Kind, measure
from recordzoo.errors import RecordError
from recordzoo.preparing.build_lock import who_prepares
from recordzoo.preview.stats import tree_root
from recordzoo.recipes.beside import BESIDE
from recordzoo.recipes.listing import list_path
from recordzoo.recipes.variants.stored import original_path
from recordzoo.records.arrays import file_name
from recordzoo.records.made_from import MadeFrom
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, ORIGINAL, Manifest
from recordzoo.records.marks import marks_name
from recordzoo.records.reader import RecordReader, is_record_set

_READ_HERE = (MANIFEST_NAME, *BESIDE)
_SHARD = re.compile(r"shard-[0-9]{5,7}\.lmdb")
_OURS = re.compile("|".join([_SHARD.pattern, r"[a-z0-9_.-]+\.npy", r".+\.marks", *map(re.escape, BESIDE)]))
"""What files of a record set are called that has no manifest any more."""


def set_item(path: Path) -> Item | None:
    """Describe the record set in a directory; None if it is none, or its manifest cannot be read."""
    if not is_record_set(path):
        return remains_item(path)
    # Before anything is read: that would count as use.
    names = sorted(os.listdir(path))
    size, last = measure((path / name for name in names), _READ_HERE)
    try:
        reader = RecordReader(path)
        reason = why_kept(reader)
    except RecordError:
        return None
    foreign = tuple(name for name in names if name not in own_names(reader.manifest))
    name = path.name.removesuffix(ENDING)
    return Item(Kind.SET, path, name, size, last, who_prepares(path), reason, foreign)


def remains_item(path: Path) -> Item | None:
    """Describe what is left of a record set whose deletion was interrupted: its files without the manifest."""
    names = os.listdir(path)
    if not path.name.endswith(ENDING) or not all(map(_OURS.fullmatch, names)):
        return None
    if not any(map(_SHARD.fullmatch, names)):  # shards are deleted last
        return None
    size, last = measure(path / name for name in names)
    return Item(Kind.REMAINS, path, path.name.removesuffix(ENDING), size, last, who_prepares(path))


def own_names(manifest: Manifest) -> set[str]:
    """Return the names of all files that a record set may have."""
    arrays, shards = map(file_name, manifest.arrays), (shard.name for shard in manifest.shards)
    return {MANIFEST_NAME, *arrays, *shards, *map(marks_name, manifest.blobs), *BESIDE}


def why_kept(reader: RecordReader) -> str:
    """Say why a record set could not be made again; "" if it could: its raw data is there, or can be downloaded."""
    manifest, path = reader.manifest, reader.folder
    if manifest.variant != ORIGINAL:
        original = original_path(path, manifest.variant)
        if original != path and is_record_set(original):
            return ""
    if manifest.dataset in catalogue.names():
        return why_not_downloaded(manifest.dataset, manifest.part, path.parent)
    base = _raw_place(reader)
    if base is None:
        return "recordzoo does not know what it was made from"
    return "" if os.path.exists(base) else f"what it was made from is gone: {base}"


def why_not_downloaded(dataset: str, part: str, root: Path) -> str:
    """Say which raw file of a dataset's part is neither in a root nor can be downloaded by anybody; "" if none."""
    entry = catalogue.entry(dataset)
    for file in entry.files:
        if part not in file.parts or file.optional or (root / entry.folder / file.name).is_file():
            continue
        if file.needs_terms:
            return f"{file.name} is not there, and can be downloaded only after accepting terms"
        if not file.urls:
            return f"{file.name} is not there, and must be downloaded by hand"
    return ""


def _raw_place(reader: RecordReader) -> str | None:
    """Return the tree or the list that a record set was made from; None if that is not known."""
    place = tree_root(reader) or list_path(reader)
    if place is not None:
        return place
    made_from = MadeFrom.of(reader) if reader.manifest.dataset in ("folder", "flat") else None
    return None if made_from is None else made_from.base
