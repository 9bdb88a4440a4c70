"""`HubPush`: a record set and its card to a dataset of the Hugging Face Hub, in one commit."""

import hashlib
import re
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.progress import Progress, SilentProgress
from recordzoo.copying.card import CARD, MARK, OnHub, draw_samples, license_warning, write_card
from recordzoo.copying.files import stored_hash
from recordzoo.copying.outgoing import OUR_ENDINGS, Outgoing, Pushed
from recordzoo.copying.places import destination, parsed, read_manifest
from recordzoo.errors import ArgumentError, CorruptRecordError, RecordError, RemoteError
from recordzoo.net import retry
from recordzoo.net.crew import WORKERS, Crew
from recordzoo.net.failures import may_pass
from recordzoo.net.hub import HubDataset, api_of, asking, without_bars
from recordzoo.net.part import HashedFile
from recordzoo.net.store import Store
from recordzoo.net.url import Url
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, Manifest

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd
    from huggingface_hub.hf_api import RepoFile

_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHANGED = 412  # a commit came between: its parent is not the one that was looked at
_SHEETS = ".recordzoo"  # hidden: `load_dataset` would take the sheets for the dataset's images
_MAX_CARD_BYTES = 1 << 20


@dataclass(frozen=True)
class _There:
    """The repository at a commit; without a commit it does not exist.

    Attributes:
        commit: The commit.
        files: The files, by path.
        manifest: The manifest's bytes at the destination.
    """

    commit: str = ""
    files: "dict[str, RepoFile]" = field(default_factory=dict)
    manifest: bytes | None = None


@dataclass
class HubPush:
    """One push to a dataset of the Hub; `plan` changes nothing.

    Large files are uploaded first, and belong to no commit. One commit publishes them with the manifest and the card,
    if its parent is the commit that was looked at. Otherwise the repository is looked at again.

    The arguments are those of `push`.
    """

    path: Path
    text: str
    replace: bool = False
    verify: bool = False
    card: bool = True
    workers: int = WORKERS
    progress: Progress | None = None
    url: Url = field(init=False)

    def __post_init__(self) -> None:
        self._set = Outgoing(self.path)
        self.path = self._set.path
        self.url = destination(self.text, self.path.name)
        place = HubDataset.find(self.url.public)
        assert place is not None
        if _COMMIT.fullmatch(place.revision):
            raise ArgumentError(f"{self.url} names a commit, which cannot change. Name a branch, or none.")
        self._place, self._revision = place, place.revision or None
        self._repository: dict[str, Any] = {"repo_id": place.repository, "repo_type": "dataset"}
        self._sent: dict[str, int] = {}
        self._uploaded: dict[str, CommitOperationAdd] = {}
        self._lock = threading.Lock()

    def plan(self) -> Pushed:
        """Return the expected result."""
        self._warn()
        there = self._look()
        missing = [file for file in self._set.files if not self._is_there(file, there)]
        return self._set.result(self.url, {file.name: file.size_bytes for file in missing})

    def run(self) -> Pushed:
        """Push the record set."""
        self._warn()
        progress = self.progress or default_progress()
        progress.begin(f"pushing {self.path.name}", sum(file.size_bytes for file in self._set.files))
        with without_bars(self.url):
            for attempt in range(1, retry.ATTEMPTS + 1):
                there = self._look(creates=True)
                crew = Crew(progress if attempt == 1 else SilentProgress(), self.workers)
                files = crew.run(partial(self._upload, there, crew), self._set.files)
                crash_point("push.complete")
                try:
                    self._commit(there, [file for file in files if file is not None])
                    break
                except RemoteError as err:
                    if attempt == retry.ATTEMPTS or not (err.status == _CHANGED or may_pass(err)):
                        raise
                    pause_s = retry.pause_s(attempt)
                time.sleep(pause_s)
        if self.verify:
            self._read_back(Crew(SilentProgress(), self.workers))
        progress.end()
        return self._set.result(self.url, self._sent)

    def _warn(self) -> None:
        warning = license_warning(self._set.reader.manifest)
        if warning:
            (self.progress or default_progress()).note(warning)

    def _api(self) -> Any:  # Any: the types of huggingface_hub differ between its versions
        return api_of(Store(self.url).file_system())

    def _look(self, *, creates: bool = False) -> _There:
        """Look at the repository; create it if it is missing and `creates`.

        Raises:
            OtherSourceError: Another record set is at the destination and may not be replaced.
        """
        api, commit = self._api(), self._find_commit()
        if commit is None and creates:
            with asking(self.url, "written"):
                api.create_repo(**self._repository, exist_ok=True)
            commit = self._find_commit()
        if commit is None:
            return _There()
        with asking(self.url, "written"):
            tree = api.list_repo_tree(**self._repository, revision=commit, recursive=True)
            files = {each.path: each for each in tree if hasattr(each, "blob_id")}
        has_manifest = self._in_repository(MANIFEST_NAME) in files
        manifest = read_manifest(Store(self._at(commit, self._place.folder))) if has_manifest else None
        self._set.check_place(manifest, self.url, replace=self.replace)
        return _There(commit, files, manifest)

    def _find_commit(self) -> str | None:
        """Return the branch's last commit; None if there is no such repository."""
        api = self._api()
        with asking(self.url, "written"):
            from huggingface_hub.errors import RepositoryNotFoundError

            try:
                commit: str | None = api.repo_info(**self._repository, revision=self._revision).sha
            except RepositoryNotFoundError:
                return None
        return commit

    def _in_repository(self, name: str) -> str:
        return f"{self._place.folder}/{name}".lstrip("/")

    def _at(self, commit: str, folder: str) -> Url:
        url = Url.parse(f"hf://datasets/{self._place.repository}@{commit}")
        return url / folder if folder else url

    def _is_there(self, file: HashedFile, there: _There) -> bool:
        """Whether the repository has a file's bytes. Git has only the SHA-1 of small ones."""
        entry = there.files.get(self._in_repository(file.name))
        if entry is None or entry.size != file.size_bytes:
            return False
        if entry.lfs is not None:
            return f"sha256:{entry.lfs.sha256}" == file.hash
        data = (self.path / file.name).read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == entry.blob_id

    def _upload(self, there: _There, crew: Crew, file: HashedFile) -> "CommitOperationAdd | None":
        """Upload a file if it is missing; return what adds it to the commit."""
        if self._is_there(file, there):
            crew.advance(file.size_bytes)
            return None
        self._set.checksums_of(file, crew)
        found = self._uploaded.get(file.name)
        if found is None:
            with asking(self.url / file.name, "written"):
                from huggingface_hub import CommitOperationAdd

                found = CommitOperationAdd(self._in_repository(file.name), self.path / file.name)
                found.upload_info.sha256 = bytes.fromhex(file.hash.removeprefix("sha256:"))  # not hashed again
                self._api().preupload_lfs_files(
                    **self._repository,
                    additions=[found],
                    revision=self._revision,
                    num_threads=1,
                    free_memory=False,
                )
            crew.advance(file.size_bytes)
            with self._lock:
                self._uploaded[file.name], self._sent[file.name] = found, file.size_bytes
                crash_point("push.sent")
        return found

    def _commit(self, there: _There, files: "list[CommitOperationAdd]") -> None:
        """Publish the files, the manifest and the card; remove the files of a replaced set."""
        is_published = there.manifest == self._set.data
        texts = {} if is_published else {self._in_repository(MANIFEST_NAME): self._set.data}
        if self.card and not (is_published and CARD in there.files):
            texts |= self._card(there)
        ours = {self._in_repository(file.name) for file in self._set.files}
        others = [path for path in there.files if self._is_of_set(path) and path not in ours] if self.replace else []
        if not (files or texts or others):
            return
        with asking(self.url, "written"):
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete

            self._api().create_commit(
                **self._repository,
                operations=[
                    *files,
                    *(CommitOperationAdd(path, data) for path, data in texts.items()),
                    *(CommitOperationDelete(path) for path in others),
                ],
                commit_message=f"Push {self.path.name} with recordzoo",
                revision=self._revision,
                parent_commit=there.commit or None,
            )

    def _is_of_set(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder == self._place.folder and name.endswith(OUR_ENDINGS)

    def _card(self, there: _There) -> dict[str, bytes]:
        """Make the card and the set's contact sheet, by path; nothing if the card there lacks our mark."""
        root = Store(self._at(there.commit, ""))
        if CARD in there.files and MARK not in root.read(CARD, _MAX_CARD_BYTES).decode("utf-8", "replace"):
            return {}
        made: dict[str, bytes] = {}
        sheet, folder = draw_samples(self._set.reader), self._place.folder
        if sheet is not None:
            made[_sheet_of(folder)] = sheet
        sets = {**self._others(there), folder: self._set.reader.manifest}
        at = f"@{self._place.revision.replace('/', '%2F')}" if self._place.revision else ""
        start = f"hf://datasets/{self._place.repository}{at}"
        shown = {
            path: OnHub(
                f"{start}/{path}".rstrip("/"),
                sets[path],
                _sheet_of(path) if _sheet_of(path) in (*there.files, *made) else "",
            )
            for path in sorted(sets)
        }
        made[CARD] = write_card(self._place.repository.rpartition("/")[2], shown)
        return made

    def _others(self, there: _There) -> dict[str, Manifest]:
        """Read the manifests of the repository's other record sets, by path; damaged ones are left out."""
        found = {}
        for path in there.files:
            folder, _, name = path.rpartition("/")
            if name == MANIFEST_NAME and folder.endswith(ENDING) and folder != self._place.folder:
                url = self._at(there.commit, folder)
                try:
                    data = read_manifest(Store(url))
                    found[folder] = parsed(data or b"", url)[0]
                except RemoteError:
                    raise
                except RecordError:
                    continue
        return found

    def _read_back(self, crew: Crew) -> None:
        store = Store(self.url)

        def work(file: HashedFile) -> bool:
            return stored_hash(store, file.name, file.size_bytes, crew) == file.hash

        for file, is_right in zip(self._set.files, crew.run(work, self._set.files), strict=True):
            if not is_right:
                url = str(self.url / file.name)
                raise CorruptRecordError(f"{url} reads back with other bytes than were sent.", url=url)


def _sheet_of(folder: str) -> str:
    return f"{_SHEETS}/{folder.removesuffix(ENDING) or 'sheet'}.jpg"
