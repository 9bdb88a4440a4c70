"""The process in which an iterator began: a forked child inherits the iterator, but none of its threads."""

import os

from recordzoo.errors import ForkError


class Home:
    """The process that made this object."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Refuse to go on in another process.

        Raises:
            ForkError: This process was forked from the one that made this object.
        """
        if not self.is_here:
            raise ForkError(
                f"This iterator of a RecordLoader began in process {self._pid}. Its workers do not belong to process "
                f"{os.getpid()}, which was forked from there. Begin another iterator here: iter(loader)."
            )
