"""How fast the bytes of an answer come: a server that trickles for ever is as good as a silent one."""

import time

from recordzoo import settings


class Pace:
    """A clock that runs only while bytes are waited for; use it as a context manager around each receiving.

    Time is looked at in windows of `RECORDZOO_TIMEOUT`. A burst in each of them is enough, so that a line which comes
    and goes is not called slow.

    Attributes:
        window_s: How long a window is; 0 if there are none.
        least_bytes: What must come in one.
    """

    def __init__(self) -> None:
        self.window_s = settings.timeout_s()
        self.least_bytes = self.window_s * settings.min_bytes_per_s()
        self._came_bytes = 0
        self._waited_s = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._waited_s += time.monotonic() - self._began

    def too_few(self, num_bytes: int) -> int | None:
        """Count what came, and at the end of a window begin the next one.

        Returns:
            How many bytes came in the window that ended, if they were too few.
        """
        self._came_bytes += num_bytes
        if not self.window_s or self._waited_s < self.window_s:
            return None
        came_bytes, self._came_bytes, self._waited_s = self._came_bytes, 0, 0.0
        return came_bytes if came_bytes < self.least_bytes else None
