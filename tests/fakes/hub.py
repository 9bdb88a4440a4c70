"""A small Hugging Face Hub on the loopback interface: the requests that huggingface_hub makes for one dataset.

with HubServer("user/birds", folder, token="hf_x") as hub:
    ...  # a process with HF_ENDPOINT=hub.url
    assert hub.sent == ["data/train-00000-of-00001.parquet"]
"""

import hashlib
import json
import urllib.parse
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.fakes.server import Answering

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubServer(Answering):
    """Serves the files of a folder as a dataset's repository.

    Args:
        repository: Its name.
        folder: The files.
        token: If given, only who sends it gets anything.

    Attributes:
        sent: The files whose bytes were sent.
    """

    def __init__(self, repository: str, folder: Path, token: str = "") -> None:
        self.repository, self.folder, self.token = repository, folder, token
        self.sent: list[str] = []
        super().__init__()

    def files(self) -> dict[str, bytes]:
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            _send(request, 401, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif path.startswith(f"/api/datasets/{self.repository}/revision/"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files().items()]
            _send(request, 200, _json({"id": self.repository, "sha": COMMIT, "siblings": siblings, "tags": []}))
        elif path.startswith(f"/api/datasets/{self.repository}/tree/{COMMIT}"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.files().items()
            ]
            _send(request, 200, _json(tree))
        elif path.startswith(start := f"/datasets/{self.repository}/resolve/{COMMIT}/"):
            self._send_file(request, path.removeprefix(start))
        else:
            _send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _send_file(self, request: BaseHTTPRequestHandler, name: str) -> None:
        data = self.files().get(name)
        if data is None:
            _send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        if request.command == "GET":
            self.sent.append(name)
        _send(request, 200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT})


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _send(request: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **(headers or {}),
    }.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(data)
