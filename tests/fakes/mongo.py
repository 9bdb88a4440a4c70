"""A server that speaks MongoDB's wire protocol, with the few commands that writing fixtures and importing them need.

Messages are those of the specification "OP_MSG" of mongodb/specifications. Documents are encoded by the real `bson`,
and the client is the real `pymongo`. Collections are lists in memory, ordered by `_id` as MongoDB orders its types.
"""

import contextlib
import itertools
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import bson

_HEADER = struct.Struct("<iiii")  # length, request, response to, opcode
_REPLY, _QUERY, _MSG = 1, 2004, 2013
_HELLO = {
    "isWritablePrimary": True,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "maxBsonObjectSize": 16 << 20,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "ok": 1,
}
_TYPES = (type(None), float, str, dict, list, bytes, bson.ObjectId, bool)  # the order that MongoDB gives them
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$exists": lambda value, _: value is not None,
    "$eq": lambda value, bound: value == bound,
    "$gte": lambda value, bound: value >= bound,
    "$in": lambda value, bound: value in bound,
}
_BATCH = 3
"""So few documents are sent at a time: a cursor then needs several answers."""


class Mongo:
    """What a server holds.

    Attributes:
        collections: The documents of each `database.collection`.
        login: User name and password that a client must send; None: it need not.
        asked: The commands that came, without hellos.
    """

    def __init__(self) -> None:
        self.collections: dict[str, list[dict[str, Any]]] = {}
        self.login: tuple[str, str] | None = None
        self.asked: list[str] = []
        self.port = 0
        self._cursors: dict[int, list[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, command: dict[str, Any], state: dict[str, bool]) -> dict[str, Any]:
        """Answer a command; `state` is the connection's."""
        name = next(iter(command))
        if name.lower() in ("hello", "ismaster"):
            return _HELLO
        self.asked.append(name)
        if name == "saslStart":
            return self._log_in(command, state)
        if self.login is not None and "logged in" not in state:
            return {"ok": 0, "code": 13, "errmsg": f"command {name} requires authentication"}
        do = getattr(self, f"_{name}", None)
        return do(command) if do else {"ok": 1}  # endSessions, createIndexes, killCursors, ...

    def _log_in(self, command: dict[str, Any], state: dict[str, bool]) -> dict[str, Any]:
        _, user, password = bytes(command["payload"]).decode().split("\0")
        if (user, password) != self.login:
            return {"ok": 0, "code": 18, "errmsg": f"no user {user} with password {password}", "codeName": "Authe"}
        state["logged in"] = True
        return {"conversationId": 1, "done": True, "payload": b"", "ok": 1}

    def _insert(self, command: dict[str, Any]) -> dict[str, Any]:
        documents = self.collections.setdefault(f"{command['$db']}.{command['insert']}", [])
        documents += command["documents"]
        documents.sort(key=lambda document: _order(document["_id"]))
        return {"ok": 1, "n": len(command["documents"])}

    def _listIndexes(self, command: dict[str, Any]) -> dict[str, Any]:
        return _cursor(0, "", "firstBatch", [])

    def _find(self, command: dict[str, Any]) -> dict[str, Any]:
        name = f"{command['$db']}.{command['find']}"
        found = [each for each in self.collections.get(name, []) if _matches(each, command.get("filter", {}))]
        for key, direction in reversed(command.get("sort", {}).items()):
            found.sort(key=lambda document, key=key: _order(document[key]), reverse=direction < 0)
        found = found[command.get("skip", 0) :]
        found = found[: command.get("limit") or None]
        if wanted := command.get("projection"):
            found = [{key: each[key] for key in wanted if key in each} for each in found]
        return self._batch(name, "firstBatch", found)

    def _getMore(self, command: dict[str, Any]) -> dict[str, Any]:
        name = f"{command['$db']}.{command['collection']}"
        return self._batch(name, "nextBatch", self._cursors.pop(command["getMore"]))

    def _batch(self, name: str, key: str, found: list[dict[str, Any]]) -> dict[str, Any]:
        number = 0
        if len(found) > _BATCH:
            number = next(self._numbers)
            self._cursors[number] = found[_BATCH:]
        return _cursor(number, name, key, found[:_BATCH])


def _cursor(number: int, name: str, key: str, batch: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": 1, "cursor": {"id": bson.Int64(number), "ns": name, key: batch}}


def _order(value: Any) -> tuple[int, Any]:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return _TYPES.index(float if is_number else type(value)), value


def _matches(document: dict[str, Any], query: dict[str, Any]) -> bool:
    for key, condition in query.items():
        value: Any = document
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        ((operator, bound),) = condition.items()  # {"$exists": True}
        if not _OPERATORS[operator](value, bound):
            return False
    return True


class _Connection(socketserver.BaseRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        state: dict[str, bool] = {}
        with contextlib.suppress(ConnectionError):
            while head := self._receive(_HEADER.size):
                length, request, _, opcode = _HEADER.unpack(head)
                body = self._receive(length - _HEADER.size)
                command = _query(body) if opcode == _QUERY else _message(body)
                answer = bson.encode(self.server.mongo.answer(command, state))
                if opcode == _QUERY:
                    kind, data = _REPLY, struct.pack("<iqii", 0, 0, 0, 1) + answer
                else:
                    kind, data = _MSG, struct.pack("<IB", 0, 0) + answer
                self.request.sendall(_HEADER.pack(_HEADER.size + len(data), 0, request, kind) + data)

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.request.recv(count - len(data))
            if not part:
                return b""
            data += part
        return data


def _query(body: bytes) -> dict[str, Any]:
    return bson.decode(body[body.index(b"\0", 4) + 1 + 8 :])


def _message(body: bytes) -> dict[str, Any]:
    command: dict[str, Any] = {}
    at = 4
    while at < len(body):
        kind, size = struct.unpack_from("<Bi", body, at)
        part = body[at + 1 : at + 1 + size]
        if kind == 0:
            command |= bson.decode(part)
        else:
            name, _, documents = part[4:].partition(b"\0")
            command[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return command


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, mongo: Mongo) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.mongo = mongo


@contextlib.contextmanager
def serving() -> Iterator[Mongo]:
    """Serve an empty database."""
    mongo = Mongo()
    with _Server(mongo) as server:
        mongo.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield mongo
        finally:
            server.shutdown()
            thread.join()
