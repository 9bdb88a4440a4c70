"""A build directory: claimed, adopted, journalled, released. Its states and renames are in `docs/architecture.md`."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recordzoo import durable, settings
from recordzoo.errors import LostBuildError
from recordzoo.owner import Owner
from recordzoo.prepare.rows import ShardDone, UnitDone, has_sides
from recordzoo.records.manifest import shard_name
from recordzoo.steps import step

_FREE = "free-"
_HEARTBEAT_S = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """Somebody's build directory beside the place where the record set will be."""

    path: Path
    owner: Owner | None

    @property
    def age_s(self) -> float:
        """Seconds since its builder last said that it lives."""
        for name in ("heartbeat", ""):
            with contextlib.suppress(OSError):
                return max(0.0, time.time() - (self.path / name).stat().st_mtime)
        return float("inf")

    @property
    def is_dead(self) -> bool:
        """Whether it may be taken over: released, its process provably gone, or silent for too long."""
        return self.owner is None or self.owner.is_gone() or self.age_s > settings.stale_s()

    @property
    def description(self) -> str:
        """Who builds and when they last said so."""
        who = self.owner.description if self.owner else "nobody"
        return f"{who} (heard {self.age_s:.0f} s ago)"


def find_builds(target: Path) -> list[Found]:
    """List the build directories for a record set, whoever they belong to."""
    prefix = f"{target.name}.build."
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        for entry in entries:
            rest = entry.name.removeprefix(prefix)
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                owner = Owner.parse(rest)
                if owner is not None or rest.startswith(_FREE):
                    found.append(Found(Path(entry.path), owner))
    return sorted(found, key=lambda build: build.path.name)


class Build:
    """This process's build of one record set.

    Attributes:
        path: The build directory.
        shards: Finished shards of each unit, in order.
        units: Finished units.
    """

    def __init__(self, target: Path, path: Path, plan: Mapping[str, Any]) -> None:
        self.target, self.path, self.plan = target, path, plan
        self.shards: dict[int, list[ShardDone]] = {}
        self.units: dict[int, UnitDone] = {}
        self._final_names: dict[str, str] = {}
        self._lost = threading.Event()
        self._stop = threading.Event()
        (path / "heartbeat").touch()
        self._beat = threading.Thread(target=self._heartbeat, name="recordzoo-heartbeat", daemon=True)
        self._beat.start()

    @property
    def set_folder(self) -> Path:
        """Where the record set is put together."""
        return self.path / "set"

    @classmethod
    def claim(cls, target: Path, plan: Mapping[str, Any]) -> "tuple[Build, list[Path]]":
        """Take over a dead build with the same plan, or begin one.

        Returns:
            The build, and dead builds with another plan, which are left alone.
        """
        digest = plan_digest(plan)
        others = []
        for found in find_builds(target):
            if not found.is_dead:
                continue
            known = _read_plan(found.path)
            if known is not None and plan_digest(known) != digest:
                others.append(found.path)
                continue
            mine = _own_path(target)
            try:
                durable.rename(found.path, mine)
            except FileNotFoundError:
                continue  # another process was faster
            if known is None:  # killed before it had a plan: nothing of value in it
                shutil.rmtree(mine, ignore_errors=True)
                continue
            step("build.claimed")
            build = cls(target, mine, plan)
            build._resume()
            return build, others
        path = _own_path(target)
        path.mkdir(parents=True)
        step("build.claimed")
        build = cls(target, path, plan)
        build.set_folder.mkdir()
        durable.replace_file(path / "plan.json", _canonical(plan))
        durable.sync_directory(target.parent)
        step("build.planned")
        return build, others

    def _resume(self) -> None:
        """Read the journal of the build that was taken over, keep what proves true, and drop all else."""
        self.set_folder.mkdir(exist_ok=True)
        lines = list(_journal_lines(self.path / "journal.jsonl"))
        # Shards get their final names when all units are done, so the journal then has all of them to count.
        ordered = sorted((line["shard"]["unit"], line["shard"]["number"]) for line in lines if "shard" in line)
        self._final_names = {f"u{unit:05d}-s{n:04d}": shard_name(i) for i, (unit, n) in enumerate(ordered)}
        for line in lines:
            if "shard" in line:
                shard = ShardDone(**line["shard"])
                done = self.shards.setdefault(shard.unit, [])
                if shard.number == len(done) and self._holds(shard):
                    done.append(shard)
            elif "unit" in line:
                unit = UnitDone(**{**line["unit"], "shards": tuple(self.shards.get(line["unit"]["unit"], ()))})
                if len(unit.shards) == line["unit"]["shards"] and has_sides(self.path, unit):
                    self.units[unit.unit] = unit
        # A new journal: a process that only looked dead still has the old file open and may write a line to it.
        journal = b"".join(_line({"shard": asdict(s)}) for done in self.shards.values() for s in done)
        journal += b"".join(_line({"unit": unit.to_json()}) for unit in self.units.values())
        durable.replace_file(self.path / "journal.jsonl", journal)
        keep = {f"{s.name}{ending}" for done in self.shards.values() for s in done for ending in (".lmdb", ".rows.npz")}
        keep |= {f"u{unit:05d}.sides.npz" for unit in self.units} | {"plan.json", "journal.jsonl", "heartbeat", "set"}
        for entry in list(os.scandir(self.path)):
            if entry.name not in keep:
                durable.remove(Path(entry.path))

    def _holds(self, shard: ShardDone) -> bool:
        """Whether a journalled shard and its rows are there, byte for byte."""
        path = self.shard_path(shard)
        try:
            with open(path, "rb") as file:
                same = os.fstat(file.fileno()).st_size == shard.size_bytes and (
                    hashlib.file_digest(file, _blake2b).hexdigest() == shard.blake2b
                )
            rows = (self.path / f"{shard.name}.rows.npz").read_bytes()
        except OSError:
            return False
        return same and hashlib.blake2b(rows, digest_size=32).hexdigest() == shard.rows

    def shard_path(self, shard: ShardDone) -> Path:
        """Where a finished shard is: under its build name, or already under its final one."""
        path = self.path / f"{shard.name}.lmdb"
        final = self._final_names.get(shard.name)
        return self.set_folder / final if final and not path.exists() else path

    def move_shards(self) -> list[ShardDone]:
        """Give all shards their final names, in the order of units; return them in that order."""
        ordered = [shard for unit in sorted(self.shards) for shard in self.shards[unit]]
        for number, shard in enumerate(ordered):
            path, final = self.path / f"{shard.name}.lmdb", self.set_folder / shard_name(number)
            if path.exists():  # otherwise an interrupted run has moved it
                os.replace(path, final)
        durable.sync_directory(self.set_folder)
        step("set.shards_moved")
        return ordered

    def journal_shard(self, shard: ShardDone) -> None:
        """Note a finished shard, on disk."""
        self.shards.setdefault(shard.unit, []).append(shard)
        self._append({"shard": asdict(shard)})
        step("shard.journalled")

    def journal_unit(self, unit: UnitDone) -> None:
        """Note a finished unit, on disk."""
        self.units[unit.unit] = unit
        self._append({"unit": unit.to_json()})
        step("unit.journalled")

    # Any: JSON values.
    def _append(self, line: Mapping[str, Any]) -> None:
        self.check()
        with open(self.path / "journal.jsonl", "ab") as file:
            file.write(_line(line))
            file.flush()
            os.fsync(file.fileno())

    def check(self) -> None:
        """Stop if another process has taken this build over.

        Raises:
            LostBuildError: It has.
        """
        if self._lost.is_set() or not self.path.exists():
            raise LostBuildError(f"The preparation of {self.target} was taken over by another process.")

    def _heartbeat(self) -> None:
        while not self._stop.wait(_HEARTBEAT_S):
            try:
                os.utime(self.path / "heartbeat")
            except FileNotFoundError:
                self._lost.set()
                return
            except OSError:  # a full or failing disk is the builder's business
                continue

    def publish(self, *, replace: bool = False) -> bool:
        """Give the assembled set its final name.

        Args:
            replace: Exchange it with a set that is there.

        Returns:
            False if another process published first; this build's set is then dropped.
        """
        self.check()
        if replace and self.target.exists():
            _exchange(self.set_folder, self.target)
        else:
            try:
                durable.rename(self.set_folder, self.target)
            except OSError as err:
                if err.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not self.target.exists():
                    raise
                return False
        step("set.published")
        durable.sync_directory(self.target.parent)
        step("set.synced")
        return True

    def remove(self) -> None:
        """Remove the build directory; nothing in it is of value any more."""
        self._end()
        shutil.rmtree(self.path, ignore_errors=True)
        step("build.cleaned")

    def release(self) -> None:
        """Leave the build to whoever comes next."""
        self._end()
        with contextlib.suppress(OSError):
            os.rename(self.path, self.path.with_name(f"{self.target.name}.build.{_FREE}{secrets.token_hex(4)}"))

    def _end(self) -> None:
        self._stop.set()
        self._beat.join()


def plan_digest(plan: Mapping[str, Any]) -> str:
    """Return the identity of a plan."""
    return hashlib.blake2b(_canonical(plan), digest_size=32).hexdigest()


def remove_dead(target: Path) -> None:
    """Remove builds that nobody needs any more because the set is published."""
    for found in find_builds(target):
        if found.is_dead:
            shutil.rmtree(found.path, ignore_errors=True)


def _own_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.build.{Owner.current()}")


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _line(document: Mapping[str, Any]) -> bytes:
    return _canonical(document) + b"\n"


def _blake2b() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=32)


def _read_plan(path: Path) -> dict[str, Any] | None:
    try:
        plan: dict[str, Any] = json.loads((path / "plan.json").read_bytes())
    except (OSError, ValueError):
        return None
    return plan


def _journal_lines(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the journal's lines up to the first that is torn."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n")[:-1]:
        try:
            document = json.loads(line)
        except ValueError:
            return
        yield document


def _exchange(new: Path, old: Path) -> None:
    """Exchange two directories: with one system call where there is one, otherwise with two renames."""
    if not _renameat2_exchange(new, old):
        aside = old.with_name(f"{old.name}.old-{secrets.token_hex(4)}")
        os.rename(old, aside)
        os.rename(new, old)
        os.rename(aside, new)


def _renameat2_exchange(first: Path, second: Path) -> bool:
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    return bool(function(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0)
