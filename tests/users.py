"""Become another user, whom permissions bind: for good in a child process that root started, or for a block."""

import contextlib
import importlib
import importlib.metadata
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

_LATER = ("encodings.ascii", "encodings.idna", "encodings.utf_8_sig", "netrc", "requests", "recordzoo.net.download")


def become(uid: int, gid: int, umask: int = 0o022) -> None:
    """Change the user for good.

    The new one may not be allowed to read this Python (it may lie in root's home): what is imported only when it is
    needed is imported before.
    """
    for name in _LATER:
        importlib.import_module(name)
    importlib.metadata.version("recordzoo")
    try:
        raise FileNotFoundError(2, "No such file", Path(__file__).name)
    except FileNotFoundError:
        traceback.format_exc()
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.umask(umask)


@contextlib.contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Become another user if this one is root, who may list every directory and read every file."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
