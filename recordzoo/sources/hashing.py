"""Hashes of raw files: of a whole file at once, or in a thread beside other work on the same file."""

import hashlib
import threading
from pathlib import Path

from recordzoo.errors import ArgumentError, SourceError
from recordzoo.progress import Progress

_CHUNK_BYTES = 4 << 20
"""Large enough that the interpreter lock, which hashlib and reads let go of, is rarely asked for."""


def new_hash(algorithm: str) -> "hashlib._Hash":
    """Start a hash by hashlib's name of it ("md5", "sha256", "blake2b").

    Raises:
        ArgumentError: hashlib has no such algorithm.
    """
    try:
        # Not for security: machines in FIPS mode refuse MD5 otherwise, and half of the published hashes are MD5.
        return hashlib.new(algorithm, usedforsecurity=False)
    except ValueError as err:
        known = ", ".join(sorted(hashlib.algorithms_guaranteed))
        raise ArgumentError(f"Unknown hash algorithm {algorithm!r}; it must be one of {known}.") from err


def hash_file(path: Path, algorithm: str, progress: Progress | None = None) -> str:
    """Hash a whole file.

    Returns:
        The digest in lower-case hexadecimal.

    Raises:
        ArgumentError: hashlib has no such algorithm.
        OSError: The file cannot be read.
    """
    digest = new_hash(algorithm)
    with open(path, "rb", buffering=0) as file:
        if progress:
            progress.begin(f"checking {path.name}", path.stat().st_size)
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
            if progress:
                progress.advance(count)
    if progress:
        progress.end()
    return digest.hexdigest()


class BackgroundHash:
    """A thread that hashes a file front to back while others work on the same bytes.

    Args:
        path: The file; it must be complete.
        algorithm: hashlib's name of it.

    Raises:
        ArgumentError: hashlib has no such algorithm.
        OSError: The file cannot be opened. What goes wrong later is raised by `wait_until` and `hexdigest`.
    """

    def __init__(self, path: Path, algorithm: str) -> None:
        self._path = path
        self._digest = new_hash(algorithm)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - the thread closes it
        self._changed = threading.Condition()
        self._position = 0
        self._finished = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"hash of {path.name}", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """How many bytes are hashed so far."""
        return self._position

    def wait_until(self, offset: int) -> None:
        """Block until `offset` bytes are hashed, or the whole file if it is shorter.

        Raises:
            OSError: The file could not be read.
            SourceError: `close` was called before that many bytes were hashed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._position >= offset or self._over)
            if self._error is not None:
                raise self._error
            if self._position < offset and not self._finished:
                raise self._stopped()

    def hexdigest(self) -> str:
        """Wait for the end of the file and return the digest in lower-case hexadecimal.

        Raises:
            OSError: The file could not be read.
            SourceError: `close` was called before the end was reached.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        if not self._finished:
            raise self._stopped()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Stop within one chunk and wait for the thread; may be called again and after the end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def _over(self) -> bool:
        return self._finished or self._closed or self._error is not None

    def _stopped(self) -> SourceError:
        return SourceError(
            f"The hash of {self._path} was stopped at byte {self._position}, before the end of the file."
        )

    def _run(self) -> None:
        try:
            with self._file:
                self._read_all()
        except BaseException as err:  # noqa: BLE001 - re-raised in the thread that asks for the result
            with self._changed:
                self._error = err
                self._changed.notify_all()

    def _read_all(self) -> None:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while not self._closed:
            count = self._file.readinto(buffer)
            if count:
                self._digest.update(buffer[:count])
            with self._changed:
                self._position += count or 0
                self._finished = not count
                self._changed.notify_all()
            if self._finished:
                return
