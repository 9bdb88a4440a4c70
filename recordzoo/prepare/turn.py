"""Whose turn it is to prepare a record set: one process builds, the others wait and say for whom.

A file lock decides where it works. Nothing is wrong where it does not: builds are private and publishing is one rename.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from recordzoo.owner import Owner
from recordzoo.prepare.build import Found, find_builds
from recordzoo.progress import Progress

_POLL_S = 0.2
_SAY_AGAIN_S = 60.0


@contextlib.contextmanager
def my_turn(target: Path, published: Callable[[], bool], progress: Progress) -> Iterator[bool]:
    """Wait until this process may build, or somebody else has published.

    Yields:
        Whether to build; False if the record set is published now.
    """
    lock = filelock.FileLock(lock_path(target), timeout=0, mode=0o666)
    said = -_SAY_AGAIN_S
    try:
        while True:
            if published():
                yield False
                return
            locked = _try(lock)
            builds = find_builds(target)
            living = [build for build in builds if not build.is_dead]
            # Without the lock only where its holder does not move (stopped, or another host's that died).
            if not living and (locked or builds):
                if published():  # the last holder may have done so just before it let go
                    continue
                with contextlib.suppress(OSError):
                    lock_path(target).write_text(str(Owner.current()))
                yield True
                if published():  # waiters look there first, so nobody needs the lock file any more
                    with contextlib.suppress(OSError):
                        lock_path(target).unlink()
                return
            if locked:
                lock.release()
            if time.monotonic() - said >= _SAY_AGAIN_S:
                said = time.monotonic()
                progress.note(f"Waiting for {_who(target, living)}, which prepares {target}.")
            time.sleep(_POLL_S)
    finally:
        lock.release(force=True)


def lock_path(target: Path) -> Path:
    """Return the lock file of a record set."""
    return target.with_name(f".{target.name}.lock")


def _try(lock: filelock.BaseFileLock) -> bool:
    try:
        lock.acquire()
    except filelock.Timeout:
        return False
    except (OSError, NotImplementedError):  # another user's lock file, or a file system without locks: go on without
        return True
    return True


def _who(target: Path, living: list[Found]) -> str:
    if living:
        return living[0].description
    with contextlib.suppress(OSError):
        owner = Owner.parse(lock_path(target).read_text()[:200])
        if owner is not None:
            return owner.description if owner.pid != os.getpid() else "another thread of this process"
    return "another process"
