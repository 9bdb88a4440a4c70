"""The exit codes, which scripts may rely on, and the code of each error."""

import errno
from enum import IntEnum

from recordzoo import errors


class Exit(IntEnum):
    """The exit codes of every command; 128 + n after signal n, as in a shell."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NETWORK = 4
    CORRUPT = 5
    DISK_FULL = 6
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done, or nothing was to do",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage: an unknown option, name or value",
    Exit.NOT_FOUND: "not found, or files must be downloaded by hand or need --accept-terms",
    Exit.NETWORK: "the network or a server failed; the same command goes on from there",
    Exit.CORRUPT: "a checksum is wrong, or an archive or a record set is damaged",
    Exit.DISK_FULL: "too little room on the disk",
    Exit.INTERRUPTED: "interrupted (SIGINT); `prepare`, `copy`, `merge` and the like keep what is finished",
    Exit.TERMINATED: "terminated (SIGTERM); `prepare`, `copy`, `merge` and the like keep what is finished",
}

# The first match counts, so subclasses come first.
_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (errors.ArgumentError, Exit.USAGE),
    (errors.NotPreparedError, Exit.NOT_FOUND),
    (errors.FolderError, Exit.NOT_FOUND),
    (errors.DownloadError, Exit.NETWORK),
    (errors.HashMismatchError, Exit.CORRUPT),
    (errors.ArchiveError, Exit.CORRUPT),
    (errors.DiskSpaceError, Exit.DISK_FULL),
    (errors.FormatVersionError, Exit.FAILED),
    (errors.OtherSourceError, Exit.FAILED),
    (errors.RemoteError, Exit.NETWORK),
    (errors.RecordError, Exit.CORRUPT),
)


def exit_code(err: BaseException) -> Exit:
    """Choose the exit code for an error."""
    if isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT):
        return Exit.DISK_FULL
    return next((code for kind, code in _CODES if isinstance(err, kind)), Exit.FAILED)
