"""The parts of files that are being fetched, and the crew that fetches several at once.

`Part` is hashed while it grows; `partial_file` holds the part of a download under its lock: the states are in
docs/decisions/downloads.md.
"""

import contextlib
import errno
import hashlib
import os
import queue
import secrets
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from recordzoo.base.files import hash_text, is_own, move, new_hash, remove, rename, sync_directory
from recordzoo.base.process import Lock, NoLocksError, holder
from recordzoo.base.progress import Progress
from recordzoo.errors import ArgumentError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class HashedFile:
    """A file whose size and hash are known before it is fetched.

    Attributes:
        name: Its name, without a folder.
        size_bytes: Its size.
        hash: Its SHA-256, as the manifest has it.
    """

    name: str
    size_bytes: int
    hash: str


class Part:
    """The first bytes of a file, hashed while they are appended.

    Args:
        path: Created if it is missing.
        algorithm: The hash's name in hashlib; None for no hash.

    Attributes:
        size_bytes: Number of bytes present; always the first ones of the file.
        restarts: How often all bytes were dropped.
    """

    def __init__(self, path: Path, algorithm: str | None = "sha256") -> None:
        self.path = path
        self._algorithm = algorithm
        self._hash = new_hash(algorithm) if algorithm else None
        self._file = open(path, "ab+", buffering=0)  # noqa: SIM115 - lives as long as this object
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        self.restarts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the descriptor of the open file."""
        return self._file.fileno()

    def hash_present(self, advance: Callable[[int], None] = lambda num_bytes: None) -> None:
        """Hash the bytes of an earlier process; call once, before any `write`.

        Raises:
            OSError: They cannot be read.
        """
        if self._hash is not None:
            buffer = memoryview(bytearray(_READ_BYTES))
            with open(self.path, "rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    self._hash.update(buffer[:count])
                    advance(count)

    def hash_again(self, algorithm: str) -> str:
        """Read all present bytes and return another hash of them.

        Raises:
            OSError: As `hash_present`.
        """
        with open(self.path, "rb", buffering=0) as file:
            return hashlib.file_digest(file, lambda: new_hash(algorithm)).hexdigest()

    def close(self) -> None:
        """Close the file; its bytes stay."""
        self._file.close()

    def write(self, data: bytes) -> None:
        """Append bytes. If the disk refuses some, only those before them count as received.

        Raises:
            OSError: The disk is full or failed.
        """
        view = memoryview(data)
        while view:
            count = self._file.write(view)
            if self._hash is not None:
                self._hash.update(view[:count])
            self.size_bytes += count
            view = view[count:]

    def start_over(self) -> None:
        """Drop all bytes."""
        self.restarts += bool(self.size_bytes)
        self._file.truncate(0)
        self.size_bytes = 0
        self._hash = new_hash(self._algorithm) if self._algorithm else None

    def hexdigest(self) -> str:
        """Return the hash of all present bytes; "" if none is computed."""
        return self._hash.hexdigest() if self._hash is not None else ""

    def is_alone(self) -> bool:
        """Whether no other process wrote to the file: the hash would lack those bytes."""
        return os.fstat(self._file.fileno()).st_size == self.size_bytes

    def sync(self) -> None:
        """Sync the bytes to disk.

        Raises:
            OSError: The disk is full or failed, or another process wrote to the file. The bytes are dropped: after a
                failed fsync it is not known which of them are on the disk.
        """
        try:
            if not self.is_alone():
                raise OSError(errno.EIO, "another process wrote to it; run the same command again")
            os.fsync(self._file.fileno())
        except OSError:
            self.start_over()
            raise

    def publish(self, target: Path) -> None:
        """Give the file its final name, durably, unless another process has brought a file of that name.

        Raises:
            OSError: As `sync`.
        """
        if not target.exists():
            self.sync()
        self._file.close()  # Windows does not rename open files
        if not target.exists():
            with contextlib.suppress(FileExistsError):  # on Windows a rename never replaces
                rename(self.path, target)
                sync_directory(target.parent)
        remove(self.path)

    def put_aside(self, aside: Path) -> None:
        """Keep the bytes under another name, and continue with an empty part."""
        self._file.close()
        move(self.path, aside)
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as this object
        self.start_over()

    def complete(
        self,
        file: HashedFile,
        pieces: Callable[[int], Iterator[bytes]],
        advance: Callable[[int], None] = lambda num_bytes: None,
    ) -> bool:
        """Fetch the missing bytes and compare the hash of all.

        If the hash differs, all bytes are fetched once more: the part may have been damaged on disk, or a proxy may
        have sent an old copy.

        Args:
            file: Its size and hash.
            pieces: Yields its bytes in order, from a place on.
            advance: Called with the number of present or written bytes; negative when they are dropped.

        Returns:
            Whether the hash is right.
        """
        self.hash_present(advance)
        for _ in range(2):
            if self.size_bytes <= file.size_bytes:
                for piece in pieces(self.size_bytes):
                    self.write(piece)
                    advance(len(piece))
                if self._hash is not None and hash_text(self._hash) == file.hash and self.is_alone():
                    return True
            advance(-self.size_bytes)
            self.start_over()
        return False


WORKERS = 8
"""Default number of files at a time."""

_POLL_S = 0.5  # between two looks at a lock; a wait without a timeout would not end with Ctrl-C on Windows

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class StoppedError(Exception):
    """The work was stopped; received bytes are kept."""


class Stop:
    """Stops work in other threads. A wait or a read ends at once; a thread that connects ends when it is connected."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reading: list[Callable[[], None]] = []

    def set(self) -> None:
        """Stop the work."""
        self._event.set()
        with self._lock:
            for interrupt in self._reading:
                interrupt()

    def check(self) -> None:
        """Raise if the work was stopped.

        Raises:
            StoppedError: `set` was called.
        """
        if self._event.is_set():
            raise StoppedError

    def sleep(self, seconds: float) -> None:
        """Sleep, at most until `set` is called.

        Raises:
            StoppedError: `set` was called.
        """
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def reading(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Let `set` call `interrupt` while the block reads from a server.

        Raises:
            StoppedError: `set` was called before.
        """
        with self._lock:
            self.check()
            self._reading.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._reading.remove(interrupt)


class Crew:
    """Works on several items at a time. Only the thread that calls `run` uses the progress.

    Args:
        progress: Shows all items together.
        workers: Number of items at a time.
        grace_s: Seconds that an error waits for each other thread. Default: until it ends, so that none of them
            writes after `run`.

    Raises:
        ArgumentError: `workers` is less than 1.

    Attributes:
        stop: Set when the work must end; for calls that wait or read.
    """

    def __init__(self, progress: Progress, workers: int = WORKERS, *, grace_s: float | None = None) -> None:
        if workers < 1:
            raise ArgumentError(f"Argument workers is {workers}; it must be at least 1.")
        self.stop = Stop()
        self._progress, self._workers, self._grace_s = progress, workers, grace_s
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def advance(self, num_bytes: int = 0) -> None:
        """Add bytes to the progress, from any thread.

        Raises:
            StoppedError: The work was stopped.
        """
        self.stop.check()
        if num_bytes:
            self._events.put(lambda: self._progress.advance(num_bytes))

    def note(self, text: str) -> None:
        """Show a message once, from any thread.

        Raises:
            StoppedError: The work was stopped.
        """
        self.stop.check()
        self._events.put(lambda: self._progress.note(text))

    def run(
        self,
        function: Callable[[_Item], _Result],
        items: Iterable[_Item],
        *,
        host: Callable[[_Item], str] = lambda item: "",
        per_host: int | None = None,
    ) -> list[_Result]:
        """Call a function for each item, several at a time.

        Args:
            function: Called in a thread of its own.
            items: The items, in the order in which they are started.
            host: Returns the host of an item.
            per_host: Number of items of one host at a time. Default: `workers`.

        Returns:
            The results in the order of the items.

        Raises:
            BaseException: The first error of a call or of the progress, or Ctrl-C. The other calls are stopped.
        """
        waiting, results, failures = list(enumerate(items)), dict[int, _Result](), list[BaseException]()
        active, threads = Counter[str](), list[threading.Thread]()

        def work(number: int, item: _Item) -> None:
            try:
                results[number] = function(item)
            except BaseException as err:  # noqa: BLE001 - raised in the waiting thread
                failures.append(err)
            self._events.put(lambda: active.subtract([host(item)]))

        try:
            while waiting or active.total():
                for each in list(waiting):
                    name = host(each[1])
                    if active.total() < self._workers and active[name] < (per_host or self._workers):
                        waiting.remove(each)
                        active[name] += 1
                        # A daemon: a thread that connects cannot be stopped, and must not keep the process alive.
                        threads.append(threading.Thread(target=work, args=each, name="recordzoo-crew", daemon=True))
                        threads[-1].start()
                with contextlib.suppress(queue.Empty):
                    self._events.get(timeout=_POLL_S)()
                if failures:
                    raise failures[0]
        except BaseException:
            self.stop.set()
            for thread in threads:
                thread.join(self._grace_s)
            raise
        return [results[number] for number in sorted(results)]


CHECKING = "checking what is there of"
"""Prefix of the name of the stage that reads an earlier run's bytes."""


@contextlib.contextmanager
def partial_file(
    target: Path, algorithm: str | None, progress: Progress, sleep: Callable[[float], None]
) -> Iterator[Part | None]:
    """Hold the part of a download: its lock keeps other processes out. However the block ends, received bytes are kept.

    Where locks do not work, or another user left a part, the bytes go into a file of this process, which is removed if
    the block does not publish it.

    Args:
        target: The final name.
        algorithm: The hash's name in hashlib; None for no hash.
        progress: Shows which process this one waits for.
        sleep: Waits so many seconds, or raises.

    Yields:
        The part; None if another process has published the file.

    Raises:
        OSError: The disk is full, failed or read-only.
    """
    path = target.with_name(f"{target.name}.part")
    own = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
    lock = Lock(lock_path(target))
    try:
        _wait(lock, target, progress, sleep)
    except NoLocksError:
        with contextlib.suppress(OSError):  # nobody can hold it
            lock.path.unlink()
    except PermissionError:  # another user's
        pass
    try:
        if target.exists():
            yield None
            return
        part = Part(path if lock.is_mine and is_usable(path) else own, algorithm)
        try:
            yield part
        finally:
            with contextlib.suppress(OSError):  # the block's own error matters more
                part.close()
                if part.path == own or not part.path.stat().st_size:  # Ctrl-C may come before it is counted
                    remove(part.path)
    finally:
        if lock.is_mine:
            lock.delete()


def is_usable(path: Path) -> bool:
    """Whether a part can be continued: it is a file that this user may write to and rename."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    may_rename = not path.parent.stat().st_mode & stat.S_ISVTX or is_own(status)
    return stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK | os.W_OK) and may_rename


def _wait(lock: Lock, target: Path, progress: Progress, sleep: Callable[[float], None]) -> None:
    """Wait until this process holds the lock, or the file is there."""
    has_said = False
    while not target.exists() and not lock.try_acquire():
        if not has_said:
            progress.note(f"Waiting for {holder(lock.path)}, which downloads {target}.")
            has_said = True
        sleep(_POLL_S)


def tidy(target: Path) -> None:
    """Remove what a process left that was killed after it had published the file."""
    if lock_path(target).exists():
        lock = Lock(lock_path(target))
        with contextlib.suppress(OSError, NoLocksError):
            if lock.try_acquire():
                lock.delete()


def lock_path(target: Path) -> Path:
    """Return the lock file of a download."""
    return target.with_name(f"{target.name}.part.lock")
