"""`tools/check_sources.py`: every way in which hosts answer, from a server on loopback."""

import dataclasses
import itertools

import pytest

from recordzoo import catalogue
from recordzoo.catalogue import FileFacts
from tests.fakes.server import Fault, FileServer
from tests.preparing import REPOSITORY
from tools.check_sources import State, main, probe

DATA = bytes(range(256)) * 40
PAGE = b"<!DOCTYPE html><html><head><title>Moved house</title></head></html>"
CONFIRM = (
    b'<!DOCTYPE html><html><title>Google Drive - Virus scan warning</title><form id="download-form" action="/good">'
    b'<input type="hidden" name="confirm" value="t"></form></html>'
)

ANSWERS = {
    "as it should be": (Fault(), State.OK, len(DATA)),
    "the whole file for a range": (Fault(ignore_range=True), State.OK, len(DATA)),
    "a redirect": (Fault(location="/good"), State.OK, len(DATA)),
    "Google Drive's question": (Fault(body=CONFIRM, content_type="text/html", ignore_range=True), State.OK, len(DATA)),
    "no length": (Fault(ignore_range=True, length="chunked"), State.UNCOMPARED, None),
    "another size": (Fault(body=DATA[:-1]), State.OTHER_SIZE, len(DATA) - 1),
    "another size for a range": (Fault(content_range=f"bytes 0-0/{len(DATA) + 5}"), State.OTHER_SIZE, len(DATA) + 5),
    "a page in its place": (Fault(body=PAGE, content_type="text/html", ignore_range=True), State.WEB_PAGE, None),
    "a redirect to a page": (Fault(location="/page"), State.WEB_PAGE, None),
    "gone": (Fault(status=404), State.GONE, None),
    "gone for good": (Fault(status=410), State.GONE, None),
    "a redirect to nowhere": (Fault(location="/nowhere"), State.GONE, None),
    "a login": (Fault(status=403), State.REFUSED, None),
    "a redirect in a loop": (Fault(location="/file"), State.REFUSED, None),
    "recompressed": (Fault(encoding="gzip"), State.REFUSED, None),
    "busy": (Fault(status=503), State.UNREACHABLE, None),
    "silence": (Fault(mute=True), State.UNREACHABLE, None),
    "no HTTP": (Fault(raw=b"go away\r\n"), State.UNREACHABLE, None),
}


def serve(fault: Fault, *, always: bool = True) -> FileServer:
    answers = itertools.repeat(fault) if always else [fault]
    page = itertools.repeat(Fault(content_type="text/html", ignore_range=True))
    return FileServer({"file": DATA, "good": DATA, "page": PAGE}, {"file": answers, "page": page})


@pytest.mark.parametrize(("fault", "state", "size_bytes"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(fault: Fault, state: State, size_bytes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_TIMEOUT", "0.3")
    with serve(fault) as server:
        found = probe(f"{server.url}/file", len(DATA))
        sent = sum(request.sent for request in server.log if request.path != "page")
    assert (found.state, found.size_bytes) == (state, size_bytes)
    assert bool(found.said) == state.is_bad or state is State.OTHER_SIZE
    assert sent <= 2 * len(DATA)  # this server's buffer; of a real file only what is on its way is lost


def test_a_size_that_nobody_knows_is_not_compared() -> None:
    with serve(Fault()) as server:
        assert probe(f"{server.url}/file", None).state is State.UNCOMPARED


def test_what_passes_by_is_asked_for_twice() -> None:
    with serve(Fault(status=503), always=False) as server:
        assert probe(f"{server.url}/file", len(DATA)).state is State.OK
        assert len(server.log) == 2


class TestCommand:
    @pytest.fixture
    def server(self, monkeypatch: pytest.MonkeyPatch) -> FileServer:
        """A server, whose addresses USPS's files have."""
        server = serve(Fault(status=404))
        entry = catalogue.entry("usps")
        files = (
            FileFacts("a.bz2", urls=(f"{server.url}/file", f"{server.url}/good"), size_bytes=len(DATA)),
            FileFacts("b.bz2", urls=(f"{server.url}/good",)),
        )
        monkeypatch.setattr(catalogue, "entry", lambda name: dataclasses.replace(entry, files=files))
        return server

    def test_a_line_for_each_address(self, server: FileServer, capsys: pytest.CaptureFixture[str]) -> None:
        with server:
            assert main(["usps"]) == 1
        said = capsys.readouterr()
        states = [line.split()[1:3] for line in said.out.splitlines()]
        assert states == [["FILE", "STATE"], ["a.bz2", "gone"], ["a.bz2", "ok"], ["b.bz2", "uncompared"]]
        assert f"{server.url}/file" in said.out
        assert "usps: " in said.err
        assert "404 Not Found" in said.err
        assert "3 addresses: ok 1, uncompared 1, gone 1." in said.err


def test_the_page_explains_every_state() -> None:
    page = (REPOSITORY / "docs" / "sources.md").read_text(encoding="utf-8")
    assert all(f"\n| {state.value} | " in page for state in State)


def test_an_unknown_dataset_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["uspss"])
    assert "Did you mean usps" in capsys.readouterr().err
