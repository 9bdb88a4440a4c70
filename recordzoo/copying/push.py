"""`push`: copy a record set from this machine to object storage."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.progress import Progress
from recordzoo.copying.files import stored_hash
from recordzoo.copying.hub import HubPush
from recordzoo.copying.outgoing import OUR_ENDINGS, Outgoing, Pushed
from recordzoo.copying.places import Claim, destination, read_manifest
from recordzoo.errors import ArgumentError, CorruptRecordError
from recordzoo.net.crew import WORKERS, Crew
from recordzoo.net.hub import HubDataset, without_bars
from recordzoo.net.part import HashedFile
from recordzoo.net.store import Store, StoredFile
from recordzoo.net.url import Url, is_url
from recordzoo.records.manifest import MANIFEST_NAME

_ROUNDS = 3  # send, check, send wrong files again, check


def push(
    path: str | os.PathLike[str],
    url: str,
    *,
    replace: bool = False,
    verify: bool = False,
    card: bool = True,
    workers: int = WORKERS,
    progress: Progress | None = None,
) -> str:
    """Copy a record set to object storage, several files at a time; the manifest last. On the Hub it is one commit.

    Each file is compared with the manifest before it is sent. Files that the store already has are not sent again, so
    the same call resumes after an interruption. If several record sets are pushed to one address at the same time, one
    arrives; the other calls raise `OtherSourceError`.

    Args:
        path: The record set's directory.
        url: A URL that ends in ``.records``, or of a folder, in which the set keeps its name.
        replace: Replace another record set, or the remains of a killed push, at `url`. The old manifest is removed
            first.
        verify: Read each file back and compare its hash. Default: compare the store's checksum; in a store without
            checksums only the size, if the file was just sent or the manifest exists.
        card: On the Hugging Face Hub: also write the dataset's card (README.md) with a contact sheet.
        workers: Number of files sent in parallel.
        progress: Receives the progress.

    Returns:
        The record set's address, without a login.

    Raises:
        ManifestError: There is no record set at `path`.
        CorruptRecordError: A file of the set is damaged, or the store repeatedly returns other bytes than were sent.
        OtherSourceError: Another record set is there already, or is being pushed there.
        RemoteError: The store cannot be reached, or refuses access.
        ArgumentError: `url` is not a writable URL.

    Examples:
        >>> import recordzoo
        >>> recordzoo.push("data/photos.records", "s3://bucket/datasets")  # doctest: +SKIP
        's3://bucket/datasets/photos.records'
    """
    if is_url(path):
        raise ArgumentError(
            f"{Url.parse(path)} is a URL. Pull the record set first: what is pushed is on this machine."
        )
    job = push_job(Path(path), url, replace=replace, verify=verify, card=card, workers=workers, progress=progress)
    return job.run().url


def push_job(path: Path, url: str, *, card: bool = True, **options: Any) -> "PushJob | HubPush":
    """Return the push to an address; the arguments are those of `push`."""
    if HubDataset.find(Url.parse(url).public) is not None:
        return HubPush(path, url, card=card, **options)
    return PushJob(path, url, **options)


@dataclass
class PushJob:
    """One push; `plan` changes nothing. The arguments are those of `push`."""

    path: Path
    text: str
    replace: bool = False
    verify: bool = False
    workers: int = WORKERS
    progress: Progress | None = None
    url: Url = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._set = Outgoing(self.path)
        self.path, self.files, self._data = self._set.path, self._set.files, self._set.data
        self.url = destination(self.text, self.path.name)
        self.store = Store(self.url)
        self._claim = Claim(self.store, self._set.digest)
        self._claiming = threading.Lock()
        self._is_published = False
        self._is_compared = True
        self._sent: dict[str, int] = {}
        self._wrong: list[HashedFile] = []

    def plan(self) -> Pushed:
        """Return the expected result, judged by file sizes."""
        self._find_manifest()
        there = self.store.entries()
        missing = [file for file in self.files if there.get(file.name, StoredFile(-1)).size_bytes != file.size_bytes]
        return self._set.result(self.url, {file.name: file.size_bytes for file in missing}, is_compared=False)

    def run(self) -> Pushed:
        """Push the record set."""
        self._is_published = self._find_manifest() == self._data
        with without_bars(self.url):
            try:
                if not self._is_published:
                    self._begin()
                self._send_all(self.files)
                crash_point("push.complete")
                if not self._is_published:
                    self._put_manifest()
                if self.replace:  # even if the manifest exists: an interrupted call may have left old files
                    self._remove_others()
            finally:
                self._claim.release()
        return self._set.result(self.url, self._sent, is_compared=self._is_compared)

    def _begin(self) -> None:
        """Claim the address before the first change, then check again: another process may have published.

        Before each further change, check that the claim is still ours.
        """
        with self._claiming:
            if not self._claim.is_held:
                self._claim.take(replace=self.replace)
                there = self._find_manifest()
                if there not in (None, self._data):
                    self.store.remove(MANIFEST_NAME)
                self._is_published = there == self._data
                return
        if not self._claim.is_ours() and read_manifest(self.store) != self._data:
            raise self._claim.other()

    def _find_manifest(self) -> bytes | None:
        """Return the store's manifest, ours or one to be replaced."""
        data = read_manifest(self.store)
        self._replaces = self._set.check_place(data, self.url, replace=self.replace)
        return data

    def _send_all(self, files: Sequence[HashedFile]) -> None:
        """Send missing files and verify them."""
        progress = self.progress or default_progress()
        progress.begin(f"pushing {self.path.name}", sum(file.size_bytes for file in files))
        for number in range(_ROUNDS):
            self._wrong = self._round(files, Crew(progress, self.workers), is_first=number == 0)
            if not self._wrong:
                progress.end()
                return
        url = self.url / self._wrong[0].name
        raise CorruptRecordError(
            f"{url} is not what was sent, {_ROUNDS - 1} times. Another process may be writing there. Nothing was "
            "published; run the same command again.",
            url=str(url),
        )

    def _round(self, files: Sequence[HashedFile], crew: Crew, *, is_first: bool) -> list[HashedFile]:
        """Check the store's files, send the missing ones; return the files sent."""
        there = self.store.entries()

        def work(file: HashedFile) -> bool:
            if self._is_there(file, there.get(file.name), crew):
                if is_first:
                    crew.advance(file.size_bytes)
                return False
            if not is_first:
                crew.advance(-file.size_bytes)
            self._begin()
            self.store.put(self.path / file.name, file.name, crew.advance)
            with self._lock:
                self._sent[file.name] = file.size_bytes
                crash_point("push.sent")
            return True

        sent = crew.run(work, files)
        return [file for file, was_sent in zip(files, sent, strict=True) if was_sent]

    def _is_there(self, file: HashedFile, entry: StoredFile | None, crew: Crew) -> bool:
        """Whether the store has a file's bytes."""
        local = self._set.checksums_of(file, crew)
        if entry is None or entry.size_bytes != file.size_bytes:
            return False
        if not self.verify:
            if entry.etag == local.etag:
                return True
            was_sent = file.name in self._sent
            if not entry.etag and was_sent:
                return True  # the store has no checksum, but confirmed the upload
            if not entry.etag and self._is_published:
                self._is_compared = False
                return True
            if entry.etag and self._replaces and not was_sent:
                return False  # from the set to be replaced
        return stored_hash(self.store, file.name, file.size_bytes, crew) == file.hash

    def _put_manifest(self) -> None:
        """Publish the record set by storing its manifest, and verify it."""
        there = read_manifest(self.store)
        if there is None:
            self._begin()
            self.store.create(MANIFEST_NAME, self._data)
            there = read_manifest(self.store)
        if there != self._data:
            raise CorruptRecordError(
                f"{self.url / MANIFEST_NAME} is not what was sent: another process pushes to the same address. Run the "
                "same command again.",
                url=str(self.url / MANIFEST_NAME),
            )

    def _remove_others(self) -> None:
        """Remove the files of the previous set."""
        ours = {file.name for file in self.files}
        for name in self.store.entries():
            if name.endswith(OUR_ENDINGS) and name not in ours:
                self._begin()
                self.store.remove(name)
