"""MongoDB: the documents of a collection, or the files of GridFS, by `_id`.

GridFS keeps a file as a document of `<bucket>.files` and pieces in `<bucket>.chunks` (the specification
"gridfs-spec" of mongodb/specifications). A list of names and labels may say another order.
"""

import hashlib
import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from recordzoo.base.files import read_text
from recordzoo.base.settings import need
from recordzoo.base.text import counted, name_first, public_url, shown
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.formats.base import Foreign, Piece, Sample, even_ranges, fault, image_ending, plain
from recordzoo.raw.member import MAX_MEMBER_BYTES

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection

LOOKS_FOR = "an address such as mongodb://host:27017/database/collection"

_SCHEMES = ("mongodb://", "mongodb+srv://")
_ORDER = [("_id", 1)]
_FIRST = 8
_LOOKED_AT = 16
_LEAST_BYTES = 160  # as which each document counts, so that one query has at most 100,000 ids
_FILES = ".files"  # the collection of GridFS with a document for each file
_CONTENT = "content"  # the key of a GridFS file's bytes in a sample
_NAMES = ("img_name", "filename", "file_name", "name", "path")
"""Keys by which documents are found that a list names, the most usual first."""

_NUM_NAMED = 5
_MAX_LIST_BYTES = 4 << 30
_END, _SCAN = b"\xff\xd9", b"\xff\xda"  # the markers of a JPEG: its end, and the beginning of its last pixels
_COMPLETED = "a JPEG without its end marker got one"
_OF_STORAGE = ("length", "chunkSize", "md5", "metadata")  # of a file's document; not read as values

# Any, here and below: documents hold values of all kinds.
_Document = dict[str, Any]


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    return MongoCollection(location, fields) if location.startswith(_SCHEMES) else None


class MongoCollection(Foreign):
    """The documents of a collection, or the files of GridFS; a piece is some of them, by their `_id`s.

    The address with its login is kept in memory and sent to worker processes; messages and record sets omit the login.
    """

    format = "mongodb"

    def __init__(self, location: str, fields: Mapping[str, str]) -> None:
        super().__init__(shown(location), fields)
        need("pymongo", "MongoDB is read")
        self._place = _Address.parse(location)
        with self._connected() as client:
            self._is_gridfs = self._has_files(client)
            documents = self._documents(client)
            first = list(documents.find(sort=_ORDER, limit=_FIRST))
            self._size_bytes = _size_bytes(first, is_gridfs=self._is_gridfs)
            self._ids = [each["_id"] for each in documents.find({}, {"_id": 1}, sort=_ORDER)]
            spread = self._ids[:: max(1, len(self._ids) // _LOOKED_AT)][1:]
            first += documents.find({"_id": {"$in": spread}}, sort=_ORDER)
            samples = [self._values(client, document) for document in first]
            keys = list(dict.fromkeys(key for sample in samples for key in sample))
            keys += [key for key in fields if key not in keys and self._is_anywhere(documents, key)]
        self._keys = self.name_columns({key: [sample.get(key) for sample in samples] for key in keys})
        self._list: _List | None = None
        self._cut()

    def _cut(self) -> None:
        """Cut the `_id`s into pieces."""
        ranges = even_ranges(0, len(self._ids), len(self._ids) * self._size_bytes)
        self.pieces = [
            Piece(f"{self._place.collection}-{number:06d}", self._size_bytes * (stop - start), (), start, stop)
            for number, (start, stop) in enumerate(ranges)
        ]

    @override
    def identity(self) -> str:
        """Of the number of documents, the first `_id` of each piece, and the last `_id`; and of the list."""
        place, ids = self._place, self._ids
        content = [place.database, place.collection, len(ids), *(repr(ids[each.start]) for each in self.pieces)]
        content += [*map(repr, ids[-1:]), *([] if self._list is None else [self._list.digest])]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    @override
    def order_by(self, path: Path) -> None:
        """See `Foreign`: a JSON with `path_list` and `label_list`; a document has the path, or its last part, as name.

        Raises:
            SourceError: The file is no such JSON, or names documents that are not there, or there twice.
        """
        found = self._list = _List.read(path)
        key = next((key for key in _NAMES if key in self._keys), None)
        if key is None:
            raise ArgumentError(f"{self.location}: no document has a name: {' or '.join(_NAMES)} (--list, list_=).")
        with self._connected() as client:
            id_of: dict[str, Any] = {}
            twice: set[str] = set()
            for document in self._documents(client).find({}, {"_id": 1, key: 1}):
                if isinstance(name := document.get(key), str):
                    twice |= {name} if name in id_of else set()
                    id_of[name] = document["_id"]
        names = [name if name in id_of else name.rpartition("/")[2] for name in found.names]
        for what, wrong in (
            ("not found", [name for name, each in zip(found.names, names, strict=True) if each not in id_of]),
            ("found twice", list(twice.intersection(names))),
        ):
            if wrong:
                shown_names = name_first([repr(name[:80]) for name in wrong], _NUM_NAMED)
                raise fault(path, f" lists {counted(len(wrong), 'document')} {what} ({key}): {shown_names}.")
        self._ids, self.classes = [id_of[name] for name in names], found.classes
        self._cut()

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        ids = self._ids[piece.start : piece.stop]
        with self._connected() as client:
            there = {repr(each["_id"]): each for each in self._documents(client).find({"_id": {"$in": ids}})}
            for count, id in enumerate(ids):
                if (document := there.get(repr(id))) is None:
                    raise SourceError(
                        f"{self.location} changed while it was read: there is no document with _id {id!r}. Run the "
                        "same command again."
                    )
                values = self._values(client, document)
                if other := sorted(values.keys() - self._keys.keys()):
                    raise SourceError(
                        f"{self.location}, _id {document['_id']!r}: it has {', '.join(map(repr, other))}, which the "
                        f"first documents have not. Say which field it becomes: --field {other[0]}=FIELD, or "
                        f"fields={{{other[0]!r}: ...}}."
                    )
                sample: dict[str, Any] = {field: values.get(key) for key, field in self._keys.items()}
                if self._list is not None:
                    sample["target"] = self._list.labels[piece.start + count]
                if is_cut := _is_cut(sample.get("image")):
                    sample["image"] += _END
                found = Sample.of(sample, f"{piece.name}/{count:06d}{image_ending(sample)}")
                yield found._replace(remark=_COMPLETED if is_cut else "")

    @contextmanager
    def _connected(self) -> Iterator["MongoClient[_Document]"]:
        """Connect to the server."""
        from bson.errors import BSONError
        from pymongo import MongoClient
        from pymongo.errors import PyMongoError

        try:
            with MongoClient[_Document](self._place.address, appname="recordzoo") as client:
                yield client
        except (PyMongoError, BSONError, ValueError) as err:  # from None: the cause may name the login
            raise SourceError(f"{self.location}: {type(err).__name__}: {self._place.without_login(err)}") from None

    def _has_files(self, client: "MongoClient[_Document]") -> bool:
        """Whether this is the name of a GridFS bucket."""
        database, name = client[self._place.database], self._place.collection
        if database[name].find_one({}, {"_id": 1}) is not None:
            return False
        if database[name + _FILES].find_one({}, {"_id": 1}) is not None:
            return True
        raise NotPreparedError(
            f"{self.location} has no documents, and there are no files of GridFS in {name + _FILES!r}.",
            path=self.location,
        )

    def _is_anywhere(self, documents: "Collection[_Document]", key: str) -> bool:
        """Whether any document, or any file's metadata, has a key; the server scans all if none has."""
        places = (key, f"metadata.{key}") if self._is_gridfs else (key,)
        return any(documents.find_one({place: {"$exists": True}}, {"_id": 1}) is not None for place in places)

    def _documents(self, client: "MongoClient[_Document]") -> "Collection[_Document]":
        return client[self._place.database][self._place.collection + (_FILES if self._is_gridfs else "")]

    def _values(self, client: "MongoClient[_Document]", document: _Document) -> dict[str, Any]:
        """Return the values of a document; for a file: its content, its document's values, and its metadata."""
        if not self._is_gridfs:
            return {key: _value(value) for key, value in document.items()}
        from gridfs import GridOut

        length = document.get("length")
        if not isinstance(length, int) or not 0 <= length <= MAX_MEMBER_BYTES:
            raise SourceError(
                f"{self.location}, _id {document['_id']!r}: its length is {length!r}; {MAX_MEMBER_BYTES:,} bytes are "
                "the limit."
            )
        values = {key: _value(value) for key, value in document.items() if key not in _OF_STORAGE}
        values[_CONTENT] = GridOut(client[self._place.database][self._place.collection], file_document=document).read()
        metadata = document.get("metadata")
        for key, value in metadata.items() if isinstance(metadata, Mapping) else ():
            values[f"metadata_{key}" if key in values else key] = _value(value)
        return values


@dataclass(frozen=True, slots=True)
class _List:
    """Names and labels in the order of the records.

    Attributes:
        names: As the list has them.
        labels: From 0, or as the list has them.
        classes: The labels' names, if the list has texts.
        digest: Changes with the list.
    """

    names: Sequence[str]
    labels: Sequence[int]
    classes: Sequence[str] | None
    digest: str

    @classmethod
    def read(cls, path: Path) -> "_List":
        """Read a JSON with `path_list` and `label_list`.

        Raises:
            SourceError: It is none.
        """
        text = read_text(path, most=_MAX_LIST_BYTES)
        try:
            document = json.loads(text)
            names, labels = document["path_list"], document["label_list"]
        except (ValueError, LookupError, TypeError, RecursionError) as err:
            raise fault(path, f" is no JSON with path_list and label_list ({type(err).__name__}: {err}).") from err
        if not all(isinstance(each, list) for each in (names, labels)) or not 0 < len(names) == len(labels):
            raise fault(path, ": path_list and label_list must be lists of the same length, of one item or more.")
        kinds = {type(label) for label in labels}
        if {type(name) for name in names} != {str} or kinds not in ({int}, {str}):
            raise fault(path, ": path_list must hold texts, and label_list whole numbers only, or texts only.")
        classes = sorted(set(labels)) if kinds == {str} else None
        label_of = {name: label for label, name in enumerate(classes or ())}
        digest = hashlib.sha256(text.encode()).hexdigest()
        return cls(names, [label_of[each] for each in labels] if classes else labels, classes, digest)


def _is_cut(image: Any) -> bool:
    """Whether an image is a JPEG whose end marker is missing: behind the beginning of its last scan there is none."""
    is_jpeg = isinstance(image, bytes) and image.startswith(b"\xff\xd8") and _SCAN in image
    return is_jpeg and image.rfind(_END) < image.rfind(_SCAN)


@dataclass(frozen=True, slots=True)
class _Address:
    """The parts of an address.

    Attributes:
        address: The client's address: with login and options, without the collection.
        login: User name and password as in the address.
        database, collection: Their names.
    """

    address: str = field(repr=False)
    login: str = field(repr=False)
    database: str
    collection: str

    @classmethod
    def parse(cls, location: str) -> "_Address":
        """Split an address."""
        scheme, _, rest = public_url(location).partition("://")
        login = location[len(scheme) + len("://") : len(location) - len(rest)]
        path, question, options = rest.partition("?")
        hosts, _, names = path.partition("/")
        database, _, collection = names.rstrip("/").partition("/")
        if not (hosts and database and collection):
            raise ArgumentError(
                f"{shown(location)} names no collection. An address is "
                "mongodb://HOST:PORT/DATABASE/COLLECTION; for GridFS, COLLECTION is the bucket, such as fs."
            )
        address = f"{scheme}://{login}{hosts}/{database}{question}{options}"
        unquote = urllib.parse.unquote
        return cls(address, login.removesuffix("@"), unquote(database), unquote(collection))

    def without_login(self, err: Exception) -> str:
        """Return the message of an error without the login."""
        text, password = str(err), self.login.partition(":")[2]
        for secret in (self.login, password, urllib.parse.unquote(password)):
            text = text.replace(secret, "***") if secret else text
        return text[:500]


def _size_bytes(first: Sequence[_Document], *, is_gridfs: bool) -> int:
    """Estimate the bytes of a document from the first ones."""
    import bson

    sizes = [each.get("length") if is_gridfs else len(bson.encode(each)) for each in first]
    known = [size for size in sizes if isinstance(size, int) and 0 < size <= MAX_MEMBER_BYTES]
    return max(_LEAST_BYTES, sum(known) // len(known)) if known else _LEAST_BYTES


def _value(value: Any) -> Any:
    """Convert a BSON value for a record: all but bytes as JSON has it."""
    return bytes(value) if isinstance(value, bytes) else plain(value)
