"""The raw data of a preparation: found, or where it may be; downloaded, checked by its hashes, deleted at the end."""

import contextlib
import functools
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from recordzoo.base import settings
from recordzoo.base.files import BackgroundHash, is_folder, other_sha256, remove
from recordzoo.base.progress import Progress, default_progress
from recordzoo.base.text import Address, host, name_first
from recordzoo.errors import DownloadError, HashMismatchError, PrepareError, TermsError
from recordzoo.net.part import CHECKING, Crew, Stop, tidy
from recordzoo.net.url import RemoteFile, addresses
from recordzoo.preparing.options import Options
from recordzoo.raw.member import Source
from recordzoo.recipes.recipe import Recipe
from recordzoo.records.manifest import RawFile

MOST = 4
"""Maximum number of parallel downloads."""

MOST_PER_HOST = 2
"""Maximum number of parallel downloads per host: more would be impolite, and some hosts refuse them."""

_GRACE_S = 5.0
"""Time that an error waits for the other downloads to stop. A connecting download stops later by itself."""

_POLL_S = 0.2

_RECORDED = "sha256"
"""Hash of raw files without a published hash."""

_MOST = 2000  # entries that `near` looks at: the root may be a shared disk
_NUM_SHOWN = 3

logger = logging.getLogger("recordzoo")


class RawData:
    """The raw data of a recipe under a root.

    Args:
        recipe: Finds it.
        root: Its directory.
        options: The options of downloads and hashes.

    Attributes:
        fetched: Archives downloaded, and therefore already hashed, by this preparation.
        hashes: The running hashes.
        proven: Archives whose hash is compared with a published one.
    """

    def __init__(self, recipe: Recipe, root: Path, options: Options) -> None:
        self.recipe, self.root, self.options = recipe, root, options
        self.fetched: list[Path] = []
        self.hashes: dict[Path, BackgroundHash] = {}
        self.proven: set[Path] = set()
        self._remotes: Mapping[Path, RemoteFile | None] = {}  # of the source's archives; none for a tree
        self._source: Source | None = None

    @functools.cached_property
    def progress(self) -> Progress:
        """Receives the progress."""
        return self.options.progress or default_progress()

    def source(self) -> Source | None:
        """Return the raw data, or None if there is none. A result is cached.

        Raises:
            SourceError: Part of it is missing.
        """
        if self._source is None:
            self._source = self.recipe.find(self.root)
        return self._source

    @property
    def missing(self) -> list[RemoteFile]:
        """The raw files that are not there."""
        return [remote for remote in self.recipe.raw_files if not remote.path(self.root).exists()]

    @property
    def missing_bytes(self) -> int:
        """The bytes still to be downloaded, except files of unknown size."""
        sizes = {remote.path(self.root): remote.expected_bytes or 0 for remote in self.missing}
        return sum(max(0, size - _there_bytes(path)) for path, size in sizes.items())

    def addresses(self, remote: RemoteFile) -> list[Address]:
        """Return the addresses of a raw file, in the order of attempts.

        Raises:
            TermsError: The host's terms were not accepted; the text gives the remedy.
            DownloadError: There is no address.
        """
        mirror, accept_terms = self.options.mirror, self.options.accept_terms
        return addresses(remote, self.root, dataset=self.recipe.dataset, mirror=mirror, accept_terms=accept_terms)

    def check_addresses(self) -> None:
        """Check that each missing required raw file has an address; raise the errors of `addresses`."""
        for remote in self.missing:
            if not remote.optional:
                self.addresses(remote)

    def download(self) -> None:
        """Download missing raw files: one in this thread, several in one thread each.

        Raises:
            SourceError: A required file cannot be downloaded. Partial files are kept.
        """
        missing = self.missing
        if len(missing) == 1:
            self._fetch(missing[0], self.progress)
        elif missing:
            self._download_all(missing)
        self._source = None

    def _download_all(self, missing: Sequence[RemoteFile]) -> None:
        there = {remote.name: _there_bytes(remote.path(self.root)) for remote in missing}
        self.progress.begin(f"downloading {len(missing)} files", files_bytes(missing), sum(there.values()))
        crew = Crew(self.progress, MOST, grace_s=_GRACE_S)
        crew.run(
            lambda remote: self._fetch(remote, _Share(crew, there[remote.name]), crew.stop),
            missing,
            host=self._host,
            per_host=MOST_PER_HOST,
        )
        self.progress.end()

    def _host(self, remote: RemoteFile) -> str:
        """Return the host to try first; "" if there is none, in which case `fetch` raises."""
        with contextlib.suppress(DownloadError, TermsError):
            return host(self.addresses(remote)[0].url)
        return ""

    def _fetch(self, remote: RemoteFile, progress: Progress, stop: Stop | None = None) -> None:
        """Download a file unless it is there. If an optional one cannot be had, the records are made without it."""
        from recordzoo.net.download import fetch  # imports requests

        there = remote.path(self.root).exists()
        try:
            path = fetch(
                remote,
                self.root,
                dataset=self.recipe.dataset,
                mirror=self.options.mirror,
                check_hash=self.options.check_hash,
                accept_terms=self.options.accept_terms,
                progress=progress,
                stop=stop,
            )
        except DownloadError as err:
            if not remote.optional:
                raise
            reason = str(err).partition("\n")[0]
            progress.note(f"{remote.name} cannot be downloaded; the records are made without it. {reason}")
            return
        if not there:
            self.fetched.append(path)
            settings.remember_root(self.root)
            write_mark(path)

    def tidy(self) -> None:
        """Remove what interrupted downloads of files that are there now have left."""
        for remote in self.recipe.raw_files:
            tidy(remote.path(self.root))

    @contextlib.contextmanager
    def hashing(self, source: Source) -> Iterator[None]:
        """During the block, hash each archive that was not hashed while it was downloaded.

        A file without a published hash is hashed too: the manifest then tells which bytes were received.
        """
        known = {remote.path(self.root): remote for remote in self.recipe.raw_files if self.options.check_hash}
        self._remotes = {path: known.get(path) for path in source.archives}
        self.hashes, self.proven = {}, set()
        with contextlib.ExitStack() as stack:
            for path, remote in self._remotes.items():
                if remote is None:
                    continue
                size = path.stat().st_size
                if remote.size_bytes is not None and size != remote.size_bytes:
                    raise _mismatch(path, f"{remote.size_bytes:,} bytes", f"{size:,}")
                # A downloaded file may match either of two known hashes: which one is not recorded.
                if remote.hash is None or path not in self.fetched or remote.second_md5:
                    self.hashes[path] = stack.enter_context(closing(BackgroundHash(path, _expected(remote)[0])))
                    if remote.hash:
                        self.proven.add(path)
            yield

    def checked(self) -> list[RawFile]:
        """Wait for the hashes, compare them with the known ones, and return the manifest's entries for the archives."""
        return [self._checked(path, remote) for path, remote in self._remotes.items()]

    def _checked(self, path: Path, remote: RemoteFile | None) -> RawFile:
        size = path.stat().st_size
        if remote is None:
            return RawFile(path.name, size, None)
        algorithm, expected = _expected(remote)
        if path in self.hashes:
            found = self._hash_of(path, self.hashes[path], size)
            if expected not in (None, found) and not self._has_second_md5(path, remote, found, size):
                second = f" or md5 {remote.second_md5}" if remote.second_md5 else ""
                raise _mismatch(path, f"{algorithm} {expected}{second}", found)
            if remote.likely_md5 not in (None, found):
                logger.warning(
                    "%s has the MD5 %s, not %s. The file was kept and its records are made: that MD5 is known from a "
                    "single source. If the images are right, please report the file's MD5.",
                    path,
                    found,
                    remote.likely_md5,
                )
            expected = found
        return RawFile(path.name, size, f"{algorithm}:{expected}")

    def _has_second_md5(self, path: Path, remote: RemoteFile, found: str, size: int) -> bool:
        """Whether a file with another SHA-256 has the other known MD5; warn if so."""
        if remote.sha256 is None or remote.second_md5 is None:
            return False
        # Hash with SHA-256 again: the records hold the bytes of the first hash; the file may have changed since.
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(closing(BackgroundHash(path, name))) for name in ("md5", "sha256")]
            md5, sha256 = [self._hash_of(path, each, size) for each in running]
        if (md5, sha256) != (remote.second_md5, found):
            return False
        logger.warning("%s", other_sha256(path, found, remote.sha256, md5))
        return True

    def _hash_of(self, path: Path, running: BackgroundHash, size: int) -> str:
        """Wait for a hash, and report its progress."""
        done = running.position
        self.progress.begin(f"checking {path.name}", size, min(done, size))
        while not running.wait(_POLL_S):
            self.progress.advance(running.position - done)
            done = running.position
        self.progress.advance(size - done)
        found = running.hexdigest()
        self.progress.end()
        return found

    def discard(self) -> None:
        """Delete the downloads of the published records, if `discard_raw` is set.

        Only marked, unchanged files are deleted. A mark is a separate file, so that another process can finish the
        work. A kept file keeps its mark, for `recordzoo cache`; the mark of a replaced file is removed where possible.
        """
        for remote in self.recipe.raw_files:
            path = remote.path(self.root)
            try:
                if not (path.exists() and is_marked(path)):
                    with contextlib.suppress(OSError):  # a copy of the download, with its mark, may be read-only
                        remove(mark_path(path))
                elif self.options.discard_raw:
                    remove_marked(path)
            except FileNotFoundError:
                continue
            except OSError as err:
                raise PrepareError(f"{self.root}: a downloaded archive cannot be removed: {err.strerror}.") from err


class _Share:
    """Adds one download to the combined progress; see `Progress`.

    Args:
        crew: Reports the combined progress.
        counted_bytes: Bytes of this download that the combined progress has already counted.
    """

    def __init__(self, crew: Crew, counted_bytes: int) -> None:
        self._crew, self._position = crew, counted_bytes
        self._counts = False

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        """Count from `done_bytes`; bytes of an earlier run are already counted and are checked first."""
        self._counts = not stage.startswith(CHECKING)
        self.advance(done_bytes - self._position)

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        """See `Progress`."""
        counted = num_bytes if self._counts else 0
        self._position += counted
        self._crew.advance(counted)

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._crew.note(text)

    def end(self) -> None:
        """Do nothing: only the combined progress ends."""


def files_bytes(files: Iterable[RemoteFile]) -> int | None:
    """Add up the exact or approximate sizes of raw files; None if any size is unknown."""
    sizes = [file.expected_bytes for file in files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _there_bytes(path: Path) -> int:
    """Return the bytes of a raw file already downloaded: the whole file, or the part of it."""
    for there in (path, path.with_name(f"{path.name}.part")):
        if there.exists():
            return there.stat().st_size
    return 0


def mark_path(path: Path) -> Path:
    """Return the path of a raw file's mark."""
    return path.with_name(f".{path.name}.recordzoo")


def write_mark(path: Path) -> None:
    """Mark a downloaded raw file. Failures are ignored: a file without a mark is just kept."""
    with contextlib.suppress(OSError):  # the file itself may be gone by now
        remove(mark_path(path))  # it may be a link
        with open(mark_path(path), "x", encoding="utf-8", newline="") as file:
            file.write(_identity(path))


def is_marked(path: Path) -> bool:
    """Whether a raw file is still the file that recordzoo downloaded and marked."""
    return mark_path(path).read_text(encoding="utf-8", errors="replace") == _identity(path)


def remove_marked(path: Path) -> None:
    """Delete a raw file and its mark."""
    remove(path)
    remove(mark_path(path))


def _identity(path: Path) -> str:
    """Fingerprint a downloaded file, to detect a replacement."""
    status = path.stat()
    return f"downloaded by recordzoo: {status.st_size} {status.st_mtime_ns} {status.st_ino}\n"


def _expected(remote: RemoteFile) -> tuple[str, str | None]:
    """Return a file's hash algorithm and its published hash, or None."""
    return remote.hash or ("md5" if remote.likely_md5 else _RECORDED, None)


def _mismatch(path: Path, expected: str, found: str) -> HashMismatchError:
    return HashMismatchError(
        f"{path} is not the expected file: expected {expected}, found {found}. Nothing was published. "
        "Remove the file and download it again; if you re-packed it yourself, pass check_hash=False "
        "(--no-check-hash).",
        path=str(path),
        expected=expected,
        found=found,
    )


def near(root: Path, looked_for: Iterable[str]) -> str:
    """Say where raw data probably is that a recipe did not find; "" if nothing looks like it.

    Kaggle, unzip tools and colleagues leave datasets one folder too deep, or with their top folder as the root.

    Args:
        root: The directory in which it was not found.
        looked_for: The files and folders that were looked for, relative to it. Those that are patterns are ignored.
    """
    names = [name for name in dict.fromkeys(looked_for) if not re.search(r"[ *<|]", name)]
    wanted = [name for name in names if not os.path.isfile(root / name)]
    root, below = root.absolute(), list[Path]()
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        below += [root / entry.name for entry in itertools.islice(entries, _MOST) if is_folder(entry)]
    places = [(folder, wanted) for folder in sorted(below)]
    for depth, folder in enumerate(root.parents, 1):  # the given root may be a folder within the right one
        start = "".join(f"{part}/" for part in root.parts[-depth:])
        places.append((folder, [name for name in wanted if name.startswith(start)]))
    there = [(folder, [name for name in names if os.path.exists(folder / name)]) for folder, names in places]
    other, found = max(there, key=lambda each: len(each[1]), default=(root, []))
    if found:
        are = "is" if len(found) == 1 else "are"
        return f"{name_first(found, _NUM_SHOWN)} {are} in {other}: give that as the root."
    empty = [name for name in wanted if os.path.exists(root / name)]
    return f"{name_first(empty, _NUM_SHOWN)} is there, but lacks files that it should have." if empty else ""
