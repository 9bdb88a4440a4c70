"""Named points of a preparation or a copy at which a test can kill a real process.

Each place where a crash must leave a well-defined state calls `crash_point` with its name. `CRASH_POINTS` lists the
names in the order in which a preparation reaches them. Setting ``RECORDZOO_KILL_AT=name`` (or ``name:3`` for the third
time) makes the process kill itself there with SIGKILL: no cleanup runs, as in a power cut.
"""

import os
from collections import Counter

from recordzoo.system.processes import die

CRASH_POINTS = (
    "download.claimed",  # this process owns the .part file
    "download.received",  # some bytes were written to it
    "download.complete",  # all bytes received, not yet hashed
    "download.verified",  # hashed, not yet renamed
    "download.published",  # renamed to its final name
    "build.claimed",  # this process owns the build directory
    "build.planned",  # the plan is written
    "shard.opened",  # an empty LMDB file exists
    "shard.committed",  # one transaction is committed
    "shard.written",  # all transactions are committed, not yet synced
    "shard.sealed",  # synced, hashed, read back
    "shard.done",  # its file of rows and facts is on disk
    "unit.done",  # the process that prepares knows that a unit is finished
    "set.shards_moved",  # all shards have their final names
    "set.arrays_written",  # index, targets, names, splits are on disk
    "set.manifest_written",  # the manifest is on disk, in the build directory
    "set.replacing",  # the digest of the set that will replace the old one is on disk
    "set.moved_away",  # no exchange of directories here: the old set is in the build
    "set.published",  # the set has its final name
    "set.synced",  # and its parent directory is synced
    "build.cleaned",  # only the set is left
    "push.sent",  # a file is in the store
    "push.complete",  # all files but the manifest are in the store
    "pull.received",  # some bytes of a file were written to its part
    "pull.fetched",  # a file is verified and has its final name
    "export.complete",  # all files are written; the output has no final name yet
    "cache.received",  # a piece of a file at a URL was written to the cache
)

_counts: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Mark that the named point was reached; die there if the environment says so."""
    wanted = os.environ.get("RECORDZOO_KILL_AT")
    if not wanted:
        return
    wanted_name, _, nth = wanted.partition(":")
    if name != wanted_name:
        return
    _counts[name] += 1
    if _counts[name] == int(nth or 1):
        die()
