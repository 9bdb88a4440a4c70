"""Ask Windows whether a process lives, and since when. Imported on Windows only."""

import ctypes
import sys
from ctypes import wintypes

assert sys.platform == "win32"

_SYNCHRONIZE, _QUERY_LIMITED_INFORMATION = 0x0010_0000, 0x1000
_ERROR_ACCESS_DENIED = 5
_WAIT_TIMEOUT = 0x102

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)
_kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
_kernel.OpenProcess.restype = wintypes.HANDLE
_kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
_kernel.WaitForSingleObject.restype = wintypes.DWORD
_kernel.GetProcessTimes.argtypes = (wintypes.HANDLE, *[ctypes.POINTER(wintypes.FILETIME)] * 4)
_kernel.GetProcessTimes.restype = wintypes.BOOL
_kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
_kernel.CloseHandle.restype = wintypes.BOOL


def process_start(pid: int) -> int | None:
    """Return the start time of a process in 100 ns since 1601; None if there is none, 0 if access is denied."""
    if pid > 0xFFFF_FFFF:
        return None
    handle = _kernel.OpenProcess(_QUERY_LIMITED_INFORMATION | _SYNCHRONIZE, False, pid)
    if not handle:
        return 0 if ctypes.get_last_error() == _ERROR_ACCESS_DENIED else None
    try:
        if _kernel.WaitForSingleObject(handle, 0) != _WAIT_TIMEOUT:  # it ended, but a handle of it is still open
            return None
        times = [wintypes.FILETIME() for _ in range(4)]  # created, ended, time in the kernel, time outside
        if not _kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return 0
        return times[0].dwHighDateTime << 32 | times[0].dwLowDateTime
    finally:
        _kernel.CloseHandle(handle)
