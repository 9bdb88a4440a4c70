"""A writer for each released version of the format, which stays as it is: later versions must read what it writes.

Nothing of recordzoo is used: a writer follows `docs/format.md` as it was at its release. A new version of the format
gets a new function here, and a line in `WRITERS`.
"""

import hashlib
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from PIL import Image

KINDS = ("zoo", "folder", "flat", "list", "imported", "annotated", "combined", "own")
CLASSES = ["cat", "dog"]
COUNT = 5
NAMES = [f"{CLASSES[i % 2]}/{i}.png".encode() for i in range(COUNT - 1)] + [b"cat/\xff\xc3\xa9.png"]
SPLITS = {"train": [3, 0, 1], "none": []}

_INDEX = np.dtype([("shard", "<u4"), ("slot", "<u4"), ("length", "<u4"), ("crc32", "<u4"), ("offset", "<u8")])
_ABSENT = (0xFFFFFFFF, 0, 0, 0, 0)


def png(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4 + number, 3), (50 * number, 1, 2)).save(buffer, "PNG")
    return buffer.getvalue()


def values() -> dict[str, list[Any]]:
    """What a reader must return of every field, by record; None: the record has no value."""
    return {
        "image": [png(i) for i in range(COUNT)],
        "mask": [np.full((2, 3), i, np.uint8) for i in range(COUNT)],
        "boxes": [np.arange(4 * i, dtype=np.float32).reshape(i, 4) for i in range(COUNT)],
        "words": [None if i == 2 else {"x": ["é", None, i]} for i in range(COUNT)],
        "caption": [f"caption {i}" for i in range(COUNT)],
        "blob": [
            bytes([7 + i]) * 3000 * i for i in range(COUNT)
        ],  # the first is empty, others are on pages of their own
        "target": [i % 2 for i in range(COUNT)],
        "score": [i / 2 for i in range(COUNT)],
        "tags": [np.array([i, 1, 0], np.uint8) for i in range(COUNT)],
    }


def write_1(folder: Path, kind: str) -> None:
    """Version 1: two shards, all encodings, all kinds of fields but `int`, names, splits."""
    folder.mkdir(parents=True)
    fields = {
        "image": {"kind": "image", "names": None},
        "boxes": {"kind": "boxes", "names": None, "format": "XYXY", "normalized": True},
        "mask": {"kind": "masks", "names": None},
        "words": {"kind": "json", "names": None},
        "caption": {"kind": "text", "names": None},
        "blob": {"kind": "bytes", "names": None},
        "target": {"kind": "class", "names": CLASSES},
        "score": {"kind": "float", "names": None},
        "tags": {"kind": "multilabel", "names": ["red", "big", "old"]},
    }
    blobs = {
        "image": {"encoding": "image", "shape": None, "dtype": ""},
        "mask": {"encoding": "raw", "shape": [2, 3], "dtype": "|u1"},
        "boxes": {"encoding": "raw", "shape": None, "dtype": "<f4"},
        "words": {"encoding": "json", "shape": None, "dtype": ""},
        "caption": {"encoding": "json", "shape": None, "dtype": ""},
        "blob": {"encoding": "bytes", "shape": None, "dtype": ""},
    }
    found = values()
    rows = {name: [_ABSENT] * COUNT for name in blobs}
    shards = []
    for number, positions in enumerate([(4, 1), (0, 3, 2)]):  # in another order than the records
        places = [(name, i, _stored(found[name][i])) for i in positions for name in blobs if found[name][i] is not None]
        shard, offsets = _write_shard(folder / f"shard-{number:05d}.lmdb", [data for _, _, data in places])
        shards.append(shard)
        for slot, (name, i, data) in enumerate(places):
            rows[name][i] = (number, slot, len(data), zlib.crc32(data), offsets[slot])
    arrays = {f"{name}.index": np.array(each, _INDEX) for name, each in rows.items()}
    arrays |= {
        name: np.array(found[name], dtype) for name, dtype in (("target", "<i8"), ("score", "<f4"), ("tags", "|u1"))
    }
    arrays |= {f"split-{name}": np.array(positions, "<i8") for name, positions in SPLITS.items()}
    arrays["boxes.shape"] = np.array([each.shape for each in found["boxes"]], "<u4")
    arrays["names"] = np.frombuffer(b"".join(NAMES), "|u1")
    arrays["names_offsets"] = np.cumsum([0, *map(len, NAMES)]).astype("<u8")
    document = {
        "format": "recordzoo",
        "version": 1,
        "features": [],
        "kind": kind,
        "dataset": {"zoo": "fake", "imported": "lmdb"}.get(kind, kind),
        "part": "",
        "variant": "original",
        "records": COUNT,
        "blobs": blobs,
        "arrays": {name: _write_array(folder / f"{name}.npy", each) for name, each in arrays.items()},
        "splits": {name: len(positions) for name, positions in SPLITS.items()},
        "shards": shards,
        "fields": fields,
        "default_target": "target",
        "source": "tree",
        "raw_files": [{"name": "fake.tar", "bytes": 10, "hash": None}],
        "bad": {"cat/0.png": "a reason"},
        "skipped": {},
        "metadata": {"selection": "", "empty_classes": []} if kind == "folder" else {},
        "hash": f"sha256:{'0' * 64}",
    }
    text = json.dumps(document, sort_keys=True, indent=1) + "\n"
    text = text.replace(f'\n "hash": "{document["hash"]}"', f'\n "hash": "{_hash(text.encode())}"')
    (folder / "manifest.json").write_text(text, encoding="ascii")


WRITERS: dict[int, Callable[[Path, str], None]] = {1: write_1}


def _stored(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def _write_shard(path: Path, stored: list[bytes]) -> tuple[dict[str, Any], list[int]]:
    """Write values into a new LMDB file; returns the shard's entry, and where each value begins."""
    library = {"lib_version": 0} if int(lmdb.__version__.split(".")[0]) >= 3 else {}  # LMDB 0.9
    with lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 24, meminit=True, **library) as env:
        with env.begin(write=True) as txn:
            for slot, data in enumerate(stored):
                txn.put(slot.to_bytes(4, "big"), data, append=True)
        last_page, page_size = env.info()["last_pgno"], env.stat()["psize"]
    with open(path, "r+b") as file:
        file.truncate((last_page + 1) * page_size)
    content = path.read_bytes()
    offsets = []
    for slot, data in enumerate(stored):
        # A short value follows its key in the tree; a long one begins a page's contents, 16 bytes after its start.
        key = content.find(slot.to_bytes(4, "big") + data, 2 * page_size)
        offsets.append(key + 4 if key >= 0 else content.find(data, 2 * page_size))
        assert content[offsets[-1] :][: len(data)] == data
    entry = {"name": path.name, "bytes": len(content), "values": len(stored), "page_size": page_size}
    return {**entry, "last_page": last_page, "hash": _hash(content)}, offsets


def _write_array(path: Path, array: np.ndarray) -> dict[str, Any]:
    np.lib.format.write_array(buffer := io.BytesIO(), np.ascontiguousarray(array), version=(1, 0))
    content = buffer.getvalue()
    path.write_bytes(content)
    dtype = "" if array.dtype == _INDEX else array.dtype.str
    entry = {"dtype": dtype, "shape": list(array.shape), "bytes": len(content), "crc32": zlib.crc32(content)}
    return {**entry, "hash": _hash(content)}


def _hash(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
