"""`publishing`: the only way to publish an output. One lock, a build beside the output, one rename."""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from recordzoo.base import roots
from recordzoo.base.progress import Progress, format_bytes
from recordzoo.errors import PrepareError, RecordZooError
from recordzoo.publish.build import Build, tidy
from recordzoo.publish.exchange import generation
from recordzoo.publish.output import Output, written_bytes
from recordzoo.publish.space import disk_error
from recordzoo.records.reader import is_record_set

_POLL_S = (0.2, 5.0)
"""Seconds between two checks, first and maximum: a wait of hours must not burden the file server."""

_SAY_AGAIN_S = 30.0


def never(_: Path) -> bool:
    """Replace nothing: for `may_replace`."""
    return False


@contextlib.contextmanager
def publishing(
    output: Output,
    is_ready: Callable[[], bool],
    progress: Progress,
    *,
    again: bool = False,
    may_replace: Callable[[Path], bool] = never,
    is_waiting: bool = True,
) -> Iterator[Build | None]:
    """Publish the block's output: the block calls `Build.claim` and writes into ``build.set``.

    The output gets its name when the block ends. If the block raises or the process is killed, the build is kept, and
    the next process with the same plan continues it. Any number of processes may call this at once.

    Args:
        is_ready: Returns whether the wanted output exists; raises if something else is at its path.
        progress: Shows which process this one waits for.
        again: Rebuild an output that is ready, unless another process builds it during the wait.
        may_replace: Returns whether the content of the output's path at the end of the block may be replaced.
        is_waiting: Wait for another process that builds the output; otherwise raise.

    Yields:
        The build; None if the output is ready.

    Raises:
        PrepareError: Something else is at the output's path, or the disk failed.
        DiskSpaceError: The disk is full.
        Exception: Any error of `is_ready` and the block; a `RecordZooError` or `OSError` only if no other process has
            published.
    """
    build, before = Build(output), generation(output.path)

    def is_done() -> bool:
        return is_ready() and (not again or generation(output.path) != before)

    try:
        output.path.parent.mkdir(parents=True, exist_ok=True)
        if is_mine := _wait(build, is_done, progress, is_waiting=is_waiting):
            try:
                if build.settle():
                    before = generation(output.path)
                is_mine = not is_done()
            except BaseException:
                build.release()
                raise
            if not is_mine:
                build.remove()
    except OSError as err:
        if isinstance(err, RecordZooError):
            raise
        raise disk_error(err, output, 0) from err
    if not is_mine:
        tidy(output)
        yield None
        return
    try:
        yield from _built(build, is_done, may_replace, progress)
    except OSError as err:
        if isinstance(err, RecordZooError) or not build.plan:  # nothing was written yet
            raise
        raise disk_error(err, output, build.remaining) from err


def _wait(build: Build, is_done: Callable[[], bool], progress: Progress, *, is_waiting: bool) -> bool:
    """Wait until this process holds the build's lock; False if the output is there."""
    said, naps = -_SAY_AGAIN_S, _naps()
    while not is_done():
        if build.try_lock():
            return True
        if not is_waiting:
            raise PrepareError(
                f"{build.holder} is writing {build.output.path}. Wait for its end.", path=str(build.output.path)
            )
        if time.monotonic() - said >= _SAY_AGAIN_S:
            said, written = time.monotonic(), written_bytes(build.path)
            how_far = f" ({format_bytes(written)} are written)" if written else ""
            progress.note(f"Waiting for {build.holder}, which prepares {build.output.path}{how_far}.")
        time.sleep(next(naps))
    return False


def _naps() -> Iterator[float]:
    """Yield the seconds before each next check; jitter spreads processes that started together."""
    jitter = random.Random()  # its own generator: the program's random numbers stay unchanged
    nap, longest = _POLL_S
    while True:
        yield nap * jitter.uniform(0.7, 1.0)
        nap = min(longest, nap * 1.3)


def _built(
    build: Build, is_done: Callable[[], bool], may_replace: Callable[[Path], bool], progress: Progress
) -> Iterator[Build]:
    """Yield a build, then publish it."""
    path = build.output.path
    try:
        yield build
        if not build.publish(may_replace) and not is_done():
            raise PrepareError(f"{path} was made by another process meanwhile.", path=str(path))
    except BaseException as err:
        build.release()
        if not isinstance(err, RecordZooError | OSError) or not _is_true(is_done):
            raise
        progress.note(f"{err} Another process has published {path} meanwhile.")
        return
    build.remove()
    if is_record_set(path):
        roots.remember(path.parent)


def _is_true(is_done: Callable[[], bool]) -> bool:
    """Whether the output exists; False if checking fails, because a second error must not hide the first."""
    with contextlib.suppress(Exception):
        return is_done()
    return False


def publish(
    output: Output,
    is_ready: Callable[[], bool],
    progress: Progress,
    write: Callable[[Build], object],
    *,
    again: bool = False,
    may_replace: Callable[[Path], bool] = never,
) -> bool:
    """Publish the output of `write` as `publishing` does.

    Returns:
        Whether this process published; False if another one did.
    """
    with publishing(output, is_ready, progress, again=again, may_replace=may_replace) as build:
        if build is not None:
            write(build)
    return build is not None and build.is_first
