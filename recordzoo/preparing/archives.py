"""Hash the archives of one preparation while they are converted; compare with the known hashes."""

import logging
from pathlib import Path
from typing import Self

from recordzoo.base.hashing import BackgroundHash, other_sha256
from recordzoo.errors import HashMismatchError
from recordzoo.net.download import RemoteFile
from recordzoo.preparing.raw import RawData
from recordzoo.raw.member import Source
from recordzoo.records.manifest import RawFile

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
