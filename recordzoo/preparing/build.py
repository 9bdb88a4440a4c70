"""A build directory: claimed, adopted, journalled, released. Its states and renames are in `docs/architecture.md`."""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recordzoo import durable, roots
from recordzoo.aliases import JSON
from recordzoo.errors import LostBuildError
from recordzoo.owner import Owner
from recordzoo.preparing.heartbeat import Heartbeat
from recordzoo.preparing.journal import (
    JOURNAL_NAME,
    PLAN_NAME,
    canonical,
    encode_line,
    plan_digest,
    read_lines,
    read_plan,
)
from recordzoo.preparing.rows import ShardDone, UnitDone, has_sidecars
from recordzoo.preparing.stale_builds import FREE, OLD, REPLACING, SET, Found, find_builds, journal_bytes, remove_set
from recordzoo.preparing.threads import in_threads
from recordzoo.progress import Progress
from recordzoo.records.manifest import shard_name
from recordzoo.records.reader import is_record_set
from recordzoo.sources.hashing import hash_of
from recordzoo.steps import step
from recordzoo.system.files import is_in_use, rename


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
        return self.path / SET

    @classmethod
    def claim(
        cls, target: Path, plan: Mapping[str, Any], progress: Progress, *, keep_set: bool = False
    ) -> "tuple[Build, list[Path]]":
        """Take over a dead build with the same plan, the one that came furthest, or begin one.

        Args:
            target: Where the record set will be.
            plan: What is made, and how.
            progress: Told of the reading of all that a build that is taken over has.
            keep_set: Keep what `set_folder` holds, though no journal counts it: the caller checks it.

        Returns:
            The build, and dead builds that are left alone: with another plan, or that cannot be taken over.

        Raises:
            LostBuildError: Another process took it over at once.
            OSError: The disk is full, failed, or may not be written to.
        """
        digest = plan_digest(plan)
        others = []
        for found in sorted(find_builds(target), key=journal_bytes, reverse=True):
            if not found.is_dead:
                continue
            known = read_plan(found.path)
            # What another user left cannot be written to.
            if (known is not None and plan_digest(known) != digest) or not os.access(found.path, os.W_OK):
                others.append(found.path)
                continue
            build = cls(target, plan)
            with build.kept():
                try:
                    if not build._adopt(found):
                        continue  # another process was faster
                except OSError as err:
                    if err.errno != errno.EXDEV and not is_in_use(err):
                        raise
                    others.append(found.path)
                    continue
                if known is not None:
                    build._resume(progress, keep_set)
                    return build, others
            build.remove()  # killed before it had a plan: nothing of value in it
        build = cls(target, plan)
        with build.kept():
            build._begin()
        return build, others

    def _adopt(self, found: Found) -> bool:
        """Take a dead build over by renaming it; False if another process was faster."""
        heartbeat = found.path / "heartbeat"
        try:
            silent_since = heartbeat.stat() if heartbeat.exists() else None
            heartbeat.touch()  # first: under our name it must not look silent for a moment
            try:
                durable.rename(found.path, self.path)
            except OSError as err:
                if (err.errno == errno.EXDEV or is_in_use(err)) and silent_since is not None:  # it stays dead
                    os.utime(heartbeat, ns=(silent_since.st_atime_ns, silent_since.st_mtime_ns))
                raise
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
        durable.replace_file(self.path / PLAN_NAME, canonical(self.plan))
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

    def _resume(self, progress: Progress, keep_set: bool) -> None:
        """Read the journal of the build that was taken over, keep what proves true, and drop all else."""
        self.set_folder.mkdir(exist_ok=True)
        lines = list(read_lines(self.path / JOURNAL_NAME))
        # Shards get their final names when all units are done, so the journal then has all of them to count.
        ordered = sorted((line["shard"]["unit"], line["shard"]["number"]) for line in lines if "shard" in line)
        self._final_names = {f"u{unit:05d}-s{n:04d}": shard_name(i) for i, (unit, n) in enumerate(ordered)}
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
        # A new journal: a process that only looked dead still has the old file open and may write a line to it.
        self._write_journal()
        self._is_known = True
        self._sweep()
        if keep_set:
            return
        # An array that such a process is still writing must not be the file that we write.
        counted = {self.shard_path(shard).name for done in self.shards.values() for shard in done}
        _remove_all(entry for entry in os.scandir(self.set_folder) if entry.name not in counted)

    def _write_journal(self) -> None:
        journal = b"".join(encode_line({"shard": asdict(s)}) for done in self.shards.values() for s in done)
        journal += b"".join(encode_line({"unit": unit.to_json()}) for unit in self.units.values())
        durable.replace_file(self.path / JOURNAL_NAME, journal)

    def drop(self, units: Iterable[int]) -> None:
        """Forget finished units, whose raw data was written to since: they are converted again."""
        self.check()
        for done in self.shards.values():  # with other shards before them they get other final names
            for shard in done:
                durable.move(self.shard_path(shard), self.path / f"{shard.name}.lmdb")
        self._final_names = {}
        for number in units:
            self.units.pop(number, None)
            self.shards.pop(number, None)
        self._write_journal()
        self._sweep()

    def _sweep(self) -> None:
        """Remove all that no journal line counts."""
        keep = {f"{s.name}{ending}" for done in self.shards.values() for s in done for ending in (".lmdb", ".rows.npz")}
        keep |= {f"u{unit:05d}.sidecars.npz" for unit in self.units}
        keep |= {PLAN_NAME, JOURNAL_NAME, "heartbeat", SET, REPLACING}
        _remove_all(entry for entry in os.scandir(self.path) if entry.name not in keep)

    def _holds(self, shard: ShardDone) -> bool:
        """Whether a journalled shard and its rows are there, byte for byte."""
        path = self.shard_path(shard)
        try:
            same = path.stat().st_size == shard.size_bytes and hash_of(path) == shard.hash
            rows = (self.path / f"{shard.name}.rows.npz").read_bytes()
        except OSError:
            return False
        return same and hashlib.sha256(rows).hexdigest() == shard.rows

    def shard_path(self, shard: ShardDone) -> Path:
        """Where a finished shard is: under its build name, or already under its final one."""
        path = self.path / f"{shard.name}.lmdb"
        final = self._final_names.get(shard.name)
        return self.set_folder / final if final and not path.exists() else path

    def move_shards(self) -> list[ShardDone]:
        """Give all shards their final names, in the order of units; return them in that order."""
        ordered = [shard for unit in sorted(self.shards) for shard in self.shards[unit]]

        def move(number: int) -> None:
            path = self.path / f"{ordered[number].name}.lmdb"
            if path.exists():  # otherwise an interrupted run has moved it
                durable.move(path, self.set_folder / shard_name(number))

        for _ in in_threads(move, range(len(ordered))):
            pass
        durable.sync_directory(self.set_folder)
        step("set.shards_moved")
        return ordered

    def journal_shard(self, shard: ShardDone) -> None:
        """Note a finished shard, on disk."""
        self.shards.setdefault(shard.unit, []).append(shard)
        self._append([{"shard": asdict(shard)}])
        step("shard.journalled")

    def journal_unit(self, unit: UnitDone) -> None:
        """Note a finished unit, on disk."""
        self.units[unit.unit] = unit
        self._append([{"unit": unit.to_json()}])
        step("unit.journalled")

    def journal_units(self, units: Sequence[UnitDone]) -> list[int]:
        """Note finished units with those of their shards that are not noted yet, all in one write and one sync.

        A torn write leaves whole lines, a unit's behind those of its shards: what they say is true.

        Returns:
            How many images each unit has in shards that were not noted before.
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
            step("shard.journalled" if "shard" in line else "unit.journalled")
        return [sum(shard.num_images for shard in new[unit.unit]) for unit in units]

    def _append(self, lines: Iterable[Mapping[str, JSON]]) -> None:
        self.check()
        with open(self.path / JOURNAL_NAME, "ab") as file:
            file.write(b"".join(map(encode_line, lines)))
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

    def publish(self, *, replace: bool = False, damaged: bool = False, remember: bool = True) -> bool:
        """Give the assembled set its final name.

        Args:
            replace: Exchange it with a set that is there.
            damaged: What is there is a set, though it lacks files that every set has.
            remember: Note the directory as one in which record sets are.

        Returns:
            False if another process published first; this build's set is then dropped.
        """
        self.check()
        if replace and (damaged or is_record_set(self.target)):
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
        if remember:
            roots.remember(self.target.parent)
        return True

    def _exchange(self) -> None:
        """Exchange the assembled set with the published one: with one system call, or else with two renames.

        Between the two renames there is no set; `put_back` undoes the first if the second never comes.
        """
        if durable.exchange(self.set_folder, self.target):
            return
        try:
            rename(self.target, self.path / OLD)
        except OSError as err:
            if err.errno != errno.EXDEV:
                raise
            self._replace()
            return
        try:
            rename(self.set_folder, self.target)
        except BaseException:
            rename(self.path / OLD, self.target)
            raise

    def _replace(self) -> None:
        """Remove the published set, which lies in a lower layer of an overlay and cannot be renamed; take its name.

        In between there is no set; if the end never comes, `put_back` brings it about.
        """
        self._try_a_rename()
        durable.write_file(self.path / REPLACING, b"")
        durable.sync_directory(self.path)
        remove_set(self.target)
        rename(self.set_folder, self.target)

    def _try_a_rename(self) -> None:
        """Rename an empty directory to the set's parent and remove it; an overlay without xattrs refuses that too."""
        probe = self.path / "probe"
        probe.mkdir()
        try:
            moved = probe.rename(self.target.with_name(f".{self.target.name}.probe-{secrets.token_hex(4)}"))
        except OSError as err:
            probe.rmdir()
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fspath(self.target)) from err
        moved.rmdir()

    def remove(self) -> None:
        """Remove the build directory; nothing in it is of value any more."""
        self._heartbeat.stop()
        self._is_there = False
        gone = self._free_path()
        with contextlib.suppress(OSError):  # a worker that still has a unit of it adds no file under the old name
            rename(self.path, gone)
        for path in (gone, self.path):
            shutil.rmtree(path, ignore_errors=True)
        step("build.cleaned")

    def release(self) -> None:
        """Leave the build to whoever comes next, without what that one would throw away."""
        self._heartbeat.stop()
        with contextlib.suppress(OSError):
            if self._is_known:
                self._sweep()
        with contextlib.suppress(OSError):
            rename(self.path, self._free_path())
        self._is_there = False

    def _free_path(self) -> Path:
        return self.path.with_name(f"{self.target.name}.build.{FREE}{secrets.token_hex(4)}")


def _remove_all(entries: Iterable[os.DirEntry[str]]) -> None:
    for entry in list(entries):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            durable.remove(Path(entry.path))
