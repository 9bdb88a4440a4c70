"""Find or download the raw data of one preparation, or explain what is missing."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from recordzoo.base import durable, settings
from recordzoo.base import settings as roots
from recordzoo.base.files import BackgroundHash, other_sha256
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.base.text import Address, host
from recordzoo.errors import DownloadError, HashMismatchError, NotPreparedError, PrepareError, SourceError, TermsError
from recordzoo.net.download import RemoteFile, addresses
from recordzoo.net.part import CHECKING, Crew, Stop, tidy
from recordzoo.preparing.located import Located
from recordzoo.preparing.space import check_space, volume
from recordzoo.raw.member import Source
from recordzoo.records.manifest import RawFile
from recordzoo.records.reader import is_record_set

MOST = 4
"""Maximum number of parallel downloads."""

MOST_PER_HOST = 2
"""Maximum number of parallel downloads per host: more would be impolite, and some hosts refuse them."""

_GRACE_S = 5.0
"""Time that an error waits for the other downloads to stop. A connecting download stops later by itself."""


@dataclass(frozen=True)
class Download:
    """A file to download.

    Attributes:
        remote: The raw file.
        host: The host to try first.
        there_bytes: Bytes already present.
    """

    remote: RemoteFile
    host: str
    there_bytes: int


def download_all(
    wanted: Sequence[Download],
    fetch: Callable[[RemoteFile, Progress, Stop], Path],
    ended: Callable[[RemoteFile, Path | BaseException], None],
    progress: Progress,
) -> None:
    """Download several files at once.

    Args:
        fetch: Downloads one, in a thread of its own.
        ended: Called for each file with its path or its error; an exception from it stops the other downloads.
        progress: Receives the combined progress.

    Raises:
        BaseException: The first error of `ended` or `progress`, or Ctrl-C. The other downloads have stopped; their
            partial files are kept.
    """
    sizes = [each.remote.expected_bytes for each in wanted]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    progress.begin(f"downloading {len(wanted)} files", total, sum(each.there_bytes for each in wanted))
    crew = Crew(progress, MOST, grace_s=_GRACE_S)
    crew.run(
        lambda each: fetch(each.remote, _Share(crew, each.there_bytes), crew.stop),
        wanted,
        ended=lambda each, result: ended(each.remote, result),
        host=lambda each: each.host,
        per_host=MOST_PER_HOST,
    )
    progress.end()


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


def mark_path(path: Path) -> Path:
    """Return the path of a raw file's mark."""
    return path.with_name(f".{path.name}.recordzoo")


def write_mark(path: Path) -> None:
    """Mark a downloaded raw file. Failures are ignored: a file without a mark is just kept."""
    with contextlib.suppress(OSError):  # the file itself may be gone by now
        durable.write_text_here(mark_path(path), _identity(path))


def is_marked(path: Path) -> bool:
    """Whether a raw file is still the file that recordzoo downloaded and marked."""
    return mark_path(path).read_text(encoding="utf-8", errors="replace") == _identity(path)


def remove_marked(path: Path) -> None:
    """Delete a raw file and its mark."""
    durable.remove(path)
    durable.remove(mark_path(path))


def _identity(path: Path) -> str:
    """Fingerprint a downloaded file, to detect a replacement."""
    status = path.stat()
    return f"downloaded by recordzoo: {status.st_size} {status.st_mtime_ns} {status.st_ino}\n"


@dataclass
class RawData:
    """Finds or downloads a recipe's raw data, and remembers the downloads.

    Attributes:
        located: The record set to prepare.
        download: Download missing raw data. None: no, and errors do not suggest it, because the caller has no such
            argument.
        fetched: Archives downloaded, and therefore already hashed, by this preparation.
    """

    located: Located
    download: bool | None
    fetched: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recipe, self.root, self.options = self.located.recipe, self.located.root, self.located.options
        self.progress = self.located.progress

    @property
    def title(self) -> str:
        """The dataset's name in messages."""
        return self.recipe.title(self.root)

    def find(self) -> Source:
        """Find the raw data, or download it.

        Raises:
            NotPreparedError: There is no raw data and no permission to download it, or it may not be converted without
                being asked.
            SourceError: Part of the raw data is missing, or cannot be downloaded.
        """
        if self.download and self._is_forbidden:
            raise self._forbidden()
        source = self._found()
        if source is None and self.download:
            source = self._downloaded()
        if source is None:
            raise NotPreparedError(f"{self._missing()} {self._how_to_get()}".strip(), root=str(self.root))
        self._check_size(source)
        for remote in self.recipe.raw_files:
            tidy(remote.path(self.root))
        return source

    def check(self) -> None:
        """Raise the errors of `find`, without a download; called before a directory is created."""
        if not self.download or self._is_forbidden:
            self.find()
        elif self._found() is None:
            check_addresses(self.located)

    def _found(self) -> Source | None:
        """Find the raw data; None if there is none, or if missing files may be downloaded."""
        try:
            return self.located.source()
        except SourceError:
            if not self.download or not self.recipe.raw_files:
                raise
            return None

    def _downloaded(self) -> Source | None:
        """Download missing files, then find the raw data."""
        if not self.recipe.raw_files:
            looked = ", ".join(self.recipe.looked_for(self.root))
            raise NotPreparedError(
                f"{self.title}: no raw data in {self.root} (looked for {looked}). It cannot be downloaded: pass the "
                "path of data that you have.",
                root=str(self.root),
            )
        check_addresses(self.located)
        self._check_room()
        missing = [remote for remote in self.recipe.raw_files if not remote.path(self.root).exists()]
        self.progress.note(stages(missing, checked=self.options.check_hash))
        self._fetch_all(missing)
        return self.located.source()

    def _missing(self) -> str:
        looked = [self.located.target.name, *self.recipe.looked_for(self.root)]
        return f"{self.title}: no records and no raw data in {self.root} (looked for {', '.join(looked)})."

    def _how_to_get(self) -> str:
        """Describe how to get the raw data, by a command or by hand."""
        if not self.recipe.raw_files:
            return ""
        try:
            check_addresses(self.located)
        except (DownloadError, TermsError) as err:
            return str(err)
        command = self.recipe.command(self.root)
        return f"Run: {command}" if self.download is None else f"Pass download=True, or run: {command}"

    def _check_size(self, source: Source) -> None:
        """Refuse to convert large raw data without being asked, or anything with prepare=False."""
        if self._is_forbidden:
            raise self._forbidden()
        if self.options.prepare or self.download or self.located.refresh:
            return
        if source.size_bytes > settings.auto_prepare_bytes():
            raise NotPreparedError(
                f"{self.title}: {source.description} ({format_bytes(source.size_bytes)}) is not converted "
                f"unasked: it is more than {format_bytes(settings.auto_prepare_bytes())} "
                f"(RECORDZOO_AUTO_PREPARE_GB). {self._command}"
            )

    @property
    def _is_forbidden(self) -> bool:
        return self.options.prepare is False

    def _forbidden(self) -> NotPreparedError:
        target = self.located.target
        is_there = is_record_set(target)
        what = f"{target} is not made again, for prepare=False" if is_there else f"no records at {target}"
        return NotPreparedError(f"{self.title}: {what}. {self._command}", root=str(self.root))

    @property
    def _command(self) -> str:
        return f"Run: {self.recipe.command(self.root)} (or pass prepare=True)"

    def _check_room(self) -> None:
        """Check, before the download, for enough space for missing files and records.

        A note names files of unknown size, which are not counted.
        """
        files = [(remote, remote.path(self.root)) for remote in self.recipe.raw_files]
        unknown = [remote.name for remote, path in files if remote.expected_bytes is None and not path.exists()]
        if unknown:
            self.progress.note(f"Whether there is room for {', '.join(unknown)} is not checked: the size is not known.")
        sizes = [path.stat().st_size if path.is_file() else remote.expected_bytes or 0 for remote, path in files]
        missing, records = missing_bytes(self.located), self.recipe.records_bytes(sum(sizes))
        if volume(self.root) == volume(self.located.target):
            check_space(self.root, missing + records)
        else:
            check_space(self.root, missing)
            check_space(self.located.target.parent, records)

    def _fetch_all(self, missing: Sequence[RemoteFile]) -> None:
        """Download missing files: one in this thread, several in one thread each."""
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
        """Return the host to try first; "" if there is none, in which case `fetch` raises."""
        with contextlib.suppress(DownloadError, TermsError):
            return host(addresses_of(remote, self.located)[0].url)
        return ""

    def _fetch(self, remote: RemoteFile, progress: Progress, stop: Stop | None = None) -> Path:
        from recordzoo.net.download import fetch  # imports requests

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
        """Record a download's result. If an optional file failed, the records are made without it."""
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
        """Delete the downloads of the published records, if `discard_raw` is set.

        Only marked, unchanged files are deleted. A mark is a separate file, so that another process can finish the
        work. A kept file keeps its mark, for `recordzoo cache`; the mark of a replaced file is removed.
        """
        for remote in self.recipe.raw_files:
            path = remote.path(self.root)
            try:
                if not (path.exists() and is_marked(path)):
                    durable.remove(mark_path(path))
                elif self.options.discard_raw:
                    remove_marked(path)
            except FileNotFoundError:
                continue
            except OSError as err:
                raise PrepareError(f"{self.root}: a downloaded archive cannot be removed: {err.strerror}.") from err


def stages(missing: Sequence[RemoteFile] = (), *, checked: bool) -> str:
    """Name the stages of a preparation, before the first one.

    Args:
        missing: The files that are downloaded.
        checked: Whether hashes of archives are compared.
    """
    size = files_bytes(missing)
    download = [f"download ({'size not known' if size is None else format_bytes(size)})"] if missing else []
    check = ["check"] if checked else []
    return "Stages: " + ", ".join([*download, *check, "convert", "read back", "publish"])


def files_bytes(files: Iterable[RemoteFile]) -> int | None:
    """Add up the exact or approximate sizes of raw files; None if any size is unknown."""
    sizes = [file.expected_bytes for file in files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def check_addresses(located: Located) -> None:
    """Check that each missing required raw file has an address to download it from.

    Raises:
        TermsError: The host's terms were not accepted; the text gives the remedy.
        DownloadError: There is no address.
    """
    for remote in located.recipe.raw_files:
        if not remote.optional and not remote.path(located.root).exists():
            addresses_of(remote, located)


def addresses_of(remote: RemoteFile, located: Located) -> list[Address]:
    """Return the addresses of a raw file, in the order of attempts."""
    dataset, options = located.recipe.dataset, located.options
    return addresses(remote, located.root, dataset=dataset, mirror=options.mirror, accept_terms=options.accept_terms)


def missing_bytes(located: Located) -> int:
    """Add up the bytes still to be downloaded, except files of unknown size."""
    paths = {remote.path(located.root): remote.expected_bytes or 0 for remote in located.recipe.raw_files}
    return sum(max(0, size - there_bytes(path)) for path, size in paths.items() if not path.exists())


def there_bytes(path: Path) -> int:
    """Return the bytes of a raw file already downloaded: the whole file, or the part of it."""
    for there in (path, path.with_name(f"{path.name}.part")):
        if there.exists():
            return there.stat().st_size
    return 0


logger = logging.getLogger("recordzoo")

_POLL_S = 0.2

_RECORDED = "sha256"
"""Hash of raw files without a published hash."""


class Archives:
    """The archives of a source; none for a tree. The context manager starts the hashes and stops them on exit.

    Args:
        source: The raw data.
        raw: The search that found or downloaded it.

    Attributes:
        are_checked: Whether any archive is hashed.
        hashes: The running hashes.
        proven: Archives whose hash is compared with a published one.
    """

    def __init__(self, source: Source, raw: RawData) -> None:
        known = {remote.path(raw.root): remote for remote in raw.recipe.raw_files}
        paths: tuple[Path, ...] = getattr(source, "archives", ())
        self._remotes = {path: known.get(path) for path in paths}
        self._progress, self._fetched = raw.progress, raw.fetched
        self._check_hash = raw.options.check_hash
        self.are_checked = self._check_hash and any(self._remotes.values())
        self.hashes: dict[Path, BackgroundHash] = {}
        self.proven: frozenset[Path] = frozenset()

    def __enter__(self) -> Self:
        """Start the hash of each archive that was not hashed while it was downloaded.

        A file without a published hash is hashed too: the manifest then tells which bytes were received.
        """
        wanted = {}
        for path, remote in self._remotes.items():
            if remote is None or not self._check_hash:
                continue
            size = path.stat().st_size
            if remote.size_bytes is not None and size != remote.size_bytes:
                raise _mismatch(path, f"{remote.size_bytes:,} bytes", f"{size:,}")
            # A downloaded file may match either of two known hashes: which one is not recorded.
            if remote.hash is None or path not in self._fetched or remote.second_md5:
                wanted[path] = _expected(remote)[0]
        self.proven = frozenset(path for path in wanted if (remote := self._remotes[path]) and remote.hash)
        self.hashes = {path: BackgroundHash(path, algorithm) for path, algorithm in wanted.items()}
        return self

    def __exit__(self, *error: object) -> None:
        for each in self.hashes.values():
            each.close()

    def checked(self) -> list[RawFile]:
        """Wait for the hashes, compare them with the known ones, and return the manifest's entries for the archives."""
        return [self._checked(path, remote) for path, remote in self._remotes.items()]

    def _checked(self, path: Path, remote: RemoteFile | None) -> RawFile:
        size = path.stat().st_size
        if remote is None or not self._check_hash:
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
        """Wait for a hash, and report its progress."""
        done = running.position
        self._progress.begin(f"checking {path.name}", size, min(done, size))
        while not running.wait(_POLL_S):
            self._progress.advance(running.position - done)
            done = running.position
        self._progress.advance(size - done)
        found = running.hexdigest()
        self._progress.end()
        return found


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
