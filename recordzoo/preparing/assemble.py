"""Finished shards → a record set in the build directory, ready for the rename that publishes it."""

import itertools
import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.preparing.journal import Journal, in_threads
from recordzoo.preparing.resolve import are_repeated, check_counts, resolve
from recordzoo.preparing.rows import load_rows, load_sidecars
from recordzoo.recipes.base import ABSENT, BlobField, Recipe, Stored
from recordzoo.recipes.jpeg import UNKNOWN
from recordzoo.records.manifest import INDEX_DTYPE, NO_SHARD, BlobSpec, RawFile, ShardSpec, shard_name
from recordzoo.records.writer import SetContents, write_set

MOST_NAMED = 1000
"""Broken images listed by name in the manifest; further ones are only counted."""

_ROW_DTYPE = np.dtype([*INDEX_DTYPE.descr, ("mark", "u1")])

logger = logging.getLogger("recordzoo")


class _Rows:
    """All rows of one blob field, each key once, in the order of writing."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._parts: list[NDArray[np.void]] = []

    def add(self, keys: list[str], rows: NDArray[np.void]) -> None:
        self.keys += keys
        self._parts.append(rows)

    def unique(self, field: str) -> NDArray[np.void]:
        """Return the rows; the last row of a key wins, as when an archive is unpacked."""
        rows = np.concatenate(self._parts) if self._parts else np.zeros(0, _ROW_DTYPE)
        self._parts.clear()
        if are_repeated(self.keys):
            last = {key: number for number, key in enumerate(self.keys)}
            logger.warning("%d %s names stand twice in the raw data; the later counts.", len(rows) - len(last), field)
            keep = sorted(last.values())
            self.keys = [self.keys[number] for number in keep]
            rows = rows[keep]
        return rows


def assemble(
    journal: Journal,
    recipe: Recipe,
    source: str,
    raw_files: Sequence[RawFile],
    extras: Mapping[str, bytes] | None = None,
) -> str:
    """Write the record set into the build directory: table, indices, arrays and manifest.

    Args:
        journal: The finished shards and units.
        recipe: Arranges the records.
        source: The manifest's value for the raw data.
        raw_files: The archives that were converted.
        extras: Further files beside the manifest, in addition to those of the recipe.

    Returns:
        The set's digest.
    """
    fields, shards = _load(journal, recipe)
    sidecars: dict[str, bytes] = {}
    bad: dict[str, str] = {}
    left_out: dict[str, dict[str, str]] = {}
    units = [journal.units[number] for number in sorted(journal.units)]
    for unit, files in zip(units, in_threads(lambda unit: load_sidecars(journal.path, unit), units), strict=True):
        sidecars.update(files)
        bad.update(unit.bad)
        for field, reasons in unit.skipped.items():
            left_out.setdefault(field, {}).update(reasons)
    rows = {name: collected.unique(name) for name, collected in fields.items()}
    stored = {name: collected.keys for name, collected in fields.items()}
    table = recipe.build_table(_stored(recipe, stored, left_out), sidecars)
    main = left_out.get(recipe.main_field, {}).keys()
    resolved = resolve(recipe, table, stored, main)
    skipped = {**table.skipped, **{key: why for reasons in left_out.values() for key, why in reasons.items()}}
    hashed = {file.name for file in raw_files if file.hash}
    is_theirs = len(hashed) == len(raw_files) and hashed.issuperset(file.name for file in recipe.raw_files)
    if is_theirs and raw_files and not skipped:
        check_counts(recipe, resolved)
    shapes = resolved.shapes
    journal.move_shards()
    return write_set(
        journal.set,
        SetContents(
            kind=recipe.kind,
            dataset=recipe.dataset,
            part=recipe.part,
            variant=recipe.variant,
            blobs={name: _spec(spec, shapes.get(name)) for name, spec in recipe.fields.items()},
            indices={name: _index(rows[name], slots) for name, slots in resolved.slots.items()},
            marks={
                name: _marks(rows[name], resolved.slots[name])
                for name, spec in recipe.fields.items()
                if spec.encoding == "image"
            },
            names=resolved.names,
            shards=shards,
            arrays={
                **resolved.arrays,
                **{f"{name}.shape": each.astype(np.uint32) for name, each in shapes.items() if _one(each) is None},
            },
            splits=resolved.splits,
            classes=table.classes,
            fields=table.fields,
            default_target=table.default_target,
            source=source,
            raw_files=raw_files,
            bad=dict(itertools.islice(bad.items(), MOST_NAMED)),
            skipped=dict(itertools.islice(skipped.items(), MOST_NAMED)),
            metadata={
                **table.metadata,
                **({"num_bad": len(bad)} if len(bad) > MOST_NAMED else {}),
                **({"num_skipped": len(skipped)} if len(skipped) > MOST_NAMED else {}),
            },
            extras={**recipe.extras(), **(extras or {})},
        ),
    )


def warn_of_bad(journal: Journal) -> None:
    """Warn of unreadable images: once for the kept ones, once for the skipped ones."""
    bad = {name: why for unit in journal.units.values() for name, why in unit.bad.items()}
    fields = [reasons for unit in journal.units.values() for reasons in unit.skipped.values()]
    skipped = {name: why for reasons in fields for name, why in reasons.items()}
    for one, many, found in (("kept as it is", "kept as they are", bad), ("left out", "left out", skipped)):
        if found:
            shown = "; ".join(f"{name}: {why}" for name, why in list(found.items())[:20])
            more = f"; and {len(found) - 20} more" if len(found) > 20 else ""
            what = f"1 broken image was {one}" if len(found) == 1 else f"{len(found)} broken images were {many}"
            logger.warning("%s: %s%s", what, shown, more)


def _load(journal: Journal, recipe: Recipe) -> tuple[dict[str, _Rows], list[ShardSpec]]:
    fields = {name: _Rows() for name in recipe.fields}
    shards: list[ShardSpec] = []
    finished = [shard for unit in sorted(journal.shards) for shard in journal.shards[unit]]
    every = in_threads(lambda shard: load_rows(journal.path, shard), finished)
    for number, (shard, loaded) in enumerate(zip(finished, every, strict=True)):
        shards.append(
            ShardSpec(
                name=shard_name(number),
                size_bytes=shard.size_bytes,
                num_values=shard.num_values,
                page_size=shard.page_size,
                last_page=shard.last_page,
                hash=shard.hash,
            )
        )
        rows = np.zeros(shard.num_values, _ROW_DTYPE)
        rows["shard"] = number
        rows["slot"] = np.arange(shard.num_values)
        rows["length"], rows["crc32"], rows["offset"] = loaded.lengths, loaded.crcs, loaded.offsets
        rows["mark"] = loaded.marks
        names = list(loaded.names)
        for code, field in enumerate(loaded.field_names):
            mine = np.flatnonzero(loaded.fields == code)
            fields[field].add(names if len(mine) == len(names) else [names[i] for i in mine.tolist()], rows[mine])
    return fields, shards


def _one(shapes: NDArray[np.uint32]) -> tuple[int, ...] | None:
    """Return the shape shared by all values, or None."""
    same = len(shapes) > 0 and bool((shapes == shapes[0]).all())
    return tuple(shapes[0].tolist()) if same else None


def _spec(field: BlobField, shapes: NDArray[np.uint32] | None) -> BlobSpec:
    return BlobSpec(field.encoding, field.shape if shapes is None else _one(shapes), field.dtype)


def _index(rows: NDArray[np.void], order: NDArray[np.int64]) -> NDArray[np.void]:
    index = np.zeros(len(order), INDEX_DTYPE)
    present = order != ABSENT
    chosen = order[present]
    for name in INDEX_DTYPE.names or ():  # one column at a time: saves 2.4 GB for 100 million rows
        index[name][present] = rows[name][chosen]
    index["shard"][~present] = NO_SHARD
    return index


def _marks(rows: NDArray[np.void], order: NDArray[np.int64]) -> NDArray[np.uint8]:
    marks = np.full(len(order), UNKNOWN, np.uint8)
    marks[order != ABSENT] = rows["mark"][order[order != ABSENT]]
    return marks


def _stored(recipe: Recipe, stored: Mapping[str, Sequence[str]], left_out: Mapping[str, Mapping[str, str]]) -> Stored:
    """List the stored keys, then the skipped ones: a recipe's table covers all raw data."""
    skipped = {field: reasons.keys() for field, reasons in left_out.items()}
    main = recipe.main_field
    if main not in skipped:
        return Stored(stored, skipped)
    there = set(stored[main])
    return Stored({**stored, main: [*stored[main], *(key for key in skipped[main] if key not in there)]}, skipped)
