"""Find or download the raw data of one preparation, or explain what is missing."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recordzoo.base import durable, roots, settings
from recordzoo.base.addresses import Address, host
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import DownloadError, NotPreparedError, PrepareError, SourceError, TermsError
from recordzoo.net.crew import Stop
from recordzoo.net.download import RemoteFile, addresses
from recordzoo.net.partial import tidy
from recordzoo.preparing.downloads import Download, download_all, is_marked, mark_path, remove_marked, write_mark
from recordzoo.preparing.located import Located
from recordzoo.publish.space import check_space, volume
from recordzoo.raw.member import Source
from recordzoo.records.reader import is_record_set


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
        from recordzoo.net.transfer import fetch  # imports requests

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
