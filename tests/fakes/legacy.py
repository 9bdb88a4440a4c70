"""LMDB databases as folder2lmdb, TorchRecord and Caffe write them, with what they hold; each package stood in for.

Protocol Buffers and MessagePack are written here by the page of their specifications, without the package's reader.
What pyarrow wrote cannot be written any more: `PYARROW` is what pyarrow 11.0.0 made of three images and labels.
"""

import base64
import io
import pickle
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from PIL import Image

from tests.fakes.pictures import encoded, jpeg, picture

Pair = tuple[bytes, int]


def files(count: int, seed: int = 0) -> list[Pair]:
    """Images' files, JPEG and PNG, small and large, and labels."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        image = picture(rng, *((12, 8) if index % 3 else (90, 70)))
        made.append((encoded(image, "PNG") if index % 4 == 1 else jpeg(image), int(rng.integers(0, 10))))
    return made


def pixels(count: int, channels: int = 3, seed: int = 0) -> list[tuple[np.ndarray, int]]:
    """Arrays uint8 [H, W, C] of several sizes, and labels."""
    rng = np.random.default_rng(seed)
    sizes = [(4, 6), (5, 3), (30, 41)]
    return [
        (rng.integers(0, 256, (*sizes[i % 3], channels), dtype=np.uint8), int(rng.integers(0, 10)))
        for i in range(count)
    ]


def write_lmdb(path: Path, values: Iterable[tuple[bytes, bytes]], *, subdir: bool = True) -> Path:
    """Write keys and values in their order, a transaction for every five, as the tools commit now and then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = list(values)
    with lmdb.open(str(path), map_size=1 << 30, subdir=subdir, lib_version=0) as env:
        for first in range(0, len(values), 5):
            with env.begin(write=True) as txn:
                for key, value in values[first : first + 5]:
                    txn.put(key, value)
    return path


def folder2lmdb(
    path: Path,
    pairs: Sequence[tuple[Any, Any]],
    dumps: Callable[[Any], bytes] = pickle.dumps,
    *,
    subdir: bool = True,
    keys: bool = True,
    length: bool = True,
) -> Path:
    """Write keys "0", "1", ..., then `__keys__` and `__len__`."""
    names = [str(index).encode("ascii") for index in range(len(pairs))]
    values = [(name, dumps(pair)) for name, pair in zip(names, pairs, strict=True)]
    values += [(b"__keys__", dumps(names))] if keys else []
    values += [(b"__len__", dumps(len(names)))] if length else []
    return write_lmdb(path, values, subdir=subdir)


def batched(pairs: Sequence[Pair]) -> list[tuple[list[bytes], np.ndarray]]:
    """What a DataLoader with batches of one makes of pairs: a list of one, and an array of one."""
    return [([image], np.array([label], np.int64)) for image, label in pairs]


# Protocol Buffers


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def torchrecord(folder: Path, messages: Sequence[bytes], db_num: int = 1) -> Path:
    """Share messages out among `db0`, `db1`, ... as the project's Writer does."""
    for index in range(db_num):
        part = messages[index * len(messages) // db_num : (index + 1) * len(messages) // db_num]
        write_lmdb(folder / f"db{index}", [(str(i).encode(), value) for i, value in enumerate(part)])
    return folder


def tensors(image: np.ndarray, label: int) -> bytes:
    """What `default_data_process_func` makes of an image in RGB: dims are [width, height]."""
    height, width, _ = image.shape
    first = number(1, width) + number(1, height) + number(2, 3) + chunk(5, image.tobytes())
    return chunk(1, first) + chunk(1, number(2, 3) + chunk(5, str(label).encode()))


def file_tensors(data: bytes, label: int) -> bytes:
    """What the project's second example makes of a file; here with dims packed and the label as int32."""
    width, height = Image.open(io.BytesIO(data)).size
    first = chunk(1, varint(width) + varint(height)) + number(2, 3) + chunk(5, data)
    return chunk(1, first) + chunk(1, number(2, 2) + chunk(4, varint(label)))


def caffe(path: Path, datums: Mapping[str, bytes]) -> Path:
    """Write Datums as `convert_imageset` does: keys `%08d_<file>`."""
    return write_lmdb(path, [(f"{i:08d}_{n}".encode(), d) for i, (n, d) in enumerate(datums.items())])


def datum(image: np.ndarray, label: int) -> bytes:
    """A Datum of an image in RGB or grey: planes, and of three the blue one first."""
    planes = (image[..., ::-1] if image.shape[2] == 3 else image).transpose(2, 0, 1)
    return _shape(planes.shape) + chunk(4, planes.tobytes()) + number(5, label) + number(7, 0)


def encoded_datum(data: bytes, label: int) -> bytes:
    """A Datum with an image's file, as `--encoded` stores it, with the image's size."""
    width, height = Image.open(io.BytesIO(data)).size
    return _shape((3, height, width)) + chunk(4, data) + number(5, label) + number(7, 1)


def float_datum(values: np.ndarray, label: int, *, packed: bool = False) -> bytes:
    """A Datum of floats [C, H, W]."""
    data = values.astype("<f4").tobytes()
    each = b"".join(varint(6 << 3 | 5) + data[i : i + 4] for i in range(0, len(data), 4))
    return _shape(values.shape) + number(5, label) + (chunk(6, data) if packed else each)


def _shape(shape: Sequence[int]) -> bytes:
    return b"".join(number(field, size) for field, size in enumerate(shape, 1))


# MessagePack


def msgpack(value: Any, *, old: bool = False) -> bytes:
    """Pack a value, arrays and NumPy's numbers as msgpack_numpy does; `old`: bytes as the old format's strings."""
    if isinstance(value, np.ndarray):
        fields = {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": list(value.shape)}
        return msgpack({**fields, b"data": value.tobytes()}, old=old)
    if isinstance(value, np.generic):
        return msgpack({b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}, old=old)
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if -32 <= value < 128:
            return struct.pack("b", value)
        return b"\xd3" + struct.pack(">q", value) if value < 0 else b"\xce" + struct.pack(">I", value)
    if isinstance(value, bytes | str):
        data = value.encode() if isinstance(value, str) else value
        if isinstance(value, str) or old:
            return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xdb" + struct.pack(">I", len(data))) + data
        return (b"\xc4" + bytes([len(data)]) if len(data) < 256 else b"\xc6" + struct.pack(">I", len(data))) + data
    if isinstance(value, dict):
        items = b"".join(msgpack(k, old=old) + msgpack(v, old=old) for k, v in value.items())
        return bytes([0x80 | len(value)]) + items
    head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
    return head + b"".join(msgpack(item, old=old) for item in value)


def old_msgpack(value: Any) -> bytes:
    return msgpack(value, old=True)


# pyarrow.serialize

_PYARROW = (
    "c-rk&u};G<5Ix7C4I!#BR44;O#|}uOfg;8Z3>_I67`h;V1QHS*Ix_G94E+cOK7f&dfuWzkM=&xV!r4AY!F33vmCBH768r3Tced|d(kBjvq$"
    "u|cAe5R90W@F@JnW$`7j;0*!>3D69H#d9Gfh!zMcD7qn1lBo0=lGMoL`THtGiTUGYpU)PmKp{>_<8OA>n!nzz4>O6|S{~W7~uio0*CjA|{QU"
    "k54Z_u379vtz5_Dxwyjjt@7!JSX*ST=M(bbL6dv{8{p$n*|@@{ZP<u4+~fSK!Y~^q#(ReIA<lTX!lpdokj`J(L>3!Y{#3puO!*ZOz$RrZke-"
    "0M(*7*Vu#b8mvnO&oqqAkX8raD7^*HT0TSsWrO=#dEYISZq#(dYX?;7(lwL8>~4E)Hz3uzkru!%YE{1IQKYoE;GSnTC!-{0%(`bod<V@;G^*"
    "?Fh3hUVp|W^m2mn!&4KFuXwd1vP_f2G<P!pA2RWFTG@bwb<4-urm0nB7-5dGx#0m89Xgu@L?H)F|`MXxyZ%p=3*UZ75+1O^D$S=LVfPTUodf"
    "4z{Cd&6W5o>L~bxKFqj60uKf%Qdm)VqOyebZ{tIStnGN<0;}|v$;gY!b<F~K)6(B6$pc;d23aWaNt7^@lvZ|g{_#Q1<!7or=!BIg4pI9o`T|"
    "xzCnP2c-%?thweF5e!HSh"
)


def _unpacked() -> dict[bytes, bytes]:
    data = zlib.decompress(base64.b85decode(_PYARROW))
    values, position = [], 0
    while position < len(data):
        (length,) = struct.unpack_from("<H", data, position)
        values.append(data[position + 2 : position + 2 + length])
        position += 2 + length
    return dict(zip((b"0", b"1", b"2", b"__keys__", b"__len__"), values, strict=True))


PYARROW = _unpacked()
"""Key → value as pyarrow wrote it: three pairs, `__keys__` in the order 2, 0, 1, and `__len__`."""

PYARROW_PAIRS: list[Pair] = [
    (encoded(Image.new("RGB", (4, 3), colour), "PPM"), label)
    for colour, label in (((1, 2, 3), -1), ((255, 0, 0), 4), ((0, 200, 0), 0))
]
"""What they hold, in the order of `__keys__`."""
