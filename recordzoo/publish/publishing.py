"""`publishing`: the only way to publish an output. One writer, a build beside the output, one rename."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from recordzoo.base import roots
from recordzoo.base.progress import Progress
from recordzoo.errors import LostBuildError, PrepareError, RecordZooError
from recordzoo.publish.build import Build
from recordzoo.publish.exchange import generation, put_back
from recordzoo.publish.lock import my_turn, tidy
from recordzoo.publish.output import Output, remove_dead
from recordzoo.publish.space import disk_error
from recordzoo.records.reader import is_record_set


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
    the next process with the same plan takes it over. Any number of processes may call this at once.

    Args:
        is_ready: Returns whether the wanted output exists; raises if something else is at its path.
        progress: Shows which process this one waits for.
        again: Rebuild an output that is ready, unless another process builds it during the wait.
        may_replace: Returns whether the content of the output's path at the end of the block may be replaced.
        is_waiting: Wait for another process that builds the output; otherwise raise.

    Yields:
        The build; None if the output is ready because another process built it.

    Raises:
        LostBuildError: Another process took the build over, because this one looked dead.
        PrepareError: Something else is at the output's path, or the disk failed.
        DiskSpaceError: The disk is full.
        Exception: Any error of `is_ready` and the block; a `RecordZooError` only if no other process has published.
    """
    build, before = Build(output), generation(output.path)

    def is_done() -> bool:
        return is_ready() and (not again or generation(output.path) != before)

    try:
        output.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise disk_error(err, output, 0) from err
    try:
        with my_turn(output.path, is_done, progress, is_waiting=is_waiting) as is_mine:
            if is_mine and put_back(output):
                before = generation(output.path)
                if is_done():
                    remove_dead(output.path)
                    is_mine = False
            if is_mine:
                yield from _built(build, is_done, may_replace, progress)
                return
        tidy(output.path)
        yield None
    except OSError as err:
        if isinstance(err, RecordZooError) or not build.plan:  # nothing was written yet
            raise
        raise disk_error(err, output, build.remaining) from err


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
        is_lost = build.is_lost
        build.release()
        if is_lost and isinstance(err, Exception) and not isinstance(err, LostBuildError):
            raise build.lost() from err
        if not isinstance(err, RecordZooError) or is_lost or not _is_true(is_done):
            raise
        progress.note(f"{err} Another process has published {path} meanwhile.")
    build.remove()
    remove_dead(path)
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
    """Publish the output of `write` as `publishing` does; start again if another process takes the build over.

    Returns:
        Whether this process published; False if another one did.
    """
    while True:
        try:
            with publishing(output, is_ready, progress, again=again, may_replace=may_replace) as build:
                if build is not None:
                    write(build)
            return build is not None and build.is_first
        except LostBuildError as err:
            progress.note(str(err))
