"""Google Drive's pages in place of a file: the question before a large file, and the refusals.

Drive cannot scan files of more than about 100 MB for viruses. It answers with a page whose form asks for the same file
with a token (gdown reads the same form: `gdown/download.py`). Pages are recognised by their content, not by the host,
so that this also works behind a proxy or a mirror of Drive.
"""

import re
import urllib.parse
from html.parser import HTMLParser

from typing_extensions import override

PAGE_BYTES = 256 << 10
"""Bytes of a page that are read; the page with the form has about 2.5 kB."""

_FORM_ID = "download-form"
_OLD_LINK = re.compile(r'href="(/uc\?export=download[^"]*\bconfirm=[^"]+)"')
_REFUSALS = {
    "quota exceeded": (
        "Google Drive does not give this file now: too many people downloaded it today. Try again in a day. If you "
        "have a Google account, make a copy of the file in your own Drive and download that"
    ),
    "sign-in": "the file at Google Drive is not shared with everybody: open the address in a browser and sign in",
    "page not found": "the file is no longer at Google Drive",
}


def confirmed_url(page: str) -> str | None:
    """Return the address of "Download anyway"; None if the page does not ask."""
    form = _Form()
    form.feed(page)
    if form.action:
        separator = "&" if "?" in form.action else "?"
        return f"{form.action}{separator}{urllib.parse.urlencode(form.fields)}" if form.fields else form.action
    link = _OLD_LINK.search(page)
    return link[1].replace("&amp;", "&") if link else None


def refusal(title: str) -> str:
    """Explain a page of Google Drive by its title; "" for any other page."""
    lower = title.lower()
    if "google drive" not in lower and "google accounts" not in lower:
        return ""
    return next((said for words, said in _REFUSALS.items() if words in lower), "")


class _Form(HTMLParser):
    """The action and the hidden fields of Drive's form."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: list[tuple[str, str]] = []
        self._is_inside = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form" and found.get("id") in (_FORM_ID, "downloadForm"):
            self._is_inside, self.action = True, found.get("action", "")
        elif tag == "input" and self._is_inside and found.get("type") == "hidden" and found.get("name"):
            self.fields.append((found["name"], found.get("value", "")))

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
