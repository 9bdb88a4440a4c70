"""URLs with logins: what is shown of them, and what is sent."""

import pytest

from recordzoo.base import settings
from recordzoo.base.text import Address, public_text, public_url, shown
from recordzoo.errors import ArgumentError

SHOWN = {
    "http://me:secret@host:80/a@b?c@d": "http://host:80/a@b?c@d",
    "HTTPS://me@host": "HTTPS://host",
    "http://me:se@cret@host/": "http://host/",
    "http://me:sec/ret@host/": "http://host/",
    "http://me:se#?cret@host/": "http://host/",
    "me:secret@host:3128": "host:3128",
    "http://host:80/a@b": "http://host:80/a@b",
    "http://[::1]:80/a@b": "http://[::1]:80/a@b",
    "http://me:secret@[::1]:80/a": "http://[::1]:80/a",
}


@pytest.mark.parametrize("url", SHOWN)
def test_a_url_without_its_login(url: str) -> None:
    assert public_url(url) == SHOWN[url]
    assert str(Address.parse(url)) == SHOWN[url]
    assert "secret" not in repr(Address.parse(url))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("http://me:secret@host/a?sig=secret", "http://host/a"),
        ("simplecache::http://me:secret@host/a?sig=secret", "simplecache::http://host/a"),
        ("http:/me:secret@host/a", "http:/host/a"),
        ("zip://a::http://me:my secret@host/b?secret", "zip://host/b"),
        ("C:\\a@b?", "C:\\a@b?"),
    ],
)
def test_an_address_that_a_user_gave(address: str, public: str) -> None:
    assert shown(address) == public


def test_a_text_without_the_query_of_an_address_that_was_given() -> None:
    text = "no http://me:secret@host/a?sig=secret here; get it from http://host/b?id=3"
    assert public_text(text, "http://me:secret@host/a?sig=secret", "what?") == (
        "no http://host/a here; get it from http://host/b?id=3"
    )


def test_a_text_without_logins() -> None:
    text = "Failed to parse: 'http://me:secret@host/a@b', me@mail.example (http://me:se/cret@[::1])"
    assert public_text(text) == "Failed to parse: 'http://host/a@b', me@mail.example (http://[::1])"


def test_a_mirror_that_is_refused_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_MIRROR", "me:secret@mirror.example/data")
    for given, what in ((None, "RECORDZOO_MIRROR"), ("you:secret@mirror.example/data", "--mirror.")):
        with pytest.raises(ArgumentError, match=rf"{what} is 'mirror\.example/data'; it must be") as error:
            settings.mirror(given)
        assert "secret" not in str(error.value)
