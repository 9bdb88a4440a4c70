"""How often a failed request is repeated, and after which pause."""

import datetime
import email.utils
import random

ATTEMPTS = 5
"""How often in a row a request may fail without a new byte. So a line that drops every 100 MB still brings 148 GB."""

BACKOFF_S = 1.0
"""The first pause. Each further one is twice as long, up to `BACKOFF_CAP_S`, less a random part of up to a half."""

BACKOFF_CAP_S = 30.0

RETRY_AFTER_CAP_S = 300.0
"""A host that asks for a longer pause counts as failed."""

_FOREVER_S = 1e9


class TryAgainError(Exception):
    """This attempt failed and another may not; never leaves this room.

    Args:
        reason: What happened, to follow a file's name and a colon.
        wait_s: What the server asks for; None: as long as the caller thinks right.
        from_zero: The bytes that are there cannot be continued at this address.
        slow_bytes: How many of the bytes that this attempt brought came too slowly to be called progress.
    """

    def __init__(
        self, reason: str, *, wait_s: float | None = None, from_zero: bool = False, slow_bytes: int = 0
    ) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.from_zero = from_zero
        self.slow_bytes = slow_bytes


def pause_s(failed: int) -> float:
    """Return the pause after so many failures in a row.

    Half of it is random, so that a thousand jobs that lost the same server do not come back at once. The generator is
    a new one: jobs that seed `random` alike would wait alike.
    """
    return min(BACKOFF_CAP_S, BACKOFF_S * 2.0 ** max(0, failed - 1)) * random.Random().uniform(0.5, 1.0)


def retry_after_s(text: str, now: datetime.datetime) -> float | None:
    """Read a Retry-After header, seconds or a date; None if it is neither (RFC 9110, section 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _FOREVER_S)
    try:
        when = email.utils.parsedate_to_datetime(text)
        if when.tzinfo is None:  # "-0000": UTC, of a clock that does not know its zone
            when = when.replace(tzinfo=datetime.UTC)
        return max(0.0, (when - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
