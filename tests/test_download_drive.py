"""Google Drive's pages: the question before a large file is answered, and a refusal is named."""

import itertools
from pathlib import Path

import pytest

from recordzoo.errors import DownloadError
from recordzoo.net.url import RemoteFile
from tests.downloading import (
    DATA,
    files,
    get,
    leave_part,
    quick,  # noqa: F401 - a fixture
    remote,
)
from tests.fakes.server import Fault, FileServer

FIELDS = "id=1AbC&export=download&confirm=t&uuid=c0ffee-1"
_HEAD = '<!DOCTYPE html><html><head><title>Google Drive - {}</title><meta http-equiv="content-type"/></head><body>'
QUESTION = (
    _HEAD.format("Virus scan warning")
    + '<form id="search" action="/search"><input type="hidden" name="q" value="no"></form>'
    + '<form id="download-form" action="{action}" method="get"><input type="submit" id="uc-download-link" value="Go"/>'
    + "".join(
        f'<input type="hidden" name="{name}" value="{value}">'
        for name, value in (pair.split("=") for pair in FIELDS.split("&"))
    )
    + "</form></body></html>"
)


def page(text: str) -> Fault:
    return Fault(body=text.encode(), content_type="text/html; charset=utf-8", ignore_range=True)


def drive(text: str) -> FileServer:
    """Serve a page at /uc, however often it is asked for, and the file at /download; {url} is the server's own."""
    made: list[FileServer] = []
    answers = (page(text.replace("{url}", made[0].url)) for _ in itertools.count())
    made.append(FileServer({"download": DATA}, {"uc": answers}))
    return made[0]


def shared(server: FileServer) -> RemoteFile:
    return remote(urls=(f"{server.url}/uc?id=1AbC&export=download",))


@pytest.mark.parametrize("action", ["{url}/download", "/download"])  # Drive writes the first
def test_the_question_before_a_large_file_is_answered(tmp_path: Path, action: str) -> None:
    with drive(QUESTION.replace("{action}", action)) as server:
        assert get(shared(server), tmp_path).read_bytes() == DATA
        assert [(request.path, request.query) for request in server.log] == [
            ("uc", "id=1AbC&export=download"),
            ("download", FIELDS),
        ]


def test_a_download_from_drive_is_resumed(tmp_path: Path) -> None:
    leave_part(tmp_path, DATA[:1000])
    with drive(QUESTION.replace("{action}", "/download")) as server:
        assert get(shared(server), tmp_path).read_bytes() == DATA
        assert server.sent("download") == len(DATA) - 1000
    with drive(QUESTION.replace("{action}", "/download")) as server:
        server.fail("download", [Fault(drop_after=5000)])
        (tmp_path / "again").mkdir()
        assert get(shared(server), tmp_path / "again").read_bytes() == DATA
        assert server.sent("download") == len(DATA)


def test_a_question_that_leads_to_itself_is_not_asked_for_ever(tmp_path: Path) -> None:
    with drive(QUESTION.replace("{action}", "/uc")) as server, pytest.raises(DownloadError, match="in a loop"):
        get(shared(server), tmp_path)
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Quota exceeded", "too many people downloaded it today. Try again in a day"),
        ("Page Not Found", "the file is no longer at Google Drive"),
        ("Something new", "a web page titled 'Google Drive - Something new'"),
    ],
)
def test_a_refusal_is_named(tmp_path: Path, title: str, said: str) -> None:
    with drive(_HEAD.format(title) + "</body></html>") as server, pytest.raises(DownloadError, match=said):
        get(shared(server), tmp_path)
    assert files(tmp_path) == set()
