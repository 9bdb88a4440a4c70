"""MongoDB: a collection of documents with the image as `bson_img`, on a server that is there already."""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recordzoo.bench.formats.base import Finish, Format, Place, Reading, Samples, map_loader

_INSERT_TOGETHER = 100
_PATIENCE_MS = 5000


def write(samples: Samples, place: Place) -> None:
    """Insert the documents into a database of their own."""
    with _connect(place) as client:
        images = client[_database(place)]["images"]
        for first in range(0, len(samples), _INSERT_TOGETHER):
            group = enumerate(samples[first : first + _INSERT_TOGETHER], first)
            images.insert_many(
                [{"_id": n, "bson_img": Path(path).read_bytes(), "label": label} for n, (path, label) in group]
            )


# Any: batches.
def read(place: Place, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    return map_loader(_Images(place, reading.finish()), reading)


class _Images:
    """The dataset; each process connects for itself, because a connection may not cross a fork."""

    def __init__(self, place: Place, finish: Finish) -> None:
        self.place, self.finish = place, finish
        with _connect(place) as client:
            self.count = int(client[_database(place)]["images"].estimated_document_count())

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        document = self._images.find_one({"_id": index})
        return self.finish(document["bson_img"]), document["label"]

    def __del__(self) -> None:
        if "_client" in vars(self):
            self._client.close()

    @functools.cached_property
    def _client(self) -> Any:
        return _connect(self.place)

    @functools.cached_property
    def _images(self) -> Any:
        return self._client[_database(self.place)]["images"]


def size(place: Place) -> int:
    """Return what the server says the database takes on its disk."""
    with _connect(place) as client:
        stats = client[_database(place)].command("dbStats")
    return int(stats["storageSize"] + stats["indexSize"])


def remove(place: Place) -> None:
    """Drop the database."""
    with _connect(place) as client:
        client.drop_database(_database(place))


def _connect(place: Place) -> Any:
    import pymongo

    return pymongo.MongoClient(place.server, serverSelectionTimeoutMS=_PATIENCE_MS)


def _database(place: Place) -> str:
    """Name the database after the folder, so that no other of the server is touched."""
    return f"recordzoo_bench_{hashlib.blake2b(str(place.folder).encode(), digest_size=8).hexdigest()}"


FORMAT = Format(
    "mongodb",
    "MongoDB",
    write,
    read,
    "`find_one` of pymongo, by `_id`",
    ("pymongo",),
    "pip install pymongo",
    size=size,
    remove=remove,
    is_local=False,
)
