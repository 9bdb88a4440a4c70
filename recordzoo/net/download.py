"""Download a file, complete and verified: resumed after any interruption, from any host that has it.

docs/decisions/downloads.md lists the states of the file on disk. `part` holds them, this module moves between them,
`http` has one answer of a server.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import requests

from recordzoo.base import settings
from recordzoo.base.files import other_sha256
from recordzoo.base.process import crash_point
from recordzoo.base.progress import LogProgress, Progress, format_bytes, format_seconds
from recordzoo.base.text import Address
from recordzoo.errors import DiskSpaceError, DownloadError, HashMismatchError, PrepareError, SourceError
from recordzoo.net import http
from recordzoo.net.http import Answer, TryAgainError
from recordzoo.net.part import CHECKING, NO_ROOM, Part, Stop, partial_file, tidy
from recordzoo.net.url import RemoteFile, addresses, with_folder

logger = logging.getLogger("recordzoo")

_REPLACED = (
    "If the host replaced the file, a newer recordzoo may know it; check_hash=False (--no-check-hash) takes it as it "
    "is, without a check."
)


def fetch(
    remote: RemoteFile,
    root: Path,
    *,
    dataset: str,
    mirror: str | None = None,
    check_hash: bool = True,
    accept_terms: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Path:
    """Return the complete, verified local copy of a remote file; download or resume it if it is missing.

    An existing file is returned without being read. Any number of processes may call this at once.

    Args:
        remote: The file to fetch.
        root: The root folder; the file's own folder below it is created if needed.
        dataset: The file's folder at a mirror: ``<mirror>/<dataset>/<name>``.
        mirror: A base URL that is tried first; may contain a login. Default: ``RECORDZOO_MIRROR``, if set.
        check_hash: False accepts any size and content, for an archive that its host re-packed.
        accept_terms: Whether the user accepted the host's terms.
        progress: Shows the work. Default: log lines.
        stop: Lets another thread stop the download.

    Raises:
        TermsError: Only the official host has it and its terms are not accepted; the text says how to get it.
        DownloadError: No address has it, or ``RECORDZOO_OFFLINE`` is set. Received bytes are kept and resumed.
        StoppedError: `stop` was set. Received bytes are kept and resumed.
        HashMismatchError: An address sent another file; it is kept as ``<name>.bad-<hash>``.
        DiskSpaceError: The disk is full. Received bytes are kept and resumed.
        PrepareError: It could not be written for another reason.
    """
    target = remote.path(root)
    if target.exists():
        tidy(target)
        return target
    remote = with_folder(remote, root)
    found = addresses(remote, root, dataset=dataset, mirror=mirror, accept_terms=accept_terms)
    if settings.offline():
        raise DownloadError(
            f"{target} is not there and RECORDZOO_OFFLINE is set, so it is not downloaded from {found[0]}. Unset it, "
            f"or put the file there ({remote.facts}).",
            path=target,
        )
    if not check_hash:
        remote = replace(remote, size_bytes=None, md5=None, sha256=None)
    told = progress or LogProgress()
    sleep = time.sleep if stop is None else stop.sleep  # on Windows, Ctrl-C does not end the wait of a `Stop`
    with http.Session() as session, contextlib.ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            algorithm = remote.hash[0] if remote.hash else None
            part = stack.enter_context(partial_file(target, algorithm, told, sleep))
        except OSError as err:
            kind = DiskSpaceError if err.errno in NO_ROOM else PrepareError
            raise kind(
                f"{target} cannot be written: {err.strerror}. Make room or pass a root that may be written to; or put "
                "the file there by other means.",
                path=target,
            ) from err
        if part is not None:
            crash_point("download.claimed")
            _Transfer(remote, target, part, session, told, stop or Stop(), sleep).run(found)
    return target


@dataclass
class _Transfer:
    """The transfer of one file: what is known of it, its part, and the progress shown so far."""

    remote: RemoteFile
    target: Path
    part: Part
    session: requests.Session
    progress: Progress
    stop: Stop
    sleep: Callable[[float], None]
    _address: Address | None = None  # the last one from which bytes were received from the beginning
    _begun: Answer | None = None  # the answer that began the present bytes; None: unknown, or they are of several files
    _told: tuple[int | None, int] | None = None  # total and position that the progress shows

    def __post_init__(self) -> None:
        self._size = self.remote.size_bytes

    def run(self, addresses: Sequence[Address]) -> None:
        """Publish the file from the first address that has it."""
        part = self.part
        if part.size_bytes and self.remote.hash:
            self.progress.note(f"{self.target.name}: resuming after {format_bytes(part.size_bytes)}")
            self.progress.begin(f"{CHECKING} {self.target.name}", part.size_bytes)
            with self._writing():
                part.hash_present(self.progress.advance)
            self.progress.end()
        failures: list[SourceError] = []
        for address in addresses:
            try:
                self._obtain(address)
                break
            except SourceError as err:
                failures.append(err)
                if len(failures) < len(addresses):
                    logger.warning("%s Trying the next address.", err)
        else:
            raise self._summary(addresses, failures)
        crash_point("download.verified")
        with self._writing():
            part.publish(self.target)
        crash_point("download.published")
        self.progress.end()
        for failure in failures:  # wrong files of other hosts are useless once the right one is here
            if isinstance(failure, HashMismatchError) and failure.details.get("path"):
                failure.path.unlink(missing_ok=True)

    def _obtain(self, address: Address) -> None:
        """Receive all bytes and compare their hash; request a wrong file once more, bypassing caches."""
        try:
            self._receive(address)
            if self._is_expected():
                return
            self.part.start_over()
            what = "another hash"
        except HashMismatchError:  # the server announced another size; the present bytes may be right
            what = "another size"
        self.progress.note(f"{self.target.name}: what was received has {what} than expected; asking once more")
        self._receive(address, {"Cache-Control": "no-cache"})
        if not self._is_expected():
            raise self._mismatch(address)

    def _is_expected(self) -> bool:
        return self.remote.hash is None or self.part.hexdigest() == self.remote.hash[1] or self._has_md5()

    def _has_md5(self) -> bool:
        """Compute the MD5 of a file with another hash; return whether it is the accepted one."""
        if self.remote.second_md5 is None or self.remote.hash is None:
            return False
        name, algorithm = self.target.name, self.remote.hash[0]
        self.progress.note(f"{name} has another {algorithm} than expected; computing its MD5")
        with self._writing():
            is_same = self.part.hash_again("md5") == self.remote.second_md5
        if is_same:
            logger.warning("%s", other_sha256(name, self.part.hexdigest(), self.remote.hash[1], self.remote.second_md5))
        return is_same

    def _receive(self, address: Address, headers: dict[str, str] | None = None) -> None:
        """Request the bytes after the part's end until all are received."""
        part = self.part
        if self._size is not None and part.size_bytes > self._size:
            part.start_over()
        failed, from_zero = 0, False
        while self._size is None or part.size_bytes < self._size or part.size_bytes == 0:
            before = part.size_bytes, part.restarts
            try:
                self._attempt(address, dict(headers or {}), from_zero)
                break
            except TryAgainError as err:
                # Restarts are not progress: retries of a host that ignores Range and drops half-way would never end.
                came_further = part.size_bytes - err.slow_bytes > before[0] and part.restarts == before[1]
                failed = 0 if came_further else failed + 1
                from_zero = err.from_zero
                self._wait(address, err, failed)
        if self._told is None:  # an earlier process had received all bytes
            self._tell(part.size_bytes, part.size_bytes)
        crash_point("download.complete")

    def _attempt(self, address: Address, headers: dict[str, str], from_zero: bool) -> None:
        """Send one request and append its answer; return when the file is complete."""
        part = self.part
        begun = self._begun if self._address == address else None
        validator = "" if begun is None else begun.validator
        can_verify = bool(self.remote.hash or validator)  # else the present bytes may be of another file
        offset = part.size_bytes if can_verify and not from_zero else 0
        if offset:
            headers["Range"] = f"bytes={offset}-"
            headers |= {"If-Range": validator} if validator else {}
        with http.get(self.session, address, headers) as answer, self.stop.reading(answer.interrupt):
            if answer.status == 416:
                if offset and answer.total == offset and self._size is None:
                    return
                if None not in (self._size, answer.total) and answer.total != self._size:
                    raise self._size_error(address, f"{answer.total} bytes")
                raise TryAgainError("the server does not have the rest of what is there", wait_s=0, from_zero=True)
            _check_start(answer, offset, begun)
            total = self._check_content(answer, address)
            if not answer.start:
                part.start_over()
                self._address, self._begun = address, answer
            else:
                self._begun = begun
            self._tell(part.size_bytes, total)
            self._copy(answer, address, total)

    def _check_content(self, answer: Answer, address: Address) -> int | None:
        """Refuse a web page or a file of another size before the part changes; return the size, if known."""
        page = answer.page if answer.start == 0 else None
        if page is not None and not self.target.name.lower().endswith((".html", ".htm")):
            title = http.page_title(page)
            named = f"titled {title!r}" if title else "without a title"
            raise DownloadError(
                f"{address}: the server sent a web page {named} instead of {self.target.name} (a login, a quota or a "
                "network's sign-in page?). Nothing of it was kept. Open the address in a browser, or try a mirror "
                "(RECORDZOO_MIRROR)."
            )
        if self._size is not None and answer.total not in (None, self._size):
            raise self._size_error(address, f"{answer.total} bytes")
        return self._size if self._size is not None else answer.total

    def _copy(self, answer: Answer, address: Address, total: int | None) -> None:
        part = self.part
        while chunk := answer.read():
            if total is not None and part.size_bytes + len(chunk) > total:
                part.start_over()
                raise self._size_error(address, f"more than {total} bytes")
            with self._writing():
                part.write(chunk)
            self._tell(part.size_bytes, total)
            crash_point("download.received")
        if total is not None and part.size_bytes < total:
            raise TryAgainError(f"received {part.size_bytes} of {total} bytes, then the server stopped")

    def _wait(self, address: Address, err: TryAgainError, failed: int) -> None:
        """Pause before the next attempt; raise if there are no more attempts."""
        self.stop.check()
        kept = self.part.size_bytes
        fate = f"{format_bytes(kept)} are kept; the same command goes on from there" if kept else "Nothing was received"
        if kept and not self.remote.hash:
            fate = f"{format_bytes(kept)} were received; the same command starts over: no hash of the file is known"
        if failed >= http.ATTEMPTS:
            text = f"{address}: {err}; {http.ATTEMPTS} attempts in a row failed. {fate}."
            raise DownloadError(text, path=self.target) from err
        wait_s = err.wait_s
        if wait_s is None:
            wait_s = http.pause_s(failed)
        elif wait_s > http.RETRY_AFTER_CAP_S:
            raise DownloadError(
                f"{address}: {err} and asks to come back in {format_seconds(wait_s)}; recordzoo waits at most "
                f"{format_seconds(http.RETRY_AFTER_CAP_S)}. {fate}.",
                path=self.target,
            ) from err
        self.progress.note(f"{self.target.name}: {err}; trying again in {format_seconds(wait_s)}")
        self.sleep(wait_s)

    def _tell(self, position: int, total: int | None) -> None:
        """Move the progress to a position: it begins where the download resumes, and goes back if it restarts."""
        if self._told is None or self._told[0] != total:
            self.progress.begin(f"downloading {self.target.name}", total, position)
        elif position != self._told[1]:
            self.progress.advance(position - self._told[1])
        self._told = total, position

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Convert an error of the disk to one that says what is kept. Context manager."""
        try:
            yield
        except OSError as err:
            folder, have = self.target.parent, self.part.size_bytes
            if err.errno not in NO_ROOM:
                raise PrepareError(f"Cannot write {self.part.path}: {err}.", path=self.target) from err
            total = self._size if self._size is not None else (self._told or (None,))[0]
            missing = format_bytes(total - have) if total is not None else "an unknown rest"
            raise DiskSpaceError(
                f"No room left in {folder} for {self.target.name}: {format_bytes(have)} are there, {missing} still "
                f"missing ({err.strerror}). What is there is kept; make room and run the same command again.",
                path=folder,
                missing_bytes=None if total is None else total - have,
            ) from err

    def _size_error(self, address: Address, found: str) -> HashMismatchError:
        return HashMismatchError(
            f"{self.target.name}: expected {self._size} bytes, but {address} sends {found}; nothing of them was kept. "
            f"{_REPLACED}",
            url=address.url,
            expected=self._size,
        )

    def _mismatch(self, address: Address) -> HashMismatchError:
        algorithm, expected = self.remote.hash or ("", "")
        second = f" or md5 {self.remote.second_md5}" if self.remote.second_md5 else ""
        found, size = self.part.hexdigest(), self.part.size_bytes
        dated = f", of {self._begun.last_modified}" if self._begun and self._begun.last_modified else ""
        aside = self.target.with_name(f"{self.target.name}.bad-{found[:8]}")
        self.part.put_aside(aside)
        return HashMismatchError(
            f"{self.target.name} from {address} is not the expected file: expected {algorithm} {expected}{second}, "
            f"found {found} ({size} bytes{dated}). It is kept as {aside} for a look. If it was damaged on the way, "
            f"run the same command again. {_REPLACED}",
            url=address.url,
            path=aside,
            expected=expected,
            found=found,
        )

    def _summary(self, addresses: Sequence[Address], failures: Sequence[SourceError]) -> SourceError:
        """Combine the errors of all addresses into one; a wrong file tells more than a dead host."""
        text = "\n".join(map(str, failures))
        if len(failures) > 1:
            text = f"{self.target}: none of {len(failures)} addresses gave the file.\n{text}"
        for failure in failures:
            if isinstance(failure, HashMismatchError):
                return HashMismatchError(text, **failure.details)
        by_hand = (
            f"Or get {self.target.name} by other means ({addresses[-1]} in a browser, another machine) and put it into"
        )
        text = "\n".join([text, f"{by_hand} {self.target.parent}.", *filter(None, [self.remote.instructions])])
        return DownloadError(text, **failures[-1].details)


def _check_start(answer: Answer, offset: int, begun: Answer | None) -> None:
    """Refuse bytes that do not continue the part that `begun` began; an answer from offset 0 is always accepted."""
    if answer.start == 0:
        return
    if answer.start != offset:
        found = "from nobody knows where" if answer.start is None else f"from {answer.start}"
        raise TryAgainError(f"the server sent bytes {found} instead of {offset}", wait_s=0, from_zero=True)
    if begun is not None and begun.etag and answer.etag and begun.etag != answer.etag:
        raise TryAgainError("the file changed on the server", wait_s=0, from_zero=True)
