"""Hash files: in a manifest's notation, incrementally, or in a background thread."""

import hashlib
import threading
from pathlib import Path

from recordzoo.errors import ArgumentError, SourceError

_CHUNK_BYTES = 4 << 20
"""Large, so that hashlib and reads, which release the interpreter lock, rarely wait for it."""


def new_hash(algorithm: str) -> "hashlib._Hash":
    """Start a hash by its name in hashlib ("md5", "sha256").

    Raises:
        ArgumentError: hashlib has no such algorithm.
    """
    try:
        # `usedforsecurity=False`: FIPS machines refuse MD5 otherwise, and half of the published hashes are MD5.
        return hashlib.new(algorithm, usedforsecurity=False)
    except ValueError as err:
        known = ", ".join(sorted(hashlib.algorithms_guaranteed))
        raise ArgumentError(f"Unknown hash algorithm {algorithm!r}; it must be one of {known}.") from err


def hash_text(state: "hashlib._Hash") -> str:
    """Format a SHA-256 as in manifests: ``sha256:<hex>``."""
    return f"sha256:{state.hexdigest()}"


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file as in manifests.

    Raises:
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        return hash_text(hashlib.file_digest(file, "sha256"))


def other_sha256(name: object, found: str, expected: str, md5: str) -> str:
    """Return the warning about a file that is accepted for its MD5."""
    return (
        f"{name} has the SHA-256 {found}, not {expected}; but it has the expected MD5, {md5}, so it is accepted. "
        "If the images are right, please report the file's SHA-256."
    )


class BackgroundHash:
    """Hashes a file from start to end in a thread, while other threads use the file.

    Args:
        path: The file; it must be complete.
        algorithm: Its name in hashlib.

    Raises:
        ArgumentError: hashlib has no such algorithm.
        OSError: The file cannot be opened. Later errors are raised by `hexdigest`.
    """

    def __init__(self, path: Path, algorithm: str) -> None:
        self._path = path
        self._digest = new_hash(algorithm)
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - the thread closes it
        self._position = 0
        self._finished = False
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"hash of {path.name}", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """The number of bytes hashed so far."""
        return self._position

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds for the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

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
            raise SourceError(
                f"The hash of {self._path} was stopped at byte {self._position}, before the end of the file."
            )
        return self._digest.hexdigest()

    def close(self) -> None:
        """Stop within one chunk and wait for the thread; may be called again and after the end."""
        self._closed = True
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._file:
                self._read_all()
        except BaseException as err:  # noqa: BLE001 - re-raised by `hexdigest`
            self._error = err

    def _read_all(self) -> None:
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        while not self._closed:
            count = self._file.readinto(buffer)
            if not count:
                self._finished = True
                return
            self._digest.update(buffer[:count])
            self._position += count
