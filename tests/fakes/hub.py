"""A Hugging Face Hub on the loopback interface that stores what huggingface_hub sends: commits, large files, buckets.

Its clients have HF_ENDPOINT=hub.url and a token of one of its users in HF_TOKEN.
Large files come by Git LFS, or by Xet where the client has hf_xet and HF_HUB_DISABLE_XET is not set.
"""

import base64
import hashlib
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes import xet
from tests.fakes.server import Answering

_ATTRIBUTES = b"*.npy filter=lfs diff=lfs merge=lfs -text\n"
_LARGE = re.compile(rb"\0|[\x80-\xff]")
_DATASET = r"/api/datasets/([^/]+/[^/]+)"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Repository:
    """A dataset's repository."""

    private: bool = False
    # The commits of each branch, the newest last: its name and the bytes of each file.
    branches: dict[str, list[tuple[str, dict[str, bytes]]]] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)  # SHA-256 of each large file; the others are in git itself

    def __post_init__(self) -> None:
        self.commit("main", {".gitattributes": _ATTRIBUTES})

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """The files at a branch or commit."""
        found = self.find(revision)
        assert found is not None
        return found[1]

    def find(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision in self.branches:
            return self.branches[revision][-1]
        every = [commit for commits in self.branches.values() for commit in commits]
        return next((commit for commit in every if commit[0] == revision), None)

    def commit(self, branch: str, files: dict[str, bytes]) -> str:
        commits = self.branches.setdefault(branch, [])
        name = hashlib.sha1(f"{branch} {len(commits)} {sorted(files)}".encode()).hexdigest()
        commits.append((name, files))
        return name


@dataclass
class Answer:
    """An answer of the server."""

    status: int
    data: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Refusal(Exception):
    """Ends a request with an answer."""

    answer: Answer


def _json(value: Any) -> Answer:
    return Answer(200, json.dumps(value).encode())


def _error(status: int, code: str, message: str) -> Answer:
    return Answer(status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message})


class Hub(Answering):
    """The server; `users` are those of each token."""

    def __init__(self, users: dict[str, str]) -> None:
        self.users = users
        self.datasets: dict[str, Repository] = {}
        self.buckets: dict[str, dict[str, bytes]] = {}
        self.log: list[tuple[str, str]] = []  # method and path of each request
        self.uploads: list[str] = []  # SHA-256 of each large file that was sent by LFS, in order
        self.xorbs: dict[str, list[bytes]] = {}  # the chunks that were sent by Xet, by name
        # Called with method and path before a request is answered; a returned answer is sent.
        self.before: Callable[[str, str], Answer | None] = lambda method, path: None
        self._objects: dict[str, bytes] = {}  # large files, by SHA-256 and by Xet's hash
        self._lock = threading.Lock()
        super().__init__()

    def requests(self, pattern: str) -> list[str]:
        """The requests of a kind, as ``METHOD path``."""
        return [text for text in map(" ".join, self.log) if re.search(pattern, text)]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if "chunked" in request.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(request.rfile.readline(), 16):
                body += request.rfile.read(size)
                request.rfile.readline()
            request.rfile.readline()
        else:
            body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        parts = urllib.parse.urlsplit(request.path)
        path = urllib.parse.unquote(parts.path)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        user = self.users.get(token)
        method = request.command
        found = self.before(method, path)
        with self._lock:
            self.log.append((method, path))
            if found is None and token and user is None and not path.startswith("/cas/"):
                found = _error(401, "", "Invalid credentials in Authorization header")
            if found is None:
                found = self._route(method, parts.path, parts.query, request.headers.get("Range", ""), body, user)
        request.send_response(found.status)
        length = str(len(found.data))
        for name, value in {"Content-Type": "application/json", "Content-Length": length, **found.headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if method != "HEAD":
            request.wfile.write(found.data)

    def _route(self, method: str, path: str, query: str, part: str, body: bytes, user: str | None) -> Answer:
        for pattern, function in (
            (r"POST /api/repos/create", self._create),
            (r"POST /api/validate-yaml", self._validate),
            (rf"GET {_DATASET}(?:/revision/([^/]+))?", self._info),
            (rf"GET {_DATASET}/tree/([^/]+)(?:/(.+))?", self._tree),
            (r"(?:GET|HEAD) /datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self._resolve),
            (rf"POST {_DATASET}/preupload/([^/]+)", self._preupload),
            (r"POST /datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self._batch),
            (r"PUT /upload/(\w+)", self._upload),
            (rf"POST {_DATASET}/commit/([^/]+)", self._commit),
            (r"GET /api/(datasets|buckets)/([^/]+/[^/]+)/xet-write-token(?:/[^/]+)?", self._xet_token),
            (r"GET /cas/v1/chunks/.*", lambda each: Answer(404)),
            (r"POST /cas/v1/xorbs/default/(\w+)", self._xorb),
            (r"POST /cas/v1/shards", self._shard),
            (r"GET /api/buckets/([^/]+/[^/]+)", self._bucket),
            (r"GET /api/buckets/([^/]+/[^/]+)/tree(?:/(.+))?", self._bucket_tree),
            (r"(?:GET|HEAD) /buckets/([^/]+/[^/]+)/resolve/(.+)", self._bucket_file),
            (r"POST /api/buckets/([^/]+/[^/]+)/batch", self._bucket_batch),
        ):
            match = re.fullmatch(pattern, f"{method} {path}")
            if match is not None:
                groups = [None if text is None else urllib.parse.unquote(text) for text in match.groups()]
                try:
                    return function(_Asked(groups, dict(urllib.parse.parse_qsl(query)), part, body, user))
                except Refusal as refusal:
                    return refusal.answer
        return _error(404, "NotFound", f"{method} {path} is nothing that this server knows")

    # Repositories

    def _create(self, asked: "_Asked") -> Answer:
        said = json.loads(asked.body)
        assert said["type"] == "dataset"
        owner = said["organization"] or asked.user
        name = f"{owner}/{said['name']}"
        if asked.user is None:
            return _error(401, "", "Invalid username or password.")
        if name in self.datasets:
            return _error(409, "", "You already created this dataset repo")
        if owner != asked.user:
            return _error(403, "", f'You don\'t have the rights to create a dataset under the namespace "{owner}"')
        self.datasets[name] = Repository(said.get("visibility") == "private")
        return _json({"url": f"{self.url}/datasets/{name}"})

    def _validate(self, asked: "_Asked") -> Answer:
        said = json.loads(asked.body)
        assert said["repoType"] == "dataset"
        return _json({"errors": [], "warnings": []})

    def _found(self, asked: "_Asked") -> tuple[Repository, str, dict[str, bytes]]:
        """The repository and the files at the revision that are asked for."""
        repository = self.datasets.get(asked.groups[0])
        if repository is None or (repository.private and asked.groups[0].partition("/")[0] != asked.user):
            raise Refusal(_error(401 if asked.user is None else 404, "RepoNotFound", "Repository not found"))
        commit = repository.find(asked.groups[1] or "main")
        if commit is None:
            raise Refusal(_error(404, "RevisionNotFound", f"Invalid rev id: {asked.groups[1]}"))
        return repository, *commit

    def _info(self, asked: "_Asked") -> Answer:
        found = self._found(asked)
        siblings = [{"rfilename": name, "size": len(data)} for name, data in found[2].items()]
        return _json({"id": asked.groups[0], "sha": found[1], "siblings": siblings, "tags": []})

    def _tree(self, asked: "_Asked") -> Answer:
        found = self._found(asked)
        tree = _listed(found[2], asked.groups[2], asked.query.get("recursive", "").lower() == "true")
        if tree is None:
            return _error(404, "EntryNotFound", f"{asked.groups[2]} does not exist")
        for entry in tree:
            if entry["type"] == "file" and (large := _sha256(found[2][entry["path"]])) in found[0].large:
                entry["lfs"] = {"oid": large, "size": entry["size"], "pointerSize": 134}
        return _json(tree)

    def _resolve(self, asked: "_Asked") -> Answer:
        found = self._found(asked)
        answer = _file(found[2].get(asked.groups[2]), asked.part)
        if answer.status < 400:
            answer.headers |= {"ETag": f'"{_blob(found[2][asked.groups[2]])}"', "X-Repo-Commit": found[1]}
        return answer

    def _may_write(self, asked: "_Asked") -> tuple[Repository, str, dict[str, bytes]]:
        found = self._found(asked)
        if asked.user != asked.groups[0].partition("/")[0]:
            raise Refusal(_error(403, "", "Forbidden: pass `create_pr=1` to create a Pull Request"))
        return found

    def _preupload(self, asked: "_Asked") -> Answer:
        found = self._may_write(asked)
        modes = []
        for each in json.loads(asked.body)["files"]:
            path, sample = each["path"], base64.b64decode(each["sample"])
            is_large = path.endswith(".npy") or _LARGE.search(sample) is not None or each["size"] > 10 << 20
            there = found[2].get(path)
            oid = None if there is None else _sha256(there) if is_large else _blob(there)
            modes.append({"path": path, "uploadMode": "lfs" if is_large else "regular", "shouldIgnore": False})
            modes[-1] |= {} if oid is None else {"oid": oid}
        return _json({"files": modes})

    def _batch(self, asked: "_Asked") -> Answer:
        asked.groups.append(None)
        self._may_write(asked)
        said = json.loads(asked.body)
        assert said["operation"] == "upload"
        assert "basic" in said["transfers"]
        objects = []
        for each in said["objects"]:
            there = {"oid": each["oid"], "size": each["size"]}
            upload = {"actions": {"upload": {"href": f"{self.url}/upload/{each['oid']}"}}}
            objects.append(there if each["oid"] in self._objects else {**there, **upload})
        return _json({"transfer": "basic", "objects": objects})

    def _upload(self, asked: "_Asked") -> Answer:
        assert _sha256(asked.body) == asked.groups[0]
        self._objects[asked.groups[0]] = asked.body
        self.uploads.append(asked.groups[0])
        return Answer(200, b"")

    def _commit(self, asked: "_Asked") -> Answer:
        repository, parent, before = self._may_write(asked)
        if asked.groups[1] not in repository.branches:
            return _error(404, "RevisionNotFound", f"{asked.groups[1]} is no branch")
        files = dict(before)
        for line in asked.body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header":
                if value.get("parentCommit", parent) != parent:
                    return _error(412, "", "A commit has happened since. Please refresh and try again.")
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                if value["oid"] not in self._objects:
                    return _error(400, "", f"{value['path']} was not uploaded")
                files[value["path"]] = self._objects[value["oid"]]
                repository.large.add(value["oid"])
            else:
                assert key == "deletedFile", item
                del files[value["path"]]
        name = repository.commit(asked.groups[1], files)
        return _json({"commitUrl": f"{self.url}/datasets/{asked.groups[0]}/commit/{name}", "commitOid": name})

    # Xet

    def _xet_token(self, asked: "_Asked") -> Answer:
        if asked.groups[1].partition("/")[0] != asked.user:
            return _error(403, "", "Forbidden")
        return _json({"casUrl": f"{self.url}/cas", "accessToken": "xet", "exp": int(time.time()) + 3600})

    def _xorb(self, asked: "_Asked") -> Answer:
        is_new = asked.groups[0] not in self.xorbs
        self.xorbs[asked.groups[0]] = xet.chunks(asked.body)
        return _json({"was_inserted": is_new})

    def _shard(self, asked: "_Asked") -> Answer:
        for name, terms, sha256 in xet.files(asked.body):
            data = b"".join(b"".join(self.xorbs[xorb][begin:end]) for xorb, begin, end in terms)
            self._objects[name] = data
            if sha256 is not None:
                self._objects[_sha256(data)] = data
        return _json({"result": 1})

    # Buckets

    def _bucket(self, asked: "_Asked") -> Answer:
        files = self.buckets.get(asked.groups[0])
        if files is None:
            return _error(404, "RepoNotFound", "Repository not found")
        sizes = {"size": sum(map(len, files.values())), "totalFiles": len(files)}
        return _json({"id": asked.groups[0], "private": False, "createdAt": "2026-01-02T03:04:05.000Z", **sizes})

    def _bucket_tree(self, asked: "_Asked") -> Answer:
        tree = _listed(self.buckets[asked.groups[0]], asked.groups[1], asked.query.get("recursive") == "true") or []
        return _json([{**entry, "xetHash": "0" * 64} if entry["type"] == "file" else entry for entry in tree])

    def _bucket_file(self, asked: "_Asked") -> Answer:
        return _file(self.buckets[asked.groups[0]].get(asked.groups[1]), asked.part)

    def _bucket_batch(self, asked: "_Asked") -> Answer:
        if asked.groups[0].partition("/")[0] != asked.user:
            return _error(403, "", "Forbidden")
        files = self.buckets[asked.groups[0]]
        for line in asked.body.splitlines():
            item = json.loads(line)
            if item["type"] == "deleteFile":
                del files[item["path"]]
            else:
                assert item["type"] == "addFile"
                files[item["path"]] = self._objects[item["xetHash"]]
        return _json({"success": True, "failed": []})


@dataclass
class _Asked:
    """A request: the parts of its path, its query, range and body, and its user."""

    groups: list[Any]
    query: dict[str, str]
    part: str
    body: bytes
    user: str | None


def _listed(files: dict[str, bytes], folder: str | None, recursive: bool) -> list[dict[str, Any]] | None:
    """The entries of a folder; None if there is none."""
    start = f"{folder}/" if folder else ""
    below = {name: data for name, data in files.items() if name.startswith(start)}
    if not below and folder:
        return None
    entries: list[dict[str, Any]] = []
    for name, data in below.items():
        *above, _ = name.removeprefix(start).split("/")
        for depth in range(1, len(above) + 1) if recursive else range(1, min(len(above), 1) + 1):
            path = start + "/".join(above[:depth])
            if all(entry["path"] != path for entry in entries):
                entries.append({"type": "directory", "path": path, "oid": "0" * 40, "size": 0})
        if recursive or not above:
            entries.append({"type": "file", "path": name, "size": len(data), "oid": _blob(data)})
    return entries


def _file(data: bytes | None, part: str) -> Answer:
    if data is None:
        return _error(404, "EntryNotFound", "Entry not found")
    match = _RANGE.fullmatch(part)
    headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    if match is None:
        return Answer(200, data, headers)
    begin, end = int(match[1]), min(len(data), int(match[2] or len(data)) + 1)
    if begin >= len(data):
        return Answer(416, b"", headers)
    return Answer(206, data[begin:end], {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
