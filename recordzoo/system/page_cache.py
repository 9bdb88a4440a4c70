"""The page cache: making the kernel forget what it has read, so that the next reading is a cold one."""

from collections.abc import Iterable
from pathlib import Path

from recordzoo.system.files import DONT_NEED, advise

CAN_FORGET = advise is not None
"""Whether `forget` does anything: not on macOS and Windows."""


def forget(paths: Iterable[Path]) -> None:
    """Make the kernel drop the cached contents of files, where it can be told to.

    Their names stay cached, and so does what is not on the disk yet, or what a process has mapped.
    """
    if advise is None:
        return
    for path in paths:
        with path.open("rb") as file:
            advise(file.fileno(), 0, 0, DONT_NEED)
