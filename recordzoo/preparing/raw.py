"""Raw data of one preparation: found or downloaded, and its archives' hashes compared."""

import contextlib
import glob
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo import durable, roots
from recordzoo.addresses import Address, host
from recordzoo.errors import DownloadError, HashMismatchError, NotPreparedError, SourceError, TermsError
from recordzoo.hashing import BackgroundHash, other_sha256
from recordzoo.net.crew import Stop
from recordzoo.preparing.download_mark import is_marked, mark_path, remove_marked, write_mark
from recordzoo.preparing.downloads import Download, download_all
from recordzoo.preparing.estimates import files_bytes, records_bytes
from recordzoo.preparing.located import Located
from recordzoo.preparing.options import Options
from recordzoo.progress import Progress, format_bytes
from recordzoo.publish.space import check_space, volume
from recordzoo.recipes.base import Recipe
from recordzoo.records.manifest import RawFile
from recordzoo.sources.download import RemoteFile, addresses, fetch
from recordzoo.sources.member import Source

logger = logging.getLogger("recordzoo")

_POLL_S = 0.2

_RECORDED = "sha256"
"""Hash of raw files of which no hash is published."""


@dataclass
class RawData:
    """Finds and fetches what a recipe needs, and remembers what it fetched.

    Attributes:
        fetched: Archives that this preparation downloaded, and that were therefore hashed already.
    """

    located: Located
    download: bool
    fetched: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recipe, self.root, self.options = self.located.recipe, self.located.root, self.located.options
        self.progress = self.located.progress

    def find(self) -> Source | None:
        """Find the raw data, or download it; None if there is none and it may not be downloaded.

        Raises:
            SourceError: Something of it is missing, or cannot be had.
        """
        try:
            source = self.located.source()
        except SourceError:
            if not self.download or not self.recipe.raw_files:
                raise
            source = None  # something of it is missing; it is fetched now
        if source is None and self.download:
            if not self.recipe.raw_files:
                name = self.recipe.title(self.root)
                looked = ", ".join(self.recipe.looked_for(self.root))
                raise NotPreparedError(
                    f"{name}: no raw data in {self.root} (looked for {looked}). It cannot be downloaded: pass the path "
                    "of data that you have.",
                    root=str(self.root),
                )
            self._ask_for_terms()
            self._check_room()
            missing = [remote for remote in self.recipe.raw_files if not remote.path(self.root).exists()]
            self.progress.note(stages(missing, checked=self.options.check_hash))
            self._fetch_all(missing)
            source = self.located.source()
        return source

    def check_terms(self) -> None:
        """Look, before a directory is made for it, whether what is missing may be downloaded.

        Raises:
            TermsError: As `find`.
        """
        source = None
        with contextlib.suppress(SourceError):  # something of it is missing
            source = self.located.source()
        if source is None:
            self._ask_for_terms()

    def _ask_for_terms(self) -> None:
        """Ask, before anything else, whether all that is missing may be downloaded."""
        check_addresses(self.recipe, self.root, self.options)

    def _check_room(self) -> None:
        """Ask, before the first byte, for room for what is still to be downloaded and for the records.

        A file whose size is not known is not counted, and that is said.
        """
        paths = {remote.path(self.root): remote for remote in self.recipe.raw_files}
        sizes = {
            path: path.stat().st_size if path.is_file() else remote.expected_bytes or 0
            for path, remote in paths.items()
        }
        unknown = [remote for remote in self.recipe.raw_files if remote.expected_bytes is None]
        if absent := [remote.name for remote in unknown if not remote.path(self.root).exists()]:
            self.progress.note(f"Whether there is room for {', '.join(absent)} is not checked: the size is not known.")
        missing = sum(max(0, size - there_bytes(path)) for path, size in sizes.items())
        records = records_bytes(self.recipe, sum(sizes.values()))
        if volume(self.root) == volume(self.located.target):
            check_space(self.root, missing + records)
        else:
            check_space(self.root, missing)
            check_space(self.located.target.parent, records)

    def _fetch_all(self, missing: Sequence[RemoteFile]) -> None:
        """Download what is missing: one file in this thread, several in one each."""
        if len(missing) > 1:
            wanted = [Download(each, self._host(each), there_bytes(each.path(self.root))) for each in missing]
            download_all(wanted, self._fetch, self._fetched, self.progress)
            return
        for remote in missing:
            try:
                self._fetched(remote, self._fetch(remote, self.progress))
            except DownloadError as err:
                self._fetched(remote, err)

    def _host(self, remote: RemoteFile) -> str:
        """Return whom a file is asked of first; "" if that is nobody, which `fetch` then says."""
        with contextlib.suppress(DownloadError, TermsError):
            return host(_addresses(remote, self.recipe, self.root, self.options)[0].url)
        return ""

    def _fetch(self, remote: RemoteFile, progress: Progress, stop: Stop | None = None) -> Path:
        there = remote.path(self.root).exists()
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
        if not there:
            self.fetched.append(path)
        return path

    def _fetched(self, remote: RemoteFile, result: Path | BaseException) -> None:
        """Note what was downloaded; without an optional file records are made, too."""
        if isinstance(result, Path):
            if result in self.fetched:
                roots.remember(self.root)
                write_mark(result)
            return
        if not (remote.optional and isinstance(result, DownloadError)):
            raise result
        reason = str(result).partition("\n")[0]
        self.progress.note(f"{remote.name} cannot be downloaded; the records are made without it. {reason}")

    def discard_raw(self) -> None:
        """Delete, now that the records are published, what was downloaded for them, if `discard_raw` is given.

        Only what carries our mark is deleted, and only if it is still the same file. The mark is a file beside it, so
        that the process which ends the work need not be the one that began it. Of a file that is kept the mark stays,
        for `recordzoo cache`; the mark of a file that was replaced is removed.
        """
        for remote in self.recipe.raw_files:
            path = remote.path(self.root)
            with contextlib.suppress(FileNotFoundError):
                if not (path.exists() and is_marked(path)):
                    durable.remove(mark_path(path))
                elif self.options.discard_raw:
                    remove_marked(path)

    def is_checked(self, source: Source) -> bool:
        """Whether archives of a source are hashed beside the conversion."""
        return self.options.check_hash and any(remote is not None for remote in self.archives(source).values())

    def archives(self, source: Source) -> dict[Path, RemoteFile | None]:
        """Return the archives of a source, each with what is known of it; none for a tree."""
        known = {remote.path(self.root): remote for remote in self.recipe.raw_files}
        paths: Sequence[Path] = getattr(source, "archives", ())
        return {path: known.get(path) for path in paths}

    def start_hashes(self, archives: dict[Path, RemoteFile | None]) -> dict[Path, BackgroundHash]:
        """Begin to hash, beside the conversion, what was not hashed while it was downloaded.

        A file whose hash is published nowhere is hashed too: the manifest then tells which bytes were received.

        Raises:
            HashMismatchError: An archive has not even the right size.
        """
        wanted = []
        for path, remote in archives.items():
            if remote is None or not self.options.check_hash:
                continue
            size = path.stat().st_size
            if remote.size_bytes is not None and size != remote.size_bytes:
                raise _mismatch(path, f"{remote.size_bytes:,} bytes", f"{size:,}")
            if remote.hash is None:
                wanted.append((path, "md5" if remote.likely_md5 else _RECORDED))
            elif path not in self.fetched or remote.second_md5:  # which of the two a fetched file has is not known here
                wanted.append((path, remote.hash[0]))
        return {path: BackgroundHash(path, algorithm) for path, algorithm in wanted}

    def checked(self, path: Path, remote: RemoteFile | None, running: BackgroundHash | None) -> RawFile:
        """Wait for an archive's hash, compare it if one is known, and return what the manifest says of the archive.

        Raises:
            HashMismatchError: It has another hash than the expected one.
        """
        size = path.stat().st_size
        if remote is None or not self.options.check_hash:
            return RawFile(path.name, size, None)
        algorithm, expected = remote.hash or ("md5" if remote.likely_md5 else _RECORDED, None)
        if running is not None:
            found = self._hash_of(path, running, size)
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
        """Whether a file of another SHA-256 has the MD5 that it may have instead; warn if so."""
        if remote.sha256 is None or remote.second_md5 is None:
            return False
        # The SHA-256 again: records were made of the bytes that had it, and the file may have changed since.
        running = [BackgroundHash(path, algorithm) for algorithm in ("md5", "sha256")]
        try:
            md5, sha256 = [self._hash_of(path, each, size) for each in running]
        finally:
            for each in running:
                each.close()
        if (md5, sha256) != (remote.second_md5, found):
            return False
        logger.warning("%s", other_sha256(path, found, remote.sha256, md5))
        return True

    def _hash_of(self, path: Path, running: BackgroundHash, size: int) -> str:
        """Wait for a hash, and tell how far it is."""
        done = running.position
        self.progress.begin(f"checking {path.name}", size, min(done, size))
        while not running.wait(_POLL_S):
            self.progress.advance(running.position - done)
            done = running.position
        self.progress.advance(size - done)
        found = running.hexdigest()
        self.progress.end()
        return found


def stages(missing: Sequence[RemoteFile] = (), *, checked: bool) -> str:
    """Name the stages that a preparation will have, before the first of them.

    Args:
        missing: The files that are downloaded.
        checked: Whether hashes of archives are compared.
    """
    download = [f"download ({_size(files_bytes(missing))})"] if missing else []
    check = ["check"] if checked else []
    return "Stages: " + ", ".join([*download, *check, "convert", "read back", "publish"])


def _size(num_bytes: int | None) -> str:
    return "size not known" if num_bytes is None else format_bytes(num_bytes)


def check_addresses(recipe: Recipe, root: Path, options: Options) -> None:
    """Check that each raw file that is missing, and necessary, may be downloaded from somewhere.

    Raises:
        TermsError: Its host's terms were not accepted; the text says what to do.
        DownloadError: There is no address.
    """
    for remote in recipe.raw_files:
        if not remote.optional and not remote.path(root).exists():
            _addresses(remote, recipe, root, options)


def _addresses(remote: RemoteFile, recipe: Recipe, root: Path, options: Options) -> list[Address]:
    return addresses(remote, root, dataset=recipe.dataset, mirror=options.mirror, accept_terms=options.accept_terms)


def there_bytes(path: Path) -> int:
    """Return how many bytes of a raw file need not be downloaded: all of it, or the longest interrupted download."""
    if path.exists():
        return path.stat().st_size
    parts = path.parent.glob(f"{glob.escape(path.name)}.part*")
    return max((part.stat().st_size for part in parts if part.suffix != ".json"), default=0)


def _mismatch(path: Path, expected: str, found: str) -> HashMismatchError:
    return HashMismatchError(
        f"{path} is not the expected file: expected {expected}, found {found}. Nothing was published. "
        "Remove the file and download it again; if you re-packed it yourself, pass check_hash=False "
        "(--no-check-hash).",
        path=str(path),
        expected=expected,
        found=found,
    )
