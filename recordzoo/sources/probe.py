"""Ask an address whether it still has a file, and of which size, without downloading it."""

from dataclasses import dataclass
from enum import StrEnum

from recordzoo.addresses import Address
from recordzoo.errors import DownloadError
from recordzoo.sources import _http
from recordzoo.sources._http import Session, TryAgainError

_ATTEMPTS = 2


class State(StrEnum):
    """What an address answers."""

    OK = "ok"
    UNCOMPARED = "uncompared"  # it has a file; its size is not known to us, or not said by the host
    OTHER_SIZE = "other size"
    WEB_PAGE = "web page"
    REFUSED = "refused"  # any status of 4xx but those of "gone", a certificate, a redirect that is not followed
    GONE = "gone"  # 404 or 410
    UNREACHABLE = "unreachable"  # no answer, or an error of the server

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to look at the address."""
        return self not in (State.OK, State.UNCOMPARED)


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer.

    Attributes:
        url: The address, without a login.
        state: What it amounts to.
        size_bytes: The size that the host says; None if it does not.
        said: The error, or the title of the web page; "" if all is well.
    """

    url: str
    state: State
    size_bytes: int | None = None
    said: str = ""


def probe(url: str, size_bytes: int | None) -> Probe:
    """Ask for the first byte of a file. What may pass by is asked for twice.

    Args:
        url: Its address.
        size_bytes: The size that it should have, if known.
    """
    address = Address.parse(url)
    said = ""
    for _ in range(_ATTEMPTS):
        try:
            return _ask(address, size_bytes)
        except TryAgainError as err:
            said = str(err)
        except DownloadError as err:
            gone = err.details.get("status") in (404, 410)
            return Probe(address.url, State.GONE if gone else State.REFUSED, said=str(err))
    return Probe(address.url, State.UNREACHABLE, said=said)


def _ask(address: Address, size_bytes: int | None) -> Probe:
    with Session() as session, _http.get(session, address, {"Range": "bytes=0-0"}) as answer:
        title = None if answer.status == 416 else answer.page_title(answer.read())
        if title is not None:
            return Probe(address.url, State.WEB_PAGE, said=title)
        total = answer.total
    if total is None or size_bytes is None:
        return Probe(address.url, State.UNCOMPARED, total)
    return Probe(address.url, State.OK if total == size_bytes else State.OTHER_SIZE, total)
