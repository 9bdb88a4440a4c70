"""Prefetched values, many per request, kept in memory until they are read."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from recordzoo.errors import RecordError

logger = logging.getLogger("recordzoo")

AHEAD_BYTES = 1 << 30
"""Maximum bytes of hinted, unread values; further values are fetched when they are read."""

MAX_GAP_BYTES = 16 << 10
"""Maximum gap between two values of one request; requests run in parallel, so extra bytes cost more."""

MAX_SPAN_BYTES = 8 << 20
"""Maximum size of a request, unless one value is larger."""

Key = tuple[int, int, int]  # shard, offset, length


@dataclass(eq=False, slots=True)
class Span:
    """A fetched or pending range of a shard, with the keys of its values that were not taken yet."""

    begin: int
    end: int
    data: Future[bytes]
    keys: set[Key] = field(default_factory=set)

    def value(self, offset: int, length: int) -> bytes | None:
        """Return a value; None if the fetch failed: the caller then fetches the value alone."""
        try:
            return self.data.result()[offset - self.begin :][:length]
        except RecordError as err:
            logger.debug("not fetched ahead: %s", err)
            return None


class Ahead:
    """The values that this process has prefetched; a forked child starts empty."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.spans: OrderedDict[Key, Span] = OrderedDict()
        self.num_bytes = 0
        self.coming: set[int] = set()
        self.last = (-1, 0)  # a shard, and the number of values read from it in a row

    def put(self, span: Span) -> None:
        """Keep a span until its values are taken; drop the oldest spans if there are too many bytes."""
        with self.lock:
            for key in span.keys:
                self.spans[key] = span
            self.num_bytes += span.end - span.begin
            while self.num_bytes > AHEAD_BYTES and self.spans:
                self._taken(*self.spans.popitem(last=False))

    def take(self, key: Key) -> Span | None:
        """Return the span that contains a value, and drop the value's key."""
        with self.lock:
            span = self.spans.pop(key, None)
            if span is not None:
                self._taken(key, span)
            return span

    def _taken(self, key: Key, span: Span) -> None:
        span.keys.discard(key)
        if not span.keys:
            self.num_bytes -= span.end - span.begin


def near(keys: Sequence[Key]) -> list[list[Key]]:
    """Group values, sorted by shard and offset, into requests."""
    groups: list[list[Key]] = []
    end = 0
    for key in keys:
        shard, offset, length = key
        group = groups[-1] if groups else []
        is_near = bool(group) and group[0][0] == shard and offset - end <= MAX_GAP_BYTES
        if is_near and max(end, offset + length) - group[0][1] <= MAX_SPAN_BYTES:
            group.append(key)
            end = max(end, offset + length)
        else:
            groups.append([key])
            end = offset + length
    return groups
