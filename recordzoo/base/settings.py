"""The environment variables of recordzoo. Each is checked when it is read; errors name the variable."""

import os
from pathlib import Path

from recordzoo.base.addresses import public_url
from recordzoo.errors import ArgumentError
from recordzoo.system.names import user_cache, user_state

_YES = ("1", "yes", "true", "on")
_NO = ("", "0", "no", "false", "off")


def mirror() -> str | None:
    """Base URL tried before the official hosts, as ``<mirror>/<dataset>/<file>`` (``RECORDZOO_MIRROR``)."""
    text = os.environ.get("RECORDZOO_MIRROR", "")
    if text and not text.lower().startswith(("https://", "http://")):
        raise ArgumentError(
            f"The environment variable RECORDZOO_MIRROR is {public_url(text)!r}; "
            "it must be an https:// or http:// address."
        )
    return text.rstrip("/") or None


def auto_prepare_bytes() -> float:
    """Limit on the raw bytes that a constructor converts unasked (``RECORDZOO_AUTO_PREPARE_GB``, 20; 0 = never)."""
    return _number("RECORDZOO_AUTO_PREPARE_GB", 20.0) * 1e9


def timeout_s() -> float:
    """Seconds that a server may be silent, or take to send its headers (``RECORDZOO_TIMEOUT``, 30)."""
    return _number("RECORDZOO_TIMEOUT", 30.0)


def min_bytes_per_s() -> float:
    """Minimum speed of a server, in bytes per second over `timeout_s` (``RECORDZOO_MIN_SPEED``, 100; 0 = any)."""
    return _number("RECORDZOO_MIN_SPEED", 100.0)


def state_folder() -> Path | None:
    """Folder of the list of prepared directories, for `cache` (``RECORDZOO_STATE``, the user's; off = no list)."""
    text = os.environ.get("RECORDZOO_STATE", "")
    if text.lower() in ("off", *_NO[1:]):
        return None
    folder = Path(text).expanduser() if text else user_state() / "recordzoo"
    if not folder.is_absolute():
        raise ArgumentError(
            f"The environment variable RECORDZOO_STATE is {text!r}; it must be an absolute path or off."
        )
    return folder


def cache_folder() -> Path:
    """Cache folder for record sets at URLs (``RECORDZOO_CACHE_DIR``, recordzoo/sets in the user's cache)."""
    text = os.environ.get("RECORDZOO_CACHE_DIR", "")
    folder = Path(text).expanduser() if text else user_cache() / "recordzoo" / "sets"
    if not folder.is_absolute():
        raise ArgumentError(f"The environment variable RECORDZOO_CACHE_DIR is {text!r}; it must be an absolute path.")
    return folder


def cache_bytes() -> int | None:
    """Size limit of the cache in bytes, such as 200e9 (``RECORDZOO_CACHE_BYTES``, half of the volume's free space)."""
    return int(_number("RECORDZOO_CACHE_BYTES", 0)) if os.environ.get("RECORDZOO_CACHE_BYTES") else None


def ranks_here() -> int:
    """Number of training processes on this machine (``LOCAL_WORLD_SIZE``, which torchrun sets; 1)."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else 1


def offline() -> bool:
    """Whether downloads are forbidden (``RECORDZOO_OFFLINE``)."""
    return _is_on("RECORDZOO_OFFLINE")


def compile_mode() -> str:
    """When image code is compiled: ``background``, ``wait`` or ``off`` (``RECORDZOO_COMPILE``, background)."""
    text = os.environ.get("RECORDZOO_COMPILE") or "background"
    if text not in ("background", "wait", "off"):
        raise ArgumentError(
            f"The environment variable RECORDZOO_COMPILE is {text!r}; it must be background, wait or off."
        )
    return text


def quiet() -> bool:
    """Whether a constructor shows no progress on stderr while it downloads and converts (``RECORDZOO_QUIET``)."""
    return _is_on("RECORDZOO_QUIET")


def _is_on(variable: str) -> bool:
    text = os.environ.get(variable, "")
    if text.lower() not in (*_YES, *_NO):
        raise ArgumentError(f"The environment variable {variable} is {text!r}; it must be 1 or 0.")
    return text.lower() in _YES


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentError(f"The environment variable {variable} is {text!r}; it must be a number, 0 or more.")
    return value
