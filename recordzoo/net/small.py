"""A small file of a server, in memory: one request with one time limit."""

import threading
from concurrent.futures import Future

from recordzoo.base.addresses import Address
from recordzoo.base.progress import format_bytes
from recordzoo.errors import DownloadError, RecordZooError
from recordzoo.net.retry import TryAgainError


def fetch_small(address: Address, *, most_bytes: int, time_s: float) -> bytes:
    """Fetch a file; redirects are followed as for downloads, from https only to https.

    Args:
        address: Where it is.
        most_bytes: Its maximum size.
        time_s: Time limit for all of it: a thread does the work, so that no way of being slow exceeds the limit.

    Raises:
        DownloadError: It cannot be had, in time or at all, or is larger.
    """
    fetched: Future[bytes] = Future()

    def fetch() -> None:
        try:
            fetched.set_result(_body(address, most_bytes))
        except (RecordZooError, TryAgainError) as err:
            fetched.set_exception(err)

    threading.Thread(target=fetch, name="recordzoo-fetch-small", daemon=True).start()
    try:
        return fetched.result(time_s)
    except TimeoutError as err:
        raise DownloadError(f"it was not there within {time_s:g} s") from err
    except TryAgainError as err:
        raise DownloadError(str(err)) from err


def _body(address: Address, most_bytes: int) -> bytes:
    from recordzoo.net.http import Session, get  # imports requests

    body = bytearray()
    with Session() as session, get(session, address, {}) as answer:
        while chunk := answer.read():
            body += chunk
            if len(body) > most_bytes:
                raise DownloadError(f"it is larger than {format_bytes(most_bytes)}")
        if answer.total not in (None, len(body)):
            raise DownloadError(f"{len(body)} of its {answer.total} bytes came")
    return bytes(body)
