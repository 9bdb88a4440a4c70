"""Sizes and times as people type them."""

import re

from recordzoo.errors import ArgumentError

_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kmgt]?)(?P<kind>i?b)?", re.IGNORECASE)
_AGE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[hdw])", re.IGNORECASE)
_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def parse_bytes(option: str, text: str) -> int:
    """Read ``512M`` or ``512MiB`` (2 to the power of 20) and ``512MB`` (10 to the power of 6) as bytes.

    Raises:
        ArgumentError: It is no size, or less than a byte; the message names the option.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match:
        base = 1000 if (match["kind"] or "").lower() == "b" else 1024
        size = int(float(match["number"]) * base ** " kmgt".index(match["unit"].lower() or " "))
    if size < 1:
        raise ArgumentError(f"{option} {text!r} is no size: give bytes, or a number with K, M, G or T, as in 512M.")
    return size


def parse_age(option: str, text: str) -> float:
    """Read ``30d``, ``12h`` or ``4w`` as seconds.

    Raises:
        ArgumentError: It is no such time; the message names the option.
    """
    match = _AGE.fullmatch(text.strip())
    if not match:
        raise ArgumentError(f"{option} {text!r} is no time: give a number with h (hours), d (days) or w (weeks): 30d.")
    return float(match["number"]) * _SECONDS[match["unit"].lower()]
