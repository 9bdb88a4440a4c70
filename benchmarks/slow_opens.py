"""A copy of a folder in which every `open` takes longer, as on a network file system: a FUSE file system, read-only.

    python slow_opens.py FOLDER MOUNT_POINT MILLISECONDS

Needs `pip install mfusepy`, libfuse and root. Names, attributes and contents are cached by the kernel after their first
use, so only opening is slow. Ends when the mount point is unmounted.
"""

import os
import stat
import sys
import time

import mfusepy

FOREVER_S = 86_400


class SlowOpens(mfusepy.Operations):
    """Passes everything through; `open` sleeps first."""

    use_ns = True

    def __init__(self, folder: str, delay_s: float) -> None:
        self._folder, self._delay_s = folder, delay_s

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        found = os.lstat(self._folder + path)
        times = {"st_atime": found.st_atime_ns, "st_mtime": found.st_mtime_ns, "st_ctime": found.st_ctime_ns}
        mode = found.st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
        return {"st_mode": mode, "st_size": found.st_size, "st_nlink": found.st_nlink, "st_ino": found.st_ino, **times}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._folder + path)]

    def open(self, path: str, flags: int) -> int:
        time.sleep(self._delay_s)
        return os.open(self._folder + path, os.O_RDONLY)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(
        SlowOpens(os.path.realpath(sys.argv[1]), float(sys.argv[3]) / 1000),
        sys.argv[2],
        foreground=True,
        ro=True,
        kernel_cache=True,
        attr_timeout=FOREVER_S,
        entry_timeout=FOREVER_S,
    )
