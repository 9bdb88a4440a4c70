"""A record set arrives on this machine: a build, filled by several threads, published by one rename."""

import json
import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from recordzoo.base import durable
from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.hashing import hash_of
from recordzoo.base.progress import Progress
from recordzoo.copying.fetching import PART, Fetch, has_size, remove_all_but
from recordzoo.copying.files import named_files
from recordzoo.copying.places import digest_at
from recordzoo.errors import CorruptRecordError, OtherSourceError
from recordzoo.net.crew import WORKERS, Crew
from recordzoo.net.part import HashedFile, Supply
from recordzoo.publish.build import Build
from recordzoo.publish.found import dead_builds
from recordzoo.publish.output import Output
from recordzoo.publish.publishing import publish
from recordzoo.recipes.beside import COPIED_FILE
from recordzoo.records.manifest import MANIFEST_NAME, Manifest
from recordzoo.records.reader import is_record_set


@dataclass(frozen=True, slots=True)
class Arrived:
    """What was done, or would be done.

    Attributes:
        path: Where the record set is.
        source: Where it came from: a path, or a URL without a login.
        digest: Its digest.
        num_files: Of how many files it consists, without the manifest.
        num_bytes: How large they are.
        fetched_bytes: How much was fetched.
        was_ready: Whether it was there already.
    """

    path: Path
    source: str
    digest: str
    num_files: int
    num_bytes: int
    fetched_bytes: int
    was_ready: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """A record set that is fetched.

    Attributes:
        address: What it is called in messages: its path or URL.
        name: The name of its directory.
        data: The bytes of its manifest.
        manifest: The manifest.
        digest: The set's digest.
        supply: Gives its files.
        files: All of them, without the manifest.
    """

    address: str
    name: str
    data: bytes
    manifest: Manifest
    digest: str
    supply: Supply
    files: list[HashedFile]


@dataclass
class Arrival(ABC):
    """One copy to this machine; `plan` only looks at what is there.

    Attributes:
        text: The record set, as the user names it.
        place: Where it goes: a directory whose name ends in ``.records``, or one in which it keeps its name.
        replace: Replace another record set that is there.
        workers: How many files are fetched at a time.
        progress: Told how it goes on.
        verify: Read back each file from the disk, and compare its hash once more.
        whole: The undamaged files of a damaged copy, which is at `place`, and is replaced: these files are kept.
        fetched_bytes: How much was fetched.
    """

    verb: ClassVar[str]
    """The command's name."""

    text: str
    place: Path
    replace: bool = False
    workers: int = WORKERS
    progress: Progress | None = None
    verify: bool = False
    whole: frozenset[str] | None = None
    fetched_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.origin = self.find()
        self.files = self.origin.files
        self.target = self.find_target() if self.whole is None else self.place

    @abstractmethod
    def find(self) -> Origin:
        """Find the record set that is meant."""

    @abstractmethod
    def find_target(self) -> Path:
        """Return the directory in which it will be."""

    @abstractmethod
    def damaged(self, name: str) -> CorruptRecordError:
        """Make the error of a file that has another hash at its origin than the manifest says."""

    def finish(self, folder: Path) -> set[str]:
        """Add files that no hash is known of; return their names."""
        return set()

    @property
    def num_bytes(self) -> int:
        """The size of all files, without the manifest."""
        return sum(file.size_bytes for file in self.files)

    def plan(self) -> Arrived:
        """Return what would be done: `fetched_bytes` is what is still to be fetched."""
        if self._is_ready():
            return self._result(was_ready=True)
        self.fetched_bytes = self.num_bytes - self._kept_bytes()
        return self._result()

    def run(self) -> Arrived:
        """Do it.

        Raises:
            RecordZooError: As `pull` and `copy`.
        """
        progress = self.progress or default_progress()
        is_made = publish(
            Output(self.target, elsewhere="name another directory"),
            self._is_ready,
            progress,
            lambda build: self._write(build, progress),
            may_replace=self._may_replace,
        )
        return self._result(was_ready=not is_made)

    def _may_replace(self, path: Path) -> bool:
        return self.replace and (is_record_set(path) if self.whole is None else os.path.lexists(path))

    def _is_ready(self) -> bool:
        """Whether the record set is there."""
        if self.whole is not None or not os.path.lexists(self.target):
            return False
        there = digest_at(self.target)
        is_same = there == self.origin.digest
        if is_same and all(map(self._is_whole, named_files(self.origin.manifest))):
            return True
        if there is not None and self.replace:
            return False
        if there is None:
            what = "is there, and is no record set that can be read. Move it away, or name another directory"
        else:
            what = f"holds {'a damaged copy of this' if is_same else 'another'} record set. Pass --replace"
            what += " (replace=True) to replace it, or name another directory"
        raise OtherSourceError(f"{self.target} {what}.", path=str(self.target))

    def _is_whole(self, file: HashedFile) -> bool:
        """Whether a file is there, by its size; to `verify`, by its hash."""
        path = self.target / file.name
        return has_size(path, file.size_bytes) and (not self.verify or hash_of(path) == file.hash)

    def _fetched_files(self) -> list[HashedFile]:
        """Return the files that are fetched: all, or the damaged ones of a damaged copy."""
        return [file for file in self.files if file.name not in (self.whole or ())]

    def _kept_bytes(self) -> int:
        """Return how much of it is there: undamaged, or left by an interrupted run."""
        names = {file.name for file in self._fetched_files()}
        whole, found = sum(file.size_bytes for file in self.files if file.name not in names), 0
        for build in dead_builds(self.target):
            files = (path for path in build.path.glob("set/*") if path.name.partition(PART)[0] in names)
            found = max(found, sum(path.stat().st_size for path in files))
        return whole + found

    def _write(self, build: Build, progress: Progress) -> None:
        """Write the record set into a build."""
        build.claim({self.verb: self.origin.digest}, sum(file.size_bytes for file in self._fetched_files()))
        crew = Crew(progress, self.workers)
        supply, folder = self.origin.supply, build.set
        fetch = Fetch(supply, folder, crew, build.check, self._count, self.damaged, self.verify)
        progress.begin(f"{self.verb}ing {self.origin.name}", self.num_bytes)
        crew.run(lambda file: None if self._keep(file, folder, crew) else fetch.file(file), self.files)
        progress.end()
        remove_all_but(folder, {*(file.name for file in self.files), *self.finish(folder)})
        copied = {"from": self.origin.address, "digest": self.origin.digest}
        durable.write_file(folder / COPIED_FILE, json.dumps(copied).encode())
        durable.write_file(folder / MANIFEST_NAME, self.origin.data)
        durable.sync_directory(folder)
        crash_point("set.manifest_written")

    def _keep(self, file: HashedFile, folder: Path, crew: Crew) -> bool:
        """Take over an undamaged file of the damaged copy: by a second name, or as a copy."""
        old = self.target / file.name
        if self.whole is None or file.name not in self.whole or not has_size(old, file.size_bytes):
            return False
        if hash_of(old) != file.hash:  # another process has replaced the set since
            return False
        durable.link_or_copy(old, folder / file.name)
        crew.advance(file.size_bytes)
        return True

    def _count(self, num_bytes: int) -> None:
        with self._lock:
            self.fetched_bytes += num_bytes

    def _result(self, *, was_ready: bool = False) -> Arrived:
        origin, fetched = self.origin, max(0, self.fetched_bytes)
        return Arrived(self.target, origin.address, origin.digest, len(self.files), self.num_bytes, fetched, was_ready)
