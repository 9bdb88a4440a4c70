"""LSUN by code: zips of LMDB databases, as lmdb writes them; keys of 40 hexadecimal digits, put in any order."""

import contextlib
import functools
import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import lmdb
import numpy as np
from torchvision.datasets import LSUN, LSUNClass

import recordzoo
from examples.birds import picture
from recordzoo import catalogue
from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.legacy import write_lmdb
from tests.fakes.mutations import rearranged
from tests.fakes.pictures import encoded, jpeg
from tests.fakes.scale import COUNT, SIDE

KEYS = rearranged("keys", "keys", "one key", by=1)

_open = functools.cache(lmdb.open)  # lmdb opens a database once in a process, and not again


@contextlib.contextmanager
def _apart() -> Any:
    """Let torchvision leave its files of pickled keys elsewhere, and open; and open a database several times."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch("lmdb.open", _open),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def _plain(kind: type) -> type:
    """Make torchvision's class so; LSUNClass takes no `Path`."""

    # Any: torchvision's own arguments.
    @functools.wraps(kind.__init__)  # type: ignore[misc]  # of a class, not of an instance
    def begin(self: Any, root: Any, *args: Any, **kwargs: Any) -> None:
        with _apart():
            kind.__init__(self, os.fspath(root) if kind is LSUNClass else root, *args, **kwargs)  # type: ignore[misc]

    return type(kind.__name__, (kind,), {"__init__": begin})


def _database(rng: np.random.Generator, count: int) -> dict[str, bytes]:
    values, side = [], 1 + SIDE // 4  # as large as the real ones
    for number in range(count):
        width, height = (90 * side, 70 * side) if number else (12, 8)  # the small one lies in its leaf page
        image = picture(rng, width, height)
        data = encoded(image, "WEBP") if number == 2 else jpeg(image.convert("L") if number == 1 else image)
        values.append((hashlib.sha1(data, usedforsecurity=False).hexdigest().encode(), data))
    with tempfile.TemporaryDirectory() as folder:
        path = write_lmdb(Path(folder) / "made", values)
        data = (path / "data.mdb").read_bytes()
    return {"data.mdb": data, "lock.mdb": bytes(8192)}


def _build() -> Fake:
    rng = np.random.default_rng(0)
    databases = [_database(rng, count) for count in (1, 2, 4, 1, 3)]
    files = {}
    for number, part in enumerate(catalogue.entry("lsun").parts):
        folder, members = f"{part.name}_lmdb", databases[number % len(databases)]
        if part.name in ("church_outdoor_val", "tower_train") and COUNT > 1:
            members = _database(rng, COUNT * 4)
        files[f"{folder}.zip"] = zipped({f"{folder}/": b"", **{f"{folder}/{name}": members[name] for name in members}})
    return Fake("lsun", files, ())


_RAW = _build()


class FakeClassRecord(recordzoo.LSUNClassRecord):
    """Ours, which takes the fake's zips."""

    raw_files = _RAW.remote_files()


_MISSING = (r"No such file or directory", r"no records and no raw data|not named like", "lmdb has its own errors")
_CASES = [
    Case(
        "LSUNRecord",
        (
            {"classes": ["tower_train", "church_outdoor_val"]},
            {"classes": ("bridge_val", "bridge_val")},
            {"classes": "test"},
            {"classes": "val"},
            {},
        ),
        (
            {"classes": "valid"},
            {"classes": 3},
            {"classes": ["tower_train", 3]},
            {"classes": ["castle_train"]},
            {"classes": ["tower_all"]},
            {"classes": ["test"]},
        ),
        attributes={"_DATABASE": FakeClassRecord},
        differences=[_MISSING],
        handles=("dbs",),
        theirs=_plain(LSUN),
    ),
    Case(
        "LSUNClassRecord",
        mutations=KEYS,
        differences=[_MISSING, ("", "not supported between instances", "a list of keys is no key")],
        folder="church_outdoor_val_lmdb",
        handles=("env",),
        theirs=_plain(LSUNClass),
    ),
]

lsun = Fake("lsun", _RAW.files, _CASES)
