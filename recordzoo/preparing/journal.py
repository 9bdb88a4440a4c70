"""The journal in the build directory: one line per finished shard or unit."""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from recordzoo.base import durable
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.base.progress import Progress
from recordzoo.base.types import JSON
from recordzoo.preparing.rows import ShardDone, UnitDone, has_sidecars, shard_stem, sidecars_name
from recordzoo.publish.build import PLAN_NAME, Build, canonical
from recordzoo.publish.exchange import REPLACING
from recordzoo.publish.output import SET
from recordzoo.records.manifest import shard_name

JOURNAL_NAME = "journal.jsonl"

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16
_AT_ONCE = 256


def encode_line(document: Mapping[str, Any]) -> bytes:
    """Write a journal line: a JSON list of the document's CRC-32 and the document."""
    data = canonical(document)
    return b"[%d,%b]\n" % (zlib.crc32(data), data)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the journal's documents up to the first line that is torn or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n")[:-1]:
        try:
            crc, document = json.loads(line)
        except (ValueError, TypeError):
            return
        if crc != zlib.crc32(canonical(document)):
            return
        yield document


class Journal:
    """The journal of a claimed build. After a takeover, verified lines are kept and all else is removed.

    Args:
        progress: Receives the progress of checking finished shards.

    Attributes:
        path: The build directory.
        shards: Finished shards of each unit, in order.
        units: Finished units.
    """

    def __init__(self, build: Build, progress: Progress) -> None:
        self._build = build
        self.path, self.set, self.check = build.path, build.set, build.check
        self.shards: dict[int, list[ShardDone]] = {}
        self.units: dict[int, UnitDone] = {}
        self._final_names: dict[str, str] = {}
        self._resume(list(read_lines(self.path / JOURNAL_NAME)), progress)
        build.before_release = self._sweep
        build.check_space()

    @property
    def written_bytes(self) -> int:
        """The size of the finished shards."""
        return sum(shard.size_bytes for done in self.shards.values() for shard in done)

    def _resume(self, lines: Sequence[Mapping[str, Any]], progress: Progress) -> None:
        # Shards get their final names after all units are done, when each shard has its line.
        ordered = sorted((line["shard"]["unit"], line["shard"]["number"]) for line in lines if "shard" in line)
        self._final_names = {shard_stem(unit, n): shard_name(i) for i, (unit, n) in enumerate(ordered)}
        if ordered:
            total_bytes = sum(line["shard"]["size_bytes"] for line in lines if "shard" in line)
            progress.begin(f"checking {len(ordered)} finished shards", total_bytes)
        for line in lines:
            if "shard" in line:
                shard = ShardDone(**line["shard"])
                done = self.shards.setdefault(shard.unit, [])
                if shard.number == len(done) and self._holds(shard):
                    done.append(shard)
                progress.advance(shard.size_bytes)
            elif "unit" in line:
                unit = UnitDone(**{**line["unit"], "shards": tuple(self.shards.get(line["unit"]["unit"], ()))})
                if len(unit.shards) == line["unit"]["shards"] and has_sidecars(self.path, unit):
                    self.units[unit.unit] = unit
        if ordered:
            progress.end()
        # A new file: a process that only looked dead may still append to the old one.
        self._write()
        self._sweep()
        # Such a process may still write an array: remove the file, so that ours is a new one.
        counted = {self.shard_path(shard).name for done in self.shards.values() for shard in done}
        _remove_all(entry for entry in os.scandir(self.set) if entry.name not in counted)

    def _write(self) -> None:
        journal = b"".join(encode_line({"shard": asdict(s)}) for done in self.shards.values() for s in done)
        journal += b"".join(encode_line({"unit": unit.to_json()}) for unit in self.units.values())
        durable.replace_file(self.path / JOURNAL_NAME, journal)

    def drop(self, units: Iterable[int]) -> None:
        """Forget finished units whose raw data has changed, so that they are converted again."""
        self.check()
        for done in self.shards.values():  # the final names depend on the shards before them
            for shard in done:
                durable.move(self.shard_path(shard), self.path / f"{shard.name}.lmdb")
        self._final_names = {}
        for number in units:
            self.units.pop(number, None)
            self.shards.pop(number, None)
        self._write()
        self._sweep()

    def _sweep(self) -> None:
        """Remove every file that no journal line names."""
        keep = {f"{s.name}{ending}" for done in self.shards.values() for s in done for ending in (".lmdb", ".rows.npz")}
        keep |= {sidecars_name(unit) for unit in self.units}
        keep |= {PLAN_NAME, JOURNAL_NAME, "heartbeat", SET, REPLACING}
        _remove_all(entry for entry in os.scandir(self.path) if entry.name not in keep)

    def _holds(self, shard: ShardDone) -> bool:
        """Whether a journalled shard and its rows exist unchanged."""
        path = self.shard_path(shard)
        try:
            same = path.stat().st_size == shard.size_bytes and hash_of(path) == shard.hash
            rows = (self.path / f"{shard.name}.rows.npz").read_bytes()
        except OSError:
            return False
        return same and hashlib.sha256(rows).hexdigest() == shard.rows

    def shard_path(self, shard: ShardDone) -> Path:
        """Return a finished shard's path: its build name, or already its final name."""
        path = self.path / f"{shard.name}.lmdb"
        final = self._final_names.get(shard.name)
        return self.set / final if final and not path.exists() else path

    def move_shards(self) -> list[ShardDone]:
        """Give all shards their final names, in the order of units; return them in that order."""
        ordered = [shard for unit in sorted(self.shards) for shard in self.shards[unit]]

        def move(number: int) -> None:
            path = self.path / f"{ordered[number].name}.lmdb"
            if path.exists():  # else an interrupted run already moved it
                durable.move(path, self.set / shard_name(number))

        for _ in in_threads(move, range(len(ordered))):
            pass
        durable.sync_directory(self.set)
        crash_point("set.shards_moved")
        return ordered

    def add_shard(self, shard: ShardDone) -> None:
        """Journal a finished shard and sync."""
        self.shards.setdefault(shard.unit, []).append(shard)
        self._append([{"shard": asdict(shard)}])
        crash_point("shard.journalled")

    def add_units(self, units: Sequence[UnitDone]) -> list[int]:
        """Journal finished units and their remaining shards, in one write and one sync.

        A torn write leaves only whole lines, and a unit's line follows those of its shards: every line is true.

        Returns:
            For each unit, the number of images in newly journalled shards.
        """
        new = {unit.unit: unit.shards[len(self.shards.get(unit.unit, ())) :] for unit in units}
        lines: list[dict[str, JSON]] = []
        for unit in units:
            lines += [{"shard": asdict(shard)} for shard in new[unit.unit]]
            lines.append({"unit": unit.to_json()})
        self._append(lines)
        for unit in units:
            self.shards.setdefault(unit.unit, []).extend(new[unit.unit])
            self.units[unit.unit] = unit
        for line in lines:
            crash_point("shard.journalled" if "shard" in line else "unit.journalled")
        return [sum(shard.num_images for shard in new[unit.unit]) for unit in units]

    def _append(self, lines: Iterable[Mapping[str, JSON]]) -> None:
        self.check()
        with open(self.path / JOURNAL_NAME, "ab") as file:
            file.write(b"".join(map(encode_line, lines)))
            file.flush()
            os.fsync(file.fileno())


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
        for start in range(0, len(items), _AT_ONCE):
            yield from pool.map(function, items[start : start + _AT_ONCE])


def _remove_all(entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in list(entries):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            durable.remove(Path(entry.path))
