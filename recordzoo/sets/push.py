"""`push`: copy a record set from this machine to object storage, or in one commit to the Hugging Face Hub."""

import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo import catalogue, errors
from recordzoo.base.files import hash_text
from recordzoo.base.process import crash_point
from recordzoo.base.progress import Progress, SilentProgress, default_progress
from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError, CorruptRecordError, OtherSourceError, RecordError, RemoteError
from recordzoo.net import http as retry
from recordzoo.net.hub import HubDataset, api_of, asking, without_bars
from recordzoo.net.part import WORKERS, Crew, HashedFile
from recordzoo.net.store import Store, StoredFile, part_bytes
from recordzoo.net.url import Url, is_url
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, Manifest, manifest_digest, parse_manifest
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import hashed_files, own_files
from recordzoo.sets.places import Source, destination, manifest_in

CARD = "README.md"
MARK = (
    "<!-- recordzoo push writes this page again when a record set changes. Remove this line to keep your own text. -->"
)
"""The line by which a later push knows its own card."""

CLAIM_NAME = "push.claim"
"""Beside the files of a set that is being pushed: its digest, and the names of files that recordzoo wrote there."""

_CHANGED = 412  # the Hub's answer if a commit came between
_COMMIT = re.compile(r"[0-9a-f]{40}")
_KNOWN_LICENSE = re.compile(r"MIT|CC0 1\.0|CC BY(-[A-Z]{2})* \d\.\d")  # in small letters with hyphens, the Hub's names
_MAX_CARD_BYTES, _MAX_CLAIM_BYTES = 1 << 20, 64 << 20
_OUR_NAME = re.compile(r"[^/\\]+\.(lmdb|npy|marks)")
_ABSENT = StoredFile(-1)
_md5 = functools.partial(hashlib.md5, usedforsecurity=False)
_SMALL_BYTES = 1 << 20  # of a published set, smaller files are read back from stores without checksums


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
        card: On the Hugging Face Hub: also write the dataset's card (README.md).
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
    job = push_job(path, url, replace=replace, verify=verify, card=card, workers=workers, progress=progress)
    job.run()
    return str(job.url)


def push_job(path: str | os.PathLike[str], url: str, *, card: bool = True, **options: Any) -> "Push":
    """Return a push that has not begun; the arguments are those of `push`."""
    if is_url(path):
        there = Url.parse(path)
        raise ArgumentError(
            f"{there} and {Url.parse(url)} are both URLs. Pull the record set first, then push it: "
            f"{command('pull', there)}"
        )
    source = Source.find(path)
    target = destination(url, source.place.name)
    on_hub = HubDataset.find(target.public) is not None
    return HubPush(source, target, card=card, **options) if on_hub else Push(source, target, **options)


@dataclass
class Push:
    """A copy to object storage; the arguments are those of `push`.

    A claim beside the files names the set that is being pushed. The store creates it only if there is none, so of two
    sets only one is sent. It also names the files that recordzoo wrote there: those of a replaced set are removed in
    the end, also after a kill.

    Attributes:
        files: The files to be there, without the manifest.
        copied: The sizes of the files that were sent, or that `plan` expects to be sent, by name.
    """

    source: Source
    url: Url
    replace: bool = False
    verify: bool = False
    workers: int = WORKERS
    progress: Progress | None = None

    def __post_init__(self) -> None:
        assert isinstance(self.source.place, Path)
        self.path, self.store, self.shown = self.source.place, Store(self.url), self.progress or default_progress()
        self._reader = RecordReader(self.path, digest=self.source.digest)  # opens regular files only
        marks = [HashedFile(name, len(data), hash_text(hashlib.sha256(data))) for name, data in self.source.marks()]
        self.files = [*hashed_files(self.source.manifest), *marks]
        self.is_published = False
        self.old: set[str] = set()  # names of files of the set to be replaced
        self.copied: dict[str, int] = {}
        self._etags: dict[str, str] = {}

    def plan(self) -> None:
        """Set the expected result, judged by file sizes, and change nothing."""
        self.look()
        there, sizes = self.stored(), {file.name: file.size_bytes for file in self.files}
        self.copied = {name: size for name, size in sizes.items() if there.get(name, _ABSENT).size_bytes != size}

    def run(self) -> None:
        """Push the record set."""
        with without_bars() if self.url.scheme == "hf" else nullcontext():
            self.begin()
            self.shown.begin(f"pushing {self.path.name}", sum(file.size_bytes for file in self.files))
            self.send_all()
            crash_point("push.complete")
            self.publish()
        self.shown.end()

    def look(self) -> bool:
        """Read the manifest at the destination; return whether it is another record set's, which may be replaced."""
        data = manifest_in(self.store)
        self.is_published = data == self.source.data
        if data is None or self.is_published:
            return False
        try:
            self.old.update(filter(_OUR_NAME.fullmatch, own_files(parse_manifest(data, str(self.url)))))
            what = f"another record set (digest {manifest_digest(data)[:16]}...)"
        except RecordError:
            what = f"a {MANIFEST_NAME} that is not of a record set, or damaged"
        if not self.replace:
            text = f"There is {what} at {self.url}. Pass --replace (replace=True) to replace it, or another address."
            raise OtherSourceError(text, path=str(self.path), url=str(self.url))
        return True

    def begin(self) -> None:
        """Claim the address before the first change, and remove the manifest of a set that is replaced."""
        self.look()
        if self.is_published:
            return
        digest, names = self._claim()
        if digest != self.source.digest:
            if digest and not self.replace:
                raise self._taken()
            if digest:
                self.store.remove(CLAIM_NAME)
            lines = [self.source.digest, *sorted(self.old | names | {file.name for file in self.files})]
            self.store.create(CLAIM_NAME, "\n".join(lines).encode())
        self.check()
        try:
            if self.look():  # another process may have published since the first look
                self.store.remove(MANIFEST_NAME)
        except OtherSourceError:
            self.store.remove(CLAIM_NAME)
            raise

    def check(self) -> None:
        """Raise if the claim is no longer ours, unless another process has published this very set."""
        if self._claim()[0] != self.source.digest and manifest_in(self.store) != self.source.data:
            raise self._taken()

    def _claim(self) -> tuple[str, set[str]]:
        """Read the claim: the digest of the set that is pushed, and the names of files that recordzoo wrote there."""
        data = self.store.read_if_there(CLAIM_NAME, _MAX_CLAIM_BYTES) or b""
        digest, *names = data.decode("utf-8", "replace").split("\n")
        return digest, set(filter(_OUR_NAME.fullmatch, names))

    def _taken(self) -> OtherSourceError:
        return OtherSourceError(
            f"Another record set is being pushed to {self.url}, or its push was interrupted. Name another address, or "
            "wait for it; if no such push is running, pass --replace (replace=True).",
            url=str(self.url),
        )

    def send_all(self) -> None:
        """Send missing files until the store has all of them."""
        for progress in (self.shown, SilentProgress(), SilentProgress()):  # send, check, send wrong files again, check
            if not (wrong := self.send_missing(Crew(progress, self.workers))):
                return
        url = str(self.url / wrong[0])
        raise CorruptRecordError(
            f"{url} is not what was sent, twice. Another process may be writing there. Nothing was published; run the "
            "same command again.",
            url=url,
        )

    def stored(self) -> dict[str, StoredFile]:
        """Return what the store tells of its files, by name."""
        return self.store.entries()

    def send_missing(self, crew: Crew) -> list[str]:
        """Compare each file with the manifest, and send those that the store lacks; return their names."""
        there = self.stored()

        def bring(file: HashedFile) -> str:
            if self._is_there(file, there.get(file.name, _ABSENT), crew):
                crew.advance(file.size_bytes)
                return ""
            self.send(file, crew)
            self.copied[file.name] = file.size_bytes
            crash_point("push.sent")
            return file.name

        return [name for name in crew.run(bring, self.files) if name]

    def send(self, file: HashedFile, crew: Crew) -> None:
        """Send a file."""
        self.check()
        self.store.put(self.path / file.name, file.name, crew.advance)

    def _is_there(self, file: HashedFile, entry: StoredFile, crew: Crew) -> bool:
        """Whether the store has a file's bytes; raise if this machine has others than the manifest says."""
        etag, was_sent = self._etag(file, crew), file.name in self.copied
        if entry.size_bytes != file.size_bytes:
            return False
        if not self.verify:
            if entry.etag in (etag, file.hash.removeprefix("sha256:")):
                return True
            if not entry.etag and (was_sent or (self.is_published and file.size_bytes > _SMALL_BYTES)):
                return True  # the store has no checksum
            if entry.etag and self.old and not was_sent:
                return False  # of the set to be replaced
        state = hashlib.sha256()
        for data in self.store.pieces(file.name, file.size_bytes):  # read back
            crew.advance()
            state.update(data)
        return hash_text(state) == file.hash

    def _etag(self, file: HashedFile, crew: Crew) -> str:
        """Return the ETag that S3 computes for a file (MD5 of it, or of its parts' MD5s); raise if it is damaged."""
        if file.name not in self._etags:
            state, sums, part = hashlib.sha256(), list[bytes](), part_bytes(file.size_bytes)
            part *= 2 if file.size_bytes < 2 * part else 1  # s3fs sends such a file whole
            with suppress(RecordError), open(self._reader.open_file(file.name, file.size_bytes), "rb") as opened:
                while data := opened.read(part):
                    crew.advance()
                    state.update(data)
                    sums.append(_md5(data).digest())
            if hash_text(state) != file.hash:
                raise self.source.damaged(file.name)
            is_one = len(sums) == 1
            self._etags[file.name] = sums[0].hex() if is_one else f"{_md5(b''.join(sums)).hexdigest()}-{len(sums)}"
        return self._etags[file.name]

    def publish(self) -> None:
        """Store the manifest; then remove the files of a replaced set that the new one lacks, and the claim."""
        if not self.is_published:
            self.check()
            self.store.create(MANIFEST_NAME, self.source.data)
            if manifest_in(self.store) != self.source.data:
                raise self._taken()
        digest, names = self._claim()
        if digest == self.source.digest:
            for name in sorted((self.old | names) - {file.name for file in self.files}):
                self.store.remove(name)
            self.store.remove(CLAIM_NAME)


@dataclass
class HubPush(Push):
    """A push to a dataset of the Hub. One commit adds all files, if its parent is the commit that was looked at.

    Attributes:
        card: Write the card.
    """

    card: bool = True

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        place = HubDataset.find(self.url.public)
        assert place is not None
        if _COMMIT.fullmatch(place.revision):
            raise ArgumentError(f"{self.url} names a commit, which cannot change. Name a branch, or none.")
        self._place, self._commit, self._folder = place, "", f"{place.folder}/".lstrip("/")
        self._target = {"repo_id": place.repository, "repo_type": "dataset", "revision": place.revision or None}
        self._added: dict[str, Any] = {}
        entry = catalogue.entry_of(self.source.manifest)
        if entry is not None and (not _KNOWN_LICENSE.fullmatch(entry.license) or "ND" in entry.license):
            said = entry.license.rstrip(".")
            self.shown.note(f"The license of {entry.title} is: {said}. Check that you may publish its images.")

    @override
    def run(self) -> None:
        for attempt in range(1, retry.ATTEMPTS + 1):
            try:
                return super().run()
            except RemoteError as err:
                if attempt == retry.ATTEMPTS or (err.status != _CHANGED and (err.status or 0) < 500):
                    raise
            time.sleep(retry.pause_s(attempt))

    def _api(self) -> Any:  # Any: the types of huggingface_hub differ between its versions
        return api_of(self.store.file_system())

    @override
    def look(self) -> bool:
        with asking(self.url, "written"):
            from huggingface_hub.errors import RepositoryNotFoundError

            try:
                self._commit = self._api().repo_info(**self._target).sha
            except RepositoryNotFoundError:
                return False
        self._root = Url.parse(f"hf://datasets/{self._place.repository}@{self._commit}")
        self.store = Store(self._root / self._place.folder if self._place.folder else self._root)
        return super().look()

    @override
    def stored(self) -> dict[str, StoredFile]:
        return super().stored() if self._commit else {}

    @override
    def begin(self) -> None:
        self.look()
        if not self._commit:
            with asking(self.url, "written"):
                self._api().create_repo(self._place.repository, repo_type="dataset", exist_ok=True)
            self.look()

    @override
    def send_all(self) -> None:
        self._missing = self.send_missing(Crew(self.shown, self.workers))

    @override
    def send(self, file: HashedFile, crew: Crew) -> None:
        """Upload a large file, which belongs to no commit yet; small ones go with the commit."""
        if file.name not in self._added:
            with asking(self.url / file.name, "written"):
                from huggingface_hub import CommitOperationAdd

                added = CommitOperationAdd(self._folder + file.name, self.path / file.name)
                added.upload_info.sha256 = bytes.fromhex(file.hash.removeprefix("sha256:"))  # not hashed again
                self._api().preupload_lfs_files(additions=[added], num_threads=1, free_memory=False, **self._target)
            self._added[file.name] = added
        crew.advance(file.size_bytes)

    @override
    def publish(self) -> None:
        """Commit the files, the manifest and the card; remove the files of a replaced set."""
        texts = {} if self.is_published else {self._folder + MANIFEST_NAME: self.source.data}
        texts |= self._card() if self.card else {}
        gone = self.old.intersection(self.stored()) - {file.name for file in self.files}
        if not (self._missing or texts or gone):
            return
        with asking(self.url, "written"):
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete

            operations = [
                *(self._added[name] for name in self._missing),
                *(CommitOperationAdd(path, data) for path, data in texts.items()),
                *(CommitOperationDelete(self._folder + name) for name in sorted(gone)),
            ]
            options = {"commit_message": f"Push {self.path.name} with recordzoo", "parent_commit": self._commit}
            self._api().create_commit(operations=operations, **self._target, **options)
        if self.verify:
            self.look()
            if wrong := self.send_missing(Crew(SilentProgress(), self.workers)):
                url = str(self.url / wrong[0])
                raise CorruptRecordError(f"{url} reads back with other bytes than were sent.", url=url)

    def _card(self) -> dict[str, bytes]:
        """Make the card; nothing if the one there is somebody's own, or no record set changes."""
        root = Store(self._root)
        there = root.read_if_there(CARD, _MAX_CARD_BYTES)
        if there is not None and (self.is_published or MARK.encode() not in there):
            return {}
        at = f"@{self._place.revision.replace('/', '%2F')}" if self._place.revision else ""
        folders = {*(name for name in root.folders() if name.endswith(ENDING)), self._place.folder}
        urls = [f"hf://datasets/{self._place.repository}{at}/{each}".rstrip("/") for each in sorted(folders)]
        return {CARD: write_card(self._place.repository.rpartition("/")[2], urls, self.source.manifest).encode()}


def write_card(name: str, urls: Sequence[str], manifest: Manifest) -> str:
    """Write the card of a repository.

    Args:
        name: The repository's name.
        urls: Its record sets. A license in the card's head holds for the repository, so it is there for a single set.
        manifest: The manifest of the set that was pushed last.
    """
    head: dict[str, object] = {"pretty_name": name, "tags": ["recordzoo", "image"], "viewer": False}  # not for LMDB
    home = errors.url("Documentation") or errors.url("Source")
    link = f"[recordzoo]({home})" if home else "recordzoo"
    opened = "\n".join(["import recordzoo", "", *(f'dataset = recordzoo.open("{url}")' for url in urls)])
    pulled = "\n".join(["pip install 'recordzoo[hf]'", *(f"recordzoo pull {url} data" for url in urls)])
    parts = [f"# {name}", f"Record sets of {link}: images in LMDB files, read as torchvision datasets."]
    parts += [f"```python\n{opened}\n```", f"```sh\n{pulled}\n```"]
    entry = catalogue.entry_of(manifest)
    if entry is not None:
        parts += [f"## {entry.title}", entry.summary, f"License: {entry.license} Homepage: {entry.homepage}"]
        parts += [f"```text\n{entry.citation}\n```"] if entry.citation else []
    if entry is not None and len(urls) == 1:
        head["license"] = "unknown" if entry.license.startswith("Not stated") else "other"
        if _KNOWN_LICENSE.fullmatch(entry.license):
            head["license"] = entry.license.lower().replace(" ", "-")
        elif head["license"] == "other":
            head |= {"license_name": f"{entry.name}-license", "license_link": entry.homepage}
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items())
    return "\n\n".join([f"---\n{front}\n---", MARK, *parts]) + "\n"
