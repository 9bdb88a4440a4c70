"""Addresses of files that may carry a login: it is sent, but never shown, logged or stored."""

import re
import urllib.parse
from dataclasses import dataclass, field

# A password should be quoted, but users paste it as it is: after "user:", anything that is not a port is password.
_LOGIN = r"(?P<login>[^/?#{end}]*|[^/?#@:\[\]{end}]*:(?!\d*(?:[/?#{end}]|$))[^{end}]*)@"
_IN_URL = re.compile(r"(?P<scheme>(?:[a-z][a-z0-9+.-]*:)?//)?" + _LOGIN.format(end=r"\n"), re.IGNORECASE)
# One slash: a URL that went through `Path`.
_SCHEME = r"(?P<scheme>[a-z][a-z0-9+.-]+:/{1,2})"
_IN_TEXT = re.compile(_SCHEME + _LOGIN.format(end=r"\s'\""), re.IGNORECASE)
_IN_ADDRESS = re.compile(_SCHEME + _LOGIN.format(end=r"\n"), re.IGNORECASE)
_IS_ADDRESS = re.compile(_SCHEME, re.IGNORECASE)


def public_url(url: str) -> str:
    """Return a URL without its login: ``http://user:secret@host/a`` → ``http://host/a``."""
    match = _IN_URL.match(url)
    return f"{match['scheme'] or ''}{url[match.end() :]}" if match else url


def shown(address: str) -> str:
    """Return a user's address without its logins and its query, which may be a signature. A path stays as it is.

    Chains of file systems are covered: ``zip://a::http://me:secret@host/b?c`` → ``zip://host/b``.
    """
    if not _IS_ADDRESS.search(address):
        return address
    return _IN_ADDRESS.sub(r"\g<scheme>", address).partition("?")[0]


def public_text(text: str, *given: str) -> str:
    """Remove the logins from all URLs in a text, such as the message of another package's error.

    Args:
        text: The text.
        given: Addresses whose queries are removed too. The queries of a dataset's files are not secret.
    """
    for address in given:
        _, mark, query = address.partition("?")
        if query and _IS_ADDRESS.search(address):
            text = text.replace(mark + query, "")
    return _IN_TEXT.sub(r"\g<scheme>", text)


def host(url: str) -> str:
    """Return the host and port of a URL; the URL without its login if it names no host."""
    shown = public_url(url)
    try:
        return urllib.parse.urlsplit(shown).netloc or shown
    except ValueError:  # such as http://[
        return shown


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, and the login to send there.

    Attributes:
        url: Without the login.
        login: User name and password, as HTTP's Basic authentication sends them; None if the URL has none.
    """

    url: str
    login: tuple[bytes, bytes] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Split a URL into its public part and its login."""
        match = _IN_URL.match(url)
        if match is None:
            return cls(url)
        user, _, password = match["login"].partition(":")
        login = urllib.parse.unquote_to_bytes(user), urllib.parse.unquote_to_bytes(password)
        return cls(public_url(url), login if any(login) else None)

    def redirected(self, location: str) -> "Address":
        """Return where a redirect leads; the login is sent again only to the same scheme, host and port.

        Raises:
            ValueError: The location is not a URL.
        """
        there = Address.parse(urllib.parse.urljoin(self.url, location))
        same = urllib.parse.urlsplit(there.url)[:2] == urllib.parse.urlsplit(self.url)[:2]
        return Address(there.url, self.login) if same and there.login is None else there

    def __str__(self) -> str:
        return self.url
