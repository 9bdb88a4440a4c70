"""Finished shards → a record set in the build directory, ready for the rename that publishes it."""

import contextlib
import dataclasses
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import hash_of, move, remove, sync_directory
from recordzoo.base.process import crash_point
from recordzoo.base.progress import Progress, SilentProgress
from recordzoo.base.text import counted
from recordzoo.errors import PrepareError, SourceError
from recordzoo.preparing.convert import ROW_DTYPE, FinishedShard, ShardFacts, UnitEnd, UnitShards, load_shard
from recordzoo.preparing.publish import LOCK, PLAN_NAME, SET, Build
from recordzoo.recipes.recipe import ABSENT, INCOMPLETE, UNKNOWN, Blob, Recipe, Sidecar, Stored, Table, look
from recordzoo.records.arrays import INDEX_DTYPE
from recordzoo.records.manifest import NO_SHARD, Manifest, RawFile, ShardSpec, shard_name
from recordzoo.records.writer import write_set

MOST_NAMED = 1000
"""Broken images listed by name in the manifest; further ones are only counted."""

_THREADS = 16
_CALLS_AHEAD = 256
_KEYS_AT_ONCE = 1 << 16

T = TypeVar("T")
R = TypeVar("R")

logger = logging.getLogger("recordzoo")


class Finished:
    """The finished shards of a claimed build. Those of an interrupted run are checked, and all else is removed.

    Args:
        progress: Receives the progress of checking finished shards.

    Attributes:
        folder: The build directory.
        set: The directory of the record set in it.
        done: The finished shards of each unit, in order, also of a unit that was interrupted.
        check: Raises if the build directory was removed.
    """

    def __init__(self, build: Build, progress: Progress) -> None:
        self.folder, self.set, self.check = build.path, build.set, build.check
        self.done: dict[int, list[ShardFacts]] = {}
        found = []
        for path in self.folder.glob("u*-*.npz"):
            with contextlib.suppress(PrepareError):  # the shard is made again
                found.append(load_shard(path).facts)
        found.sort(key=lambda facts: (facts.unit, facts.number))
        self._undo_moves(found)
        if found:
            progress.begin(f"checking {len(found)} finished shards", sum(facts.spec.size_bytes for facts in found))
        for facts in found:
            done = self.done.setdefault(facts.unit, [])
            if facts.number == len(done) and self._holds(facts):
                done.append(facts)
            progress.advance(facts.spec.size_bytes)
        if found:
            progress.end()
        self._sweep()

    @property
    def shards(self) -> list[ShardFacts]:
        """All finished shards with values, in the order of units."""
        return [facts for unit in sorted(self.done) for facts in self.done[unit] if facts.spec.num_values]

    @property
    def units(self) -> Mapping[int, ShardFacts]:
        """The last shard of each finished unit."""
        return {unit: done[-1] for unit, done in self.done.items() if done and done[-1].is_last}

    @property
    def written_bytes(self) -> int:
        """The size of the finished shards."""
        return sum(facts.spec.size_bytes for facts in self.shards)

    def add(self, shards: list[ShardFacts]) -> None:
        """Add a finished unit."""
        self.done[shards[0].unit] = shards
        crash_point("unit.done")

    def drop(self, units: Iterable[int]) -> None:
        """Remove finished units whose raw data has changed, so that they are converted again."""
        self.check()
        for number in units:
            self.done.pop(number, None)
        self._sweep()

    def loaded(self) -> Iterator[FinishedShard]:
        """Read the files of all shards, in the order of units, also of those without values.

        Raises:
            PrepareError: A file is damaged, or of another shard than was finished.
        """

        def load(facts: ShardFacts) -> FinishedShard:
            path = self.folder / f"{facts.stem}.npz"
            if (found := load_shard(path)).facts != facts:
                raise PrepareError(f"{path} was written by another preparation. Run the same command again.")
            return found

        return in_threads(load, [facts for unit in sorted(self.done) for facts in self.done[unit]])

    def move_shards(self) -> None:
        """Give all shards their final names, in the order of units."""
        shards = self.shards

        def place(number: int) -> None:
            move(self.folder / f"{shards[number].stem}.lmdb", self.set / shard_name(number))

        for _ in in_threads(place, range(len(shards))):
            pass
        sync_directory(self.set)
        crash_point("set.shards_moved")

    def _undo_moves(self, found: Sequence[ShardFacts]) -> None:
        """Give shards their names of the build again: other units may come between them now."""
        for number, facts in enumerate(facts for facts in found if facts.spec.num_values):
            moved = self.set / shard_name(number)
            if moved.exists():
                move(moved, self.folder / f"{facts.stem}.lmdb")
        shutil.rmtree(self.set)
        self.set.mkdir()

    def _holds(self, facts: ShardFacts) -> bool:
        """Whether a finished shard is there and unchanged."""
        path, spec = self.folder / f"{facts.stem}.lmdb", facts.spec
        try:
            return not spec.num_values or (path.stat().st_size == spec.size_bytes and hash_of(path) == spec.hash)
        except OSError:
            return False

    def _sweep(self) -> None:
        """Remove every file that does not belong to a finished shard, first those that make a shard finished."""
        every = itertools.chain(*self.done.values())
        keep = {f"{facts.stem}{ending}" for facts in every for ending in (".lmdb", ".npz")} | {PLAN_NAME, LOCK, SET}
        others = [entry for entry in os.scandir(self.folder) if entry.name not in keep]
        for entry in sorted(others, key=lambda entry: not entry.name.endswith(".npz")):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                remove(Path(entry.path))


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Call a function for each item in threads; yield the results in order, at most 256 calls ahead of the caller.

    For small file operations, which wait for the server on a network drive.

    Raises:
        Exception: The function's error, at its place. Calls already started are finished.
    """
    if len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(_THREADS, len(items)), "recordzoo-files") as pool:
        for start in range(0, len(items), _CALLS_AHEAD):
            yield from pool.map(function, items[start : start + _CALLS_AHEAD])


class Stream(UnitShards):
    """The shards of a build, filled by a program: one unit, which cannot be resumed.

    Args:
        build: The claimed build.
        shard_bytes: Target shard size in bytes.
    """

    def __init__(self, build: Build, shard_bytes: int) -> None:
        self._finished = Finished(build, SilentProgress())  # there is nothing to resume
        super().__init__(build.path, 0, shard_bytes, build.check)

    def add(self, name: str, blobs: Iterable[Blob], sidecars: Iterable[Sidecar]) -> None:
        """Store the values of a record, and side files."""
        for blob in blobs:
            problem, mark = look(blob.data) if blob.checked else (None, None)
            self.put(blob, mark)
            if problem is not None:
                self.end.bad[name] = problem
        self.end.sidecars |= {side.name: side.data for side in sidecars}

    def assemble(self, recipe: Recipe) -> None:
        """Assemble the set after all shards are finished."""
        self._finished.add(self.done)
        assemble(self._finished, recipe, "records", [])


def _without_repeats(
    field: str, keys: list[str], parts: Sequence[NDArray[np.void]]
) -> tuple[list[str], NDArray[np.void]]:
    """Return the keys and rows of a blob field; the last row of a key wins, as when an archive is unpacked."""
    rows = np.concatenate(parts) if parts else np.zeros(0, ROW_DTYPE)
    if not are_repeated(keys):
        return keys, rows
    last = {key: number for number, key in enumerate(keys)}
    logger.warning("%d %s names stand twice in the raw data; the later counts.", len(rows) - len(last), field)
    kept = sorted(last.values())
    return [keys[number] for number in kept], rows[kept]


def assemble(
    finished: Finished,
    recipe: Recipe,
    source: str,
    raw_files: Sequence[RawFile],
    extras: Mapping[str, bytes] | None = None,
) -> str:
    """Write the record set into the build directory: table, indices, arrays and manifest. Warn of broken images.

    Args:
        finished: All shards.
        recipe: Arranges the records.
        source: The manifest's value for the raw data.
        raw_files: The archives that were converted.
        extras: Further files beside the manifest, in addition to those of the recipe.

    Returns:
        The set's digest.
    """
    stored, parts, shards, end = _load(finished, recipe)
    bad, left_out, sidecars = end.bad, end.skipped, end.sidecars
    rows = {}
    for name in recipe.fields:
        stored[name], rows[name] = _without_repeats(name, stored[name], parts.pop(name))
    table = recipe.build_table(_stored(recipe, stored, left_out), sidecars)
    main = left_out.get(recipe.main_field, {}).keys() | table.skipped.keys()
    table, slots = resolve(recipe, table, stored, main)
    skipped = {**table.skipped, **{key: why for reasons in left_out.values() for key, why in reasons.items()}}
    hashed = {file.name for file in raw_files if file.hash}
    is_theirs = len(hashed) == len(raw_files) and hashed.issuperset(file.name for file in recipe.raw_files)
    metadata = dict(table.metadata)
    if not skipped and "incomplete" not in metadata and (wrong := wrong_counts(recipe, table)):
        if is_theirs and raw_files:
            raise _mistaken(recipe, wrong)
        metadata["incomplete"] = f"has not the samples of the authors' raw files: {wrong}."
        logger.warning("%s %s", recipe.set_name, metadata["incomplete"])
    shaped = {name: dataclasses.replace(recipe.fields[name], shape=_one(each)) for name, each in table.shapes.items()}
    uneven = {f"{name}.shape": each.astype(np.uint32) for name, each in table.shapes.items() if _one(each) is None}
    finished.move_shards()
    manifest = Manifest(
        kind=recipe.kind,
        dataset=recipe.dataset,
        part=recipe.part,
        variant=recipe.variant,
        blobs={**recipe.fields, **shaped},
        shards=tuple(shards),
        fields=table.fields,
        default_target=table.default_target,
        source=source,
        raw_files=tuple(raw_files),
        bad=dict(itertools.islice(bad.items(), MOST_NAMED)),
        skipped=dict(itertools.islice(skipped.items(), MOST_NAMED)),
        metadata={
            **metadata,
            **({"num_bad": len(bad)} if len(bad) > MOST_NAMED else {}),
            **({"num_skipped": len(skipped)} if len(skipped) > MOST_NAMED else {}),
        },
    )
    images = [name for name, spec in recipe.fields.items() if spec.encoding == "image"]
    digest = write_set(
        finished.set,
        manifest,
        table.names,
        {name: _index(rows[name], order) for name, order in slots.items()},
        arrays={**table.arrays, **uneven},
        splits={name: np.asarray(positions, np.int64) for name, positions in table.splits.items()},
        classes=table.classes,
        marks={name: _marks(rows[name], slots[name]) for name in images},
        extras={**recipe.extras(), **(extras or {})},
    )
    _warn_of_broken(end)
    return digest


def _warn_of_broken(end: UnitEnd) -> None:
    """Warn of unreadable images: once for the kept ones, once for the skipped ones."""
    skipped = {name: why for reasons in end.skipped.values() for name, why in reasons.items()}
    for one, many, found in (("kept as it is", "kept as they are", end.bad), ("left out", "left out", skipped)):
        if found:
            shown = "; ".join(f"{name}: {why}" for name, why in itertools.islice(found.items(), 20))
            more = f"; and {len(found) - 20} more" if len(found) > 20 else ""
            what = f"1 broken image was {one}" if len(found) == 1 else f"{len(found)} broken images were {many}"
            logger.warning("%s: %s%s", what, shown, more)


def _load(
    finished: Finished, recipe: Recipe
) -> tuple[dict[str, list[str]], dict[str, list[NDArray[np.void]]], list[ShardSpec], UnitEnd]:
    """Read all finished shards: keys and rows of each field, entries for the manifest, and all units' ends as one."""
    keys_of: dict[str, list[str]] = {name: [] for name in recipe.fields}
    rows_of: dict[str, list[NDArray[np.void]]] = {name: [] for name in recipe.fields}
    shards: list[ShardSpec] = []
    every = UnitEnd()
    for loaded in finished.loaded():
        facts, end = loaded.facts, loaded.end
        if end is not None:
            every.sidecars |= end.sidecars
            every.bad |= end.bad
            for name, reasons in end.skipped.items():
                every.skipped.setdefault(name, {}).update(reasons)
        if not facts.spec.num_values:
            continue
        rows, keys = loaded.rows.copy(), list(loaded.keys)
        rows["shard"] = len(shards)
        shards.append(dataclasses.replace(facts.spec, name=shard_name(len(shards))))
        for number, field in enumerate(loaded.field_names):
            mine = np.flatnonzero(rows["field"] == number)
            keys_of[field] += keys if len(mine) == len(keys) else [keys[i] for i in mine.tolist()]
            rows_of[field].append(rows[mine])
    return keys_of, rows_of, shards, every


def _one(shapes: NDArray[np.uint32]) -> tuple[int, ...] | None:
    """Return the shape shared by all values, or None."""
    same = len(shapes) > 0 and bool((shapes == shapes[0]).all())
    return tuple(shapes[0].tolist()) if same else None


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


def resolve(
    recipe: Recipe, table: Table, stored: Mapping[str, Sequence[str]], skipped: Set[str]
) -> tuple[Table, Mapping[str, NDArray[np.int64]]]:
    """Turn keys into slots and names in splits into positions; leave out skipped images.

    Args:
        table: The recipe's table.
        stored: For each blob field the keys of the stored values, in order.
        skipped: Keys of images that were skipped on request. Their positions are skipped, too.

    Returns:
        The table of the kept positions, whose splits are arrays, and for each blob field, int64 [N], the slot of each
        position's value, or `ABSENT`.
    """
    _check(recipe, table)
    image = recipe.main_field
    slots = {}
    for field in recipe.fields:
        slots[field] = Places(stored[field]).find(_keys(table, field, image), len(table.names))
    kept = np.ones(len(table.names), bool)
    missing = []
    for position in np.flatnonzero(slots[image] == ABSENT).tolist() if image else ():
        key = _keys(table, image, image)[position]
        if key is not None and key in skipped:
            kept[position] = False
        elif key is not None:
            missing.append(key)
    if missing:
        raise SourceError(
            f"{recipe.set_name}: the raw data lacks {counted(len(missing), 'image')} that the lists name, the first is "
            f"{missing[0]}. {INCOMPLETE}"
        )
    splits = _positions(recipe, table)
    if kept.all():
        return dataclasses.replace(table, splits=splits), slots
    new_position = np.cumsum(kept) - 1
    left = dataclasses.replace(
        table,
        names=[name for name, is_kept in zip(table.names, kept.tolist(), strict=True) if is_kept],
        arrays={name: array[kept] for name, array in table.arrays.items()},
        splits={name: new_position[split[kept[split]]] for name, split in splits.items()},
        shapes={field: each[kept] for field, each in table.shapes.items()},
    )
    return left, {field: each[kept] for field, each in slots.items()}


def wrong_counts(recipe: Recipe, table: Table) -> str:
    """Name the splits with other numbers of samples than those published by the authors of the raw files.

    A record set without splits counts as one split, if its part has only one.
    """
    found = {name: len(positions) for name, positions in table.splits.items()}
    if not found and len(recipe.counts) == 1:
        found = {name: len(table.names) for name in recipe.counts}
    return "; ".join(
        f"the split {split} has {found[split]:,} and should have {count:,}"
        for split, count in recipe.counts.items()
        if found.get(split, count) != count
    )


def _mistaken(recipe: Recipe, wrong: str) -> PrepareError:
    return PrepareError(
        f"{recipe.set_name}: the raw files are the authors' own, but {wrong}. This is a mistake in recordzoo; please "
        "report it. Until it is mended, pass check_hash=False (--no-check-hash): then nothing is compared."
    )


def _keys(table: Table, field: str, image: str) -> Sequence[str | None]:
    return table.names if field == image and field not in table.keys else table.keys[field]


def _positions(recipe: Recipe, table: Table) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split; the recipe gives positions or names."""
    found: dict[str, NDArray[np.int64]] = {}
    position_of: dict[str, int] = {}
    for name, split in table.splits.items():
        if isinstance(split, np.ndarray):
            found[name] = split
            continue
        position_of = position_of or {each: position for position, each in enumerate(table.names)}
        try:
            found[name] = np.fromiter((position_of[each] for each in split), np.int64, len(split))
        except KeyError as err:
            text = f"{recipe.set_name}: the split {name} names {err.args[0]}, which is not in the raw data."
            raise SourceError(text) from err
    for name, positions in found.items():
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(table.names):
            raise PrepareError(
                f"{recipe.set_name}: the split {name} points outside of its {len(table.names):,} records."
            )
    return found


def _check(recipe: Recipe, table: Table) -> None:
    count = len(table.names)
    columns: dict[str, Sized] = {**table.keys, **table.arrays, **table.shapes}
    wrong = [f"{name} has {len(column):,}" for name, column in columns.items() if len(column) != count]
    wrong += [f"{field} has none" for field in recipe.fields if field not in (recipe.main_field, *table.keys)]
    if wrong:
        raise PrepareError(f"{recipe.set_name}: the recipe's table has {count:,} records, but {'; '.join(wrong)}.")


class Places:
    """Finds the place of a key in a list by sorted hashes: 16 bytes per key; a dict takes over 100.

    Args:
        keys: The keys, each once.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        hashes = _hashes(keys, len(keys))
        self._order = np.argsort(hashes).astype(np.int32 if len(keys) < 1 << 31 else np.int64)
        self._hashes = hashes[self._order]
        # Among 100 million keys, two have the same hash with a probability of 1 in 3,700.
        self._table = None if _are_different(self._hashes) else {key: place for place, key in enumerate(keys)}

    def find(self, keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
        """Return the places of `count` keys, int64; `ABSENT` for None and for keys not in the list."""
        places = np.full(count, ABSENT, np.int64)
        wanted = iter(keys)
        for start in range(0, count, _KEYS_AT_ONCE):
            part = [next(wanted) for _ in range(min(_KEYS_AT_ONCE, count - start))]
            places[start : start + len(part)] = self._find(part)
        return places

    def _find(self, keys: list[str | None]) -> NDArray[np.int64]:
        if self._table is not None:
            found = (ABSENT if key is None else self._table.get(key, ABSENT) for key in keys)
            return np.fromiter(found, np.int64, len(keys))
        if not len(self._order):
            return np.full(len(keys), ABSENT, np.int64)
        at = np.minimum(np.searchsorted(self._hashes, _hashes(keys, len(keys))), len(self._order) - 1)
        places = self._order[at].astype(np.int64)
        stored = self._keys
        is_there = [key == stored[place] for key, place in zip(keys, places.tolist(), strict=True)]
        return np.where(is_there, places, ABSENT)


def are_repeated(keys: Sequence[str]) -> bool:
    """Whether a list contains a key twice."""
    hashes = _hashes(keys, len(keys))
    hashes.sort()
    return not _are_different(hashes) and len(set(keys)) < len(keys)


def _hashes(keys: Iterable[str | None], count: int) -> NDArray[np.int64]:
    return np.fromiter(map(hash, keys), np.int64, count)


def _are_different(hashes: NDArray[np.int64]) -> bool:
    """Whether sorted hashes are all different."""
    return not bool((hashes[1:] == hashes[:-1]).any())
