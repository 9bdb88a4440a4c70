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
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recordzoo import durable, settings
from recordzoo.errors import LostBuildError
from recordzoo.owner import Owner
from recordzoo.prepare.rows import ShardDone, UnitDone, has_sides
from recordzoo.records.manifest import shard_name
from recordzoo.records.reader import is_record_set
from recordzoo.steps import step

_FREE = "free-"
_OLD = "old"
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

    def __init__(self, target: Path, plan: Mapping[str, Any]) -> None:
        self.target, self.plan = target, plan
        self.path = target.with_name(f"{target.name}.build.{Owner.current()}")
        self.shards: dict[int, list[ShardDone]] = {}
        self.units: dict[int, UnitDone] = {}
        self._final_names: dict[str, str] = {}
        self._is_there = False  # the directory, under our name
        self._is_known = False  # what of it is of value
        self._heartbeat = Heartbeat(self.path / "heartbeat")

    @property
    def set_folder(self) -> Path:
        """Where the record set is put together."""
        return self.path / "set"

    @classmethod
    def claim(cls, target: Path, plan: Mapping[str, Any]) -> "tuple[Build, list[Path]]":
        """Take over a dead build with the same plan, the one that came furthest, or begin one.

        Returns:
            The build, and dead builds with another plan, which are left alone.

        Raises:
            LostBuildError: Another process took it over at once.
            OSError: The disk is full, failed, or may not be written to.
        """
        digest = plan_digest(plan)
        others = []
        for found in sorted(find_builds(target), key=_journal_bytes, reverse=True):
            if not found.is_dead:
                continue
            known = _read_plan(found.path)
            # What another user left cannot be written to.
            if (known is not None and plan_digest(known) != digest) or not os.access(found.path, os.W_OK):
                others.append(found.path)
                continue
            build = cls(target, plan)
            with build.kept():
                if not build._adopt(found):
                    continue  # another process was faster
                if known is not None:
                    build._resume()
                    return build, others
            build.remove()  # killed before it had a plan: nothing of value in it
        build = cls(target, plan)
        with build.kept():
            build._begin()
        return build, others

    def _adopt(self, found: Found) -> bool:
        try:
            (found.path / "heartbeat").touch()  # first: under our name it must not look silent for a moment
            durable.rename(found.path, self.path)
        except FileNotFoundError:
            return False
        self._is_there = True
        self._heartbeat.start()
        step("build.claimed")
        return True

    def _begin(self) -> None:
        self.path.mkdir(parents=True)
        self._is_there = True
        (self.path / "heartbeat").touch()
        self._heartbeat.start()
        step("build.claimed")
        self.set_folder.mkdir()
        durable.replace_file(self.path / "plan.json", _canonical(self.plan))
        durable.sync_directory(self.target.parent)
        self._is_known = True
        step("build.planned")

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Release the build if the block fails.

        Raises:
            LostBuildError: It failed because another process has taken the build over.
        """
        try:
            yield
        except BaseException as err:
            lost = self._is_lost
            self.release()
            if lost and isinstance(err, Exception) and not isinstance(err, LostBuildError):
                raise self._lost() from err
            raise

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
        self._is_known = True
        self._sweep()
        # An array that such a process is still writing must not be the file that we write.
        counted = {self.shard_path(shard).name for done in self.shards.values() for shard in done}
        _remove_all(entry for entry in os.scandir(self.set_folder) if entry.name not in counted)

    def _sweep(self) -> None:
        """Remove all that no journal line counts."""
        keep = {f"{s.name}{ending}" for done in self.shards.values() for s in done for ending in (".lmdb", ".rows.npz")}
        keep |= {f"u{unit:05d}.sides.npz" for unit in self.units} | {"plan.json", "journal.jsonl", "heartbeat", "set"}
        _remove_all(entry for entry in os.scandir(self.path) if entry.name not in keep)

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
        if self._is_lost:
            raise self._lost()

    @property
    def _is_lost(self) -> bool:
        return self._is_there and not self.path.exists()

    def _lost(self) -> LostBuildError:
        return LostBuildError(f"The preparation of {self.target} was taken over by another process.")

    def publish(self, *, replace: bool = False) -> bool:
        """Give the assembled set its final name.

        Args:
            replace: Exchange it with a set that is there.

        Returns:
            False if another process published first; this build's set is then dropped.
        """
        self.check()
        if replace and is_record_set(self.target):
            self._exchange()
        else:
            try:
                durable.rename(self.set_folder, self.target)
            except OSError as err:
                if err.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not is_record_set(self.target):
                    raise
                return False
        step("set.published")
        durable.sync_directory(self.target.parent)
        step("set.synced")
        return True

    def _exchange(self) -> None:
        """Exchange the assembled set with the published one: with one system call, or else with two renames.

        Between the two renames there is no set; `put_back` undoes the first if the second never comes.
        """
        if not _renameat2_exchange(self.set_folder, self.target):
            os.rename(self.target, self.path / _OLD)
            try:
                os.rename(self.set_folder, self.target)
            except BaseException:
                os.rename(self.path / _OLD, self.target)
                raise

    def remove(self) -> None:
        """Remove the build directory; nothing in it is of value any more."""
        self._heartbeat.stop()
        self._is_there = False
        shutil.rmtree(self.path, ignore_errors=True)
        step("build.cleaned")

    def release(self) -> None:
        """Leave the build to whoever comes next, without what that one would throw away."""
        self._heartbeat.stop()
        with contextlib.suppress(OSError):
            if self._is_known:
                self._sweep()
        with contextlib.suppress(OSError):
            os.rename(self.path, self.path.with_name(f"{self.target.name}.build.{_FREE}{secrets.token_hex(4)}"))
        self._is_there = False


class Heartbeat:
    """A thread that touches a file every few seconds: "the process that works here lives"."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="recordzoo-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, whether it began or not."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_HEARTBEAT_S):
            with contextlib.suppress(OSError):  # gone, or a full or failing disk: the worker's business
                os.utime(self._path)


def plan_digest(plan: Mapping[str, Any]) -> str:
    """Return the identity of a plan."""
    return hashlib.blake2b(_canonical(plan), digest_size=32).hexdigest()


def remove_dead(target: Path) -> None:
    """Remove builds that nobody needs any more because the set is published."""
    for found in find_builds(target):
        if found.is_dead:
            shutil.rmtree(found.path, ignore_errors=True)


def put_back(target: Path) -> None:
    """Give a set its name back whose exchange was interrupted between two renames."""
    for found in find_builds(target):
        if found.is_dead and not target.exists():
            with contextlib.suppress(OSError):
                os.rename(found.path / _OLD, target)


def resumable_bytes(target: Path, plan: Mapping[str, Any]) -> int:
    """Return the size of the shards that a dead build with this plan has already."""
    for found in sorted(find_builds(target), key=_journal_bytes, reverse=True):
        known = _read_plan(found.path) if found.is_dead else None
        if known is not None and plan_digest(known) == plan_digest(plan):
            return sum(_size(path) for path in found.path.rglob("*.lmdb"))
    return 0


def _remove_all(entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in list(entries):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            durable.remove(Path(entry.path))


def _journal_bytes(found: Found) -> int:
    return _size(found.path / "journal.jsonl")


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _line(document: Mapping[str, Any]) -> bytes:
    """Write a journal line: a JSON list of the document's CRC-32 and the document."""
    data = _canonical(document)
    return b"[%d,%b]\n" % (zlib.crc32(data), data)


def _blake2b() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=32)


def _read_plan(path: Path) -> dict[str, Any] | None:
    try:
        plan: dict[str, Any] = json.loads((path / "plan.json").read_bytes())
    except (OSError, ValueError):
        return None
    return plan


def _journal_lines(path: Path) -> Iterable[dict[str, Any]]:
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
        if crc != zlib.crc32(_canonical(document)):
            return
        yield document


def _renameat2_exchange(first: Path, second: Path) -> bool:
    """Exchange two directories in one step; False where the system or the file system cannot."""
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    at_cwd, exchange = -100, 2
    if function(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):
        raise OSError(number, os.strerror(number), os.fspath(first), None, os.fspath(second))
    return False
