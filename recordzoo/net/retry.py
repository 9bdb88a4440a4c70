"""How often a failed request is retried, and the pauses between."""

import datetime
import email.utils
import random

ATTEMPTS = 5
"""Failures in a row without a new byte. A line that drops every 100 MB still brings 148 GB."""

BACKOFF_S = 1.0
"""The first pause in seconds. Each pause doubles, up to `BACKOFF_CAP_S`, less a random part of up to a half."""

BACKOFF_CAP_S = 30.0

RETRY_AFTER_CAP_S = 300.0
"""Seconds. A host that asks for a longer pause counts as failed."""

_FOREVER_S = 1e9


class TryAgainError(Exception):
    """This attempt failed, another may succeed; not raised outside this room.

    Args:
        reason: The failure, in words that follow a file's name and a colon.
        wait_s: The pause that the server asks for; None: the caller chooses.
        from_zero: This address cannot continue the present bytes.
        slow_bytes: How many bytes of this attempt came too slowly to count as progress.
    """

    def __init__(
        self, reason: str, *, wait_s: float | None = None, from_zero: bool = False, slow_bytes: int = 0
    ) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.from_zero = from_zero
        self.slow_bytes = slow_bytes


def pause_s(failed: int) -> float:
    """Return the pause after `failed` failures in a row.

    Half of it is random, so that a thousand jobs that lost the same server do not return at once. It uses its own
    generator: jobs that seed `random` alike would wait alike.
    """
    return min(BACKOFF_CAP_S, BACKOFF_S * 2.0 ** max(0, failed - 1)) * random.Random().uniform(0.5, 1.0)


def retry_after_s(text: str, now: datetime.datetime) -> float | None:
    """Parse a Retry-After header, seconds or a date; None if it is neither (RFC 9110, section 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _FOREVER_S)
    try:
        when = email.utils.parsedate_to_datetime(text)
        if when.tzinfo is None:  # "-0000": UTC from a clock without a zone
            when = when.replace(tzinfo=datetime.UTC)
        return max(0.0, (when - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
