"""One writer at a time: one process builds an output; the others wait, and log the process that builds.

A file lock decides. File systems without locks are safe too: builds are private, and publishing is one rename.
"""

import contextlib
import os
import random
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from recordzoo.base import durable, settings
from recordzoo.base.owner import Owner
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import PrepareError
from recordzoo.publish.heartbeat import Heartbeat, silence_s
from recordzoo.publish.output import Found, find_builds, remove_dead
from recordzoo.system.files import LOCKS_ARE_MANDATORY, open_file, rename

_POLL_S = (0.2, 5.0)
"""Seconds between two checks, first and maximum: a wait of hours must not burden the file server."""

_SAY_AGAIN_S = 30.0


@contextlib.contextmanager
def my_turn(
    target: Path, published: Callable[[], bool], progress: Progress, *, is_waiting: bool = True
) -> Iterator[bool]:
    """Wait until this process may build, or another process has published.

    Args:
        target: The output's path.
        published: Whether the output is published; may raise.
        progress: Shows every half minute which process builds.
        is_waiting: Wait for another process that builds; otherwise raise.

    Yields:
        Whether to build; False if the output is published now.

    Raises:
        PrepareError: Another process builds, and `is_waiting` is False.
    """
    path = lock_path(target)
    lock = filelock.FileLock(path, timeout=0, mode=0o666)
    me = str(Owner.current())
    said = -_SAY_AGAIN_S
    naps = _naps()
    locked = False
    try:
        while True:
            if published():
                yield False
                return
            locked = not _is_held(path) and _try(lock)
            living = [build for build in find_builds(target) if not build.is_dead]
            if locked and published():  # the last holder may have published just before it released the lock
                continue
            if locked and not living:
                with _held(path, me):
                    yield True
                return
            if locked:
                lock.release()
                locked = False
            elif not living and _break_if_silent(path):
                continue
            if not is_waiting:
                raise PrepareError(f"{_who(path, living)} is writing {target}. Wait for its end.", path=str(target))
            if time.monotonic() - said >= _SAY_AGAIN_S:
                said = time.monotonic()
                progress.note(f"Waiting for {_who(path, living)}, which prepares {target}{_how_far(living)}.")
            time.sleep(next(naps))
    finally:
        if locked and (_text(path) == me or not _is_held(path)):
            _delete(path)
        lock.release(force=True)


def _naps() -> Iterator[float]:
    """Yield the seconds before each next check; jitter spreads processes that started together."""
    jitter = random.Random()  # its own generator: the program's random numbers stay unchanged
    nap, longest = _POLL_S
    while True:
        yield nap * jitter.uniform(0.7, 1.0)
        nap = min(longest, nap * 1.3)


def tidy(target: Path) -> None:
    """Remove the leftovers of a process that was killed after publishing. Without a lock file there are none."""
    path = lock_path(target)
    if not path.exists() or _is_held(path):
        return
    lock = filelock.FileLock(path, timeout=0, mode=0o666)
    if _try(lock):  # else another process rebuilds the output
        remove_dead(target)
        _delete(path)
        lock.release(force=True)


def who_prepares(target: Path) -> str:
    """Return the process that builds an output now: "process 4123 on node07"; "" if there is none."""
    path = lock_path(target)
    living = [build for build in find_builds(target) if not build.is_dead]
    return _who(path, living) if living else who_holds(path)


def who_holds(path: Path) -> str:
    """Return the living process that holds a lock file: "process 4123 on node07"; "" if there is none."""
    with contextlib.suppress(OSError):
        if _is_held(path) and not _is_silent(path):
            return _who(path, [])
    return ""


@contextlib.contextmanager
def kept_from_others(target: Path) -> Iterator[bool]:
    """Keep other processes from building an output while the block removes it.

    Yields:
        Whether no process builds it; if False, remove nothing.
    """
    path = lock_path(target)
    lock = filelock.FileLock(path, timeout=0, mode=0o666)
    if who_prepares(target) or not _try(lock):
        yield False
        return
    try:
        with _held(path, str(Owner.current())):
            yield True
    finally:
        _delete(path)
        lock.release(force=True)


def lock_path(target: Path) -> Path:
    """Return the lock file of an output."""
    return target.with_name(f".{target.name}.lock")


def _delete(path: Path) -> None:
    """Delete a lock file that this process holds, if the system allows it."""
    if not LOCKS_ARE_MANDATORY:
        with contextlib.suppress(OSError):
            durable.remove(path)


def _is_held(path: Path) -> bool:
    """Whether the process that the lock file names is alive.

    It does not try the lock: filelock before 4.0 empties the holder's file at each try.
    """
    owner = Owner.parse(_text(path))
    return owner is not None and not owner.is_gone()


def _try(lock: filelock.BaseFileLock) -> bool:
    path = Path(lock.lock_file)
    if path.is_symlink():  # not recordzoo's: filelock would empty the link's target
        with contextlib.suppress(OSError):
            path.unlink()
    if path.is_symlink():
        return True
    try:
        lock.acquire()
    except filelock.Timeout:
        return False
    except (OSError, NotImplementedError):  # another user's lock file, or a file system without locks: continue without
        return True
    return True


@contextlib.contextmanager
def _held(path: Path, me: str) -> Iterator[None]:
    """Write this process's identity into the lock file, and touch the file while the block runs."""
    if not LOCKS_ARE_MANDATORY:
        with contextlib.suppress(OSError):
            durable.write_text_here(path, me)
    heartbeat = Heartbeat(path)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()


def _break_if_silent(path: Path) -> bool:
    """Remove the lock file of a holder that is stopped, or died on a host that cannot be checked.

    If two processes do this at once, the second may remove the first one's new file; then both build, which only costs
    time.

    Returns:
        Whether it was removed.
    """
    with contextlib.suppress(OSError):
        seen = path.stat()
        if not _is_silent(path):
            return False
        aside = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
        rename(path, aside)
        if os.path.samestat(seen, aside.stat()):
            aside.unlink()
            return True
        rename(aside, path)  # another process was faster: this is its new file
    return False


def _is_silent(path: Path) -> bool:
    """Whether a lock file was not touched for so long that its holder counts as gone."""
    return silence_s(path, path.parent) > settings.stale_s()


def _text(path: Path) -> str:
    """Read a lock file; "" if it is not a regular file (a FIFO would block), and always where locks are mandatory."""
    with contextlib.suppress(OSError, ValueError):
        fd = open_file(path)
        with open(fd, "rb") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return file.read(200).decode()
    return ""


def _who(path: Path, living: list[Found]) -> str:
    owner = living[0].owner if living else Owner.parse(_text(path))
    if owner is None:
        return "another process"
    return owner.description if owner.pid != os.getpid() else "another thread of this process"


def _how_far(living: list[Found]) -> str:
    written = living[0].written_bytes if living else 0
    return f" ({format_bytes(written)} are written)" if written else ""
