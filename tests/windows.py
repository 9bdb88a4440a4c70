"""Python as it is on Windows, as far as that can be had elsewhere. `become` changes its process for good.

* Functions, constants and modules that Windows lacks are gone, from `os`, `signal`, `mmap` and `sys.modules`.
* `recordzoo.system` is imported with `sys.platform` of Windows; what it asks of the kernel is answered from /proc.
* Below `FOLDER` a file that a process of ours has open or mapped is neither renamed nor deleted, and a directory with
  such a file in it is not renamed; no rename replaces anything; and no name is taken that Windows would not take.
* A lock's file goes with the lock.
* LMDB makes a file as large as its map.

Not so: paths have no drives and no backslashes, names differ by case, locks do not keep others from reading a file, and
`os.name` is "posix", because pathlib, multiprocessing and torch would otherwise call what is not there.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import re
import shutil
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.posix import FLAGS, FUNCTIONS, MAP_FLAGS, MODULES, NEEDED_BY_OTHERS, SIGNALS

FOLDER = "RECORDZOO_WINDOWS_FOLDER"
"""The environment variable with the directory in which files behave as on Windows."""

_IN_USE, _EXISTS, _NO_PROCESS = 32, 183, 87
_BAD_NAME = re.compile(r'.*[<>:"|?*\\\x00-\x1f].*|.*[. ]|(con|prn|aux|nul|com\d|lpt\d)(\..*)?', re.IGNORECASE)


def become() -> None:
    """Be on "Windows" from here on."""
    import fcntl  # noqa: F401 - for filelock: Windows has locks, too

    import filelock

    class Lock(filelock.UnixFileLock):
        def release(self, force: bool = False) -> None:
            super().release(force)
            if not self.is_locked:
                with contextlib.suppress(OSError):
                    os.unlink(self.lock_file)

    filelock.FileLock = Lock
    for name, module in tuple(sys.modules.items()):
        if name.startswith("filelock.") and hasattr(module, "os"):
            module.os = types.SimpleNamespace(**vars(os))
    folder = os.path.realpath(os.environ[FOLDER])
    sys.addaudithook(_refuse_names(folder))
    _take_away()
    _replace_renames(folder)
    _enlarge_maps()
    _import_system()
    warnings.filterwarnings("ignore", category=EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module=r"recordzoo\.")  # Windows' default is not UTF-8


def _take_away() -> None:
    statvfs = os.statvfs

    def disk_usage(path: str | os.PathLike[str]) -> object:
        facts = statvfs(path)
        block = facts.f_frsize
        return shutil._ntuple_diskusage(facts.f_blocks * block, 0, facts.f_bavail * block)

    shutil.disk_usage = disk_usage
    shutil._use_fd_functions = False
    shutil._rmtree_impl = getattr(shutil, "_rmtree_unsafe", None)  # chosen at the import, from Python 3.13 on
    os.supports_dir_fd.clear()
    for module, names in ((os, FUNCTIONS | FLAGS), (signal, SIGNALS), (mmap, MAP_FLAGS)):
        for name in names - NEEDED_BY_OTHERS:
            with contextlib.suppress(AttributeError):
                delattr(module, name)
    for name in MODULES:
        sys.modules[name] = None


def _replace_renames(folder: str) -> None:
    rename, replace, unlink = os.rename, os.replace, os.unlink

    def check(*paths: str | os.PathLike[str]) -> None:
        for path in paths:
            if _is_below(path, folder) and _is_open(os.path.realpath(path)):
                raise _refused(PermissionError, errno.EACCES, "is being used by another process", path, _IN_USE)

    def checked_rename(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        check(source)
        if _is_below(target, folder) and os.path.lexists(target):
            raise _refused(FileExistsError, errno.EEXIST, "already exists", target, _EXISTS)
        rename(source, target)

    def checked_replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        check(source, target)
        replace(source, target)

    def checked_unlink(path: str | os.PathLike[str], **options: object) -> None:
        if sys._getframe(1).f_globals["__name__"] != "tempfile":  # its files are deleted when they are closed
            check(path)
        unlink(path, **options)

    os.rename, os.replace, os.unlink, os.remove = checked_rename, checked_replace, checked_unlink, checked_unlink


def _is_below(path: object, folder: str) -> bool:
    return isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)).startswith(folder + os.sep)


def _refused(kind: type[OSError], number: int, text: str, path: object, windows: int) -> OSError:
    err = kind(number, text, os.fspath(path))
    err.winerror = windows
    return err


def _is_open(path: str) -> bool:
    """Whether this process, or one that it started, has a file or something below a directory open or mapped."""
    below = path + os.sep
    return any(each == path or each.startswith(below) for pid in _family(os.getpid()) for each in _open_files(pid))


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text(encoding="ascii").split():
                yield from _family(int(child))


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{number}")
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            yield line[73:]


def _refuse_names(folder: str) -> Callable[[str, tuple], None]:
    def hook(event: str, arguments: tuple) -> None:
        if event not in ("open", "os.mkdir", "os.rename"):
            return
        for path in arguments[: 2 if event == "os.rename" else 1]:
            if _is_below(path, folder) and any(map(_BAD_NAME.fullmatch, Path(path).relative_to(folder).parts)):
                raise OSError(errno.EINVAL, "The filename, directory name, or volume label syntax is incorrect", path)

    return hook


def _enlarge_maps() -> None:
    import lmdb

    original = lmdb.open

    def enlarged(path: bytes, **options: object) -> object:
        environment = original(path, **options)
        if not options.get("readonly"):
            os.truncate(path, options["map_size"])
        return environment

    lmdb.open = enlarged


def _import_system() -> None:
    import concurrent.futures  # noqa: F401 - these two would ask for Windows' own modules
    import multiprocessing  # noqa: F401

    import recordzoo.base

    assert not [name for name in sys.modules if name.startswith("recordzoo.base.")]
    kernel = _Kernel()
    ctypes.WinDLL = lambda name, use_last_error: kernel
    ctypes.get_last_error = lambda: kernel.last_error
    platform, sys.platform = sys.platform, "win32"
    try:
        from recordzoo.base import files, process  # noqa: F401
    finally:
        sys.platform = platform
        del ctypes.WinDLL  # else others take this for Windows, too
    assert recordzoo.base.text.WINDOWS


class _Kernel:
    """Of kernel32 the functions that tell of processes; a handle is the process's number."""

    def __init__(self) -> None:
        self.last_error = 0
        self.OpenProcess = lambda access, inherit, pid: self._open(pid)
        self.WaitForSingleObject = lambda handle, timeout_ms: 0x102 if self._start(handle) else 0
        self.GetProcessTimes = lambda handle, *times: self._times(handle, *times)
        self.CloseHandle = lambda handle: True

    def _open(self, pid: int) -> int | None:
        if self._start(pid):
            return pid
        self.last_error = _NO_PROCESS
        return None

    def _times(self, handle: int, created: object, *others: object) -> bool:
        start = self._start(handle) << 34  # so that both halves count
        created._obj.dwHighDateTime, created._obj.dwLowDateTime = start >> 32, start & 0xFFFF_FFFF
        return True

    def _start(self, pid: int) -> int:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return 0
        return 0 if fields[0] in "ZX" else int(fields[19])
