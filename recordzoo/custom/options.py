"""The options that everything that makes records of a person's own data shares."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Literal, TypedDict

from recordzoo.errors import ArgumentError, OtherSourceError, PrepareError
from recordzoo.progress import Progress
from recordzoo.records.reader import is_record_set


class OwnOptions(TypedDict, total=False):
    """How a record set of one's own data is made; all optional, all keyword-only.

    Attributes:
        workers: Processes that convert; default: the cores that this process may use, 8 at most.
        executor: A ``concurrent.futures.Executor`` whose workers convert instead, as in `PrepareOptions`.
        shard_bytes: Target shard size in bytes. Default: data size / 8, clipped to 64 MiB..1 GiB.
        num_shards: Exactly how many shards there are, instead.
        on_error: What to do with an encoded image whose header no decoder recognises: "keep" it as it is (default;
            reading it raises), "skip" it, or "raise".
        check_images: Decode each image while converting, and treat one that cannot be decoded as `on_error` says.
            Default: only headers are read, which is faster; damage further back is an error when the image is read.
        refresh: True: rebuild the record set and replace the existing one atomically. "if-changed": only if it holds
            something else than what is asked for. Default: use what is there, or raise.
        progress: Receives the progress. Default: as in `PrepareOptions`: bars on a terminal or in a notebook, elsewhere
            lines on stderr, or `logging` (logger "recordzoo") if that is configured.
    """

    workers: int | None
    executor: Executor | None
    shard_bytes: int | None
    num_shards: int | None
    on_error: Literal["keep", "skip", "raise"]
    check_images: bool
    refresh: bool | Literal["if-changed"]
    progress: Progress | None


def check_options(names: Iterable[str], function: str) -> None:
    """Refuse an option that does not exist, as Python refuses an argument.

    Raises:
        TypeError: There is one.
    """
    for name in names:
        if name not in OwnOptions.__annotations__:
            raise TypeError(f"{function} got an unexpected keyword argument {name!r}")


def is_current(options: OwnOptions, check: Callable[[], object]) -> bool:
    """Whether a record set that is there is used; if not, `options` then say that it is replaced.

    Args:
        options: What was asked for.
        check: Raises `OtherSourceError` if the set is not what is asked for.

    Raises:
        OtherSourceError: It is not, and may not be replaced.
    """
    wanted = options.get("refresh", False)
    try:
        if wanted is not True:
            check()
            return True
    except OtherSourceError:
        if wanted != "if-changed":
            raise
    options["refresh"] = True
    return False


def check_classes(classes: Sequence[str] | None) -> None:
    """Refuse class names that are one text.

    Raises:
        ArgumentError: They are.
    """
    if isinstance(classes, str):
        raise ArgumentError(f"Argument classes is {classes!r}; it must be a list of names.")


def check_place(path: Path) -> None:
    """Refuse a place for a record set where there is something else.

    Raises:
        PrepareError: There is.
    """
    if not os.path.lexists(path) or is_record_set(path) or (path.is_dir() and not any(path.iterdir())):
        return
    raise PrepareError(
        f"{path} is in the way, and is not a record set. Move it, or write to another path.", path=str(path)
    )
