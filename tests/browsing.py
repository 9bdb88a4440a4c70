"""Chromium, without a window: pages that note what goes wrong on them and what they ask for."""

import contextlib
import functools
import http.server
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # a container's root has no other way
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
DESKTOP, PHONE = 1280, 390
"""Widths in pixels."""

_LOOPBACK = ("127.0.0.1", "localhost")


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome of this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def start_chromium() -> Iterator[Browser]:
    """Start the browser; there has to be one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page of the browser.

    Attributes:
        page: Playwright's.
        problems: Errors in the console, exceptions of scripts, requests that failed.
        strangers: Requests to other machines.
    """

    page: Page
    problems: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page, problems = self.page, self.problems
        page.on("console", lambda message: message.type == "error" and problems.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda err: problems.append(f"{page.url}: {err}"))
        page.on("requestfailed", self._note_failure)
        page.on("response", lambda it: it.status >= 400 and problems.append(f"{page.url}: {it.url} {it.status}"))
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self._note(request.url))

    def _note_failure(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left meanwhile
            self.problems.append(f"{self.page.url}: {request.url} {request.failure}")

    def _refuse(self, dialog) -> None:
        self.problems.append(f"{self.page.url}: a script says {dialog.message!r}")
        dialog.dismiss()

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "file") and parts.hostname not in _LOOPBACK:
            self.strangers.append(url)

    def sideways(self) -> int:
        """Return by how many pixels the page is wider than the window."""
        return self.page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")

    def faults(self, context: dict | None = None) -> list[str]:
        """Return what axe finds by all of its rules, in a line each.

        Args:
            context: What axe looks at, in its own words. Default: the whole page.
        """
        found = Axe().run(self.page, context=context, options={"resultTypes": ["violations"]}).response
        return [
            f"{rule['id']}: {' '.join(map(str, node['target']))}: {_told(node)}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]


def _told(node: dict) -> str:
    return node["failureSummary"].replace("\n", " ")


@contextlib.contextmanager
def watched(browser: Browser, *, width: int = DESKTOP, dark: bool = False) -> Iterator[Watched]:
    """Open an empty page of some width, on a system whose colours are light or dark."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce", locale="en-US"
    )
    context.set_default_timeout(20_000)
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on the loopback interface; yields its address, with a slash at the end."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pages_of(site: Path) -> Sequence[str]:
    """List the pages of a built site, as addresses below it: "", "cli/", ..."""
    found = sorted(path.relative_to(site).parent.as_posix() for path in site.rglob("index.html"))
    return ["" if name == "." else f"{name}/" for name in found]
