"""LMDB databases as folder2lmdb, TorchRecord, Caffe and others write them, with what they hold; each stood in for.

`tests/test_formats.py` compares them with what the packages themselves write, byte by byte.
Protocol Buffers are written here by the page of their specification, without the package's reader.
What pyarrow wrote cannot be written any more: `PYARROW` and `OLDER_PYARROWS` are what pyarrow 11.0.0, and six before
it, made of images and labels.
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
from msgpack import packb
from PIL import Image

from recordzoo.records.shard import lmdb_options
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
    with lmdb.open(str(path), map_size=1 << 30, subdir=subdir, **lmdb_options()) as env:
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


class LmdbImage:
    """The class of tutorials, an object of which is pickled for each image."""

    def __init__(self, image: np.ndarray, label: Any) -> None:
        self.channels = image.shape[2]
        self.size = image.shape[:2]
        self.image = image.tobytes()
        self.label = label


NO_MODULE = b"no_module_has_that"
"""As long as the name of the module of `LmdbImage`, which is not that of the program that wrote a database."""


def objects(path: Path, images: Sequence[LmdbImage], protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
    """Write objects as `store_many_lmdb` of "Three Ways of Storing and Accessing Lots of Images in Python" does."""
    values = [pickle.dumps(image, protocol).replace(__name__.encode(), NO_MODULE) for image in images]
    return write_lmdb(path, [(f"{index:08}".encode("ascii"), value) for index, value in enumerate(values)])


def texts(path: Path, pairs: Sequence[tuple[bytes, str]]) -> Path:
    """Write what `create_lmdb_dataset.py` of text recognition does, which counts from 1."""
    values = {}
    for number, (image, text) in enumerate(pairs, 1):
        values[b"image-%09d" % number] = image
        values[b"label-%09d" % number] = text.encode()
    return write_lmdb(path, [*values.items(), (b"num-samples", str(len(pairs)).encode())])


def basicsr(path: Path, images: Mapping[str, bytes], *, listed: bool = True) -> Path:
    """Write what BasicSR's `make_lmdb_from_imgs` does: keys without an ending, and `meta_info.txt`."""
    write_lmdb(path, [(name.encode("ascii"), image) for name, image in images.items()])
    if listed:
        lines = [f"{name}.png (16,16,3) 1\n" for name in images]
        (path / "meta_info.txt").write_text("".join(lines), encoding="ascii")
    return path


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


def torchrecord(path: Path, messages: Sequence[bytes], db_num: int = 1, *, padded: bool = True) -> Path:
    """Share messages out among the named databases `db0`, `db1`, ... as the Writer of 0.1.1 does."""
    with lmdb.open(str(path), map_size=1 << 30, max_dbs=db_num, **lmdb_options()) as env:
        for index, part in enumerate(_shares(messages, db_num)):
            database = env.open_db(f"db{index}".encode())
            with env.begin(db=database, write=True) as txn:
                width = len(str(len(part))) if padded else 0
                for i, value in enumerate(part):
                    txn.put(f"{i:0{width}}".encode(), value)
    return path


def torchrecord_folders(folder: Path, messages: Sequence[bytes], db_num: int = 1) -> Path:
    """Share messages out among directories `db0`, `db1`, ... as the Writer did before its first release."""
    for index, part in enumerate(_shares(messages, db_num)):
        write_lmdb(folder / f"db{index}", [(str(i).encode(), value) for i, value in enumerate(part)])
    return folder


def _shares(messages: Sequence[bytes], count: int) -> list[Sequence[bytes]]:
    return [messages[i * len(messages) // count : (i + 1) * len(messages) // count] for i in range(count)]


def tensors(image: np.ndarray, label: int) -> bytes:
    """What `default_data_process_func` makes of an image in RGB: dims are [width, height]."""
    height, width, _ = image.shape
    first = number(1, width) + number(1, height) + number(2, 3) + chunk(5, image.tobytes())
    return chunk(1, first) + chunk(1, number(2, 3) + chunk(5, str(label).encode()))


def file_tensors(data: bytes, label: int) -> bytes:
    """What the project's second example makes of a file; here with the label as int32."""
    width, height = Image.open(io.BytesIO(data)).size
    first = number(1, width) + number(1, height) + number(2, 3) + chunk(5, data)
    return chunk(1, first) + chunk(1, number(2, 2) + chunk(4, varint(label)))


def caffe(path: Path, datums: Mapping[str, bytes]) -> Path:
    """Write Datums as `convert_imageset` does: keys `%08d_<file>`."""
    return write_lmdb(path, [(f"{i:08d}_{n}".encode(), d) for i, (n, d) in enumerate(datums.items())])


def datum(image: np.ndarray, label: int) -> bytes:
    """A Datum of an image in RGB or grey: planes, and of three the blue one first."""
    planes = (image[..., ::-1] if image.shape[2] == 3 else image).transpose(2, 0, 1)
    return _shape(planes.shape) + chunk(4, planes.tobytes()) + number(5, label) + number(7, 0)


def encoded_datum(data: bytes, label: int) -> bytes:
    """A Datum with an image's file, as `--encoded` stores it: without its size."""
    return chunk(4, data) + number(5, label) + number(7, 1)


def float_datum(values: np.ndarray, label: int | None = None) -> bytes:
    """A Datum of floats [C, H, W], as feature extraction writes it: without a label."""
    data = values.astype("<f4").tobytes()
    floats = b"".join(varint(6 << 3 | 5) + data[i : i + 4] for i in range(0, len(data), 4))
    return _shape(values.shape) + (b"" if label is None else number(5, label)) + floats


def _shape(shape: Sequence[int]) -> bytes:
    return b"".join(number(field, size) for field, size in enumerate(shape, 1))


# MessagePack


def msgpack(value: Any, *, old: bool = False) -> bytes:
    """Pack a value, arrays and NumPy's numbers as msgpack_numpy does; `old`: bytes as the old format's strings."""

    def fields(value: np.ndarray | np.generic) -> dict[bytes, Any]:
        head = {b"nd": isinstance(value, np.ndarray), b"type": value.dtype.str}
        more = {b"kind": b"", b"shape": value.shape} if isinstance(value, np.ndarray) else {}
        return {**head, **more, b"data": value.tobytes()}

    return packb(value, default=fields, use_bin_type=not old)


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

_OLDER = (
    "c-rlmzi$&U6oBo^B{{;iico|yRH#FTj7jOxN(>n~Fhqy}A;thLYNdc85u^?sIv|vxLJS=`bgWQ@42%p69T4hJp^hCG7#aEpFjNHF_nf3J_Vs?{dX"
    ">)7>CS%d?2FHzzcekG1j>6#NRgdwGD~tKODu8C3eAXiLJFeI6j#of!uj4{FkrRWCFn!O%Iw&6V#79G9yx6@7vyq2@4wDsZ=AS&s)#pP>?4eK$m(+"
    "tH`vi)$AZYS*=Mjsz8u>a8~>+szrk}$a6f_jERu)&2(8P>A$M4w#rn*PIVp-3kz$s|o{@;NIlLy&zS&uS&9AfU=)7yU)=|8*`L-kL2h@2cBIf@ty"
    "bIfT7nzKh)8E6p3#@LlJ}mK0<b2Yx{%484%%ijXyiJs+tHV5z4HVx%{dQ6R$0+|8^>>QuXDI&+#d*o0&rLkk4WIdO6(gp>`J6p}@p5hb6=5rTRQe"
    "ft)d;aGJOxTI<$MKyQtS#JU|0CApni+RKEtlCuZZun*bf-51!Ktgl4eJs5z~!HR<*T4(EUq6w|#@?F1pa0jeuU`I%)M#!U9dl#;Vpv?K?wSw<#G?"
    "X~Wto0Ijx|afek4kviwo-;FE$-MYfxyCMC3;@jW+IW99^oPxi-xVs*ayDiPRi1KuGnO{cnGK$ZmdIjZIP`rxj%P4<2VeZzsR_8`lsSgQU4M^ZKAm"
    "Xn_S9XEGBL!jGEY<@8_Z0C17CVOVHjpc;SGY0?ilXvlJt9vgjijOrDRFvIN0`n-Vamv1smoHAr7nx#W%UUHQ<tSKOI_x@OcL}YAVCjcMOzAo^%Vq"
    "7%TaQM{5Xo|*8<SR@4Jua;?Gd4O%k;of~a!^Q8N(|l_VEs$<6vZ>SzMzQb2;XV8x#(9P~v&P*NPDqJX!pAg?q+5OAU(;C6xuaC3;6FlS6UfGwQC<"
    "J1F@dw|dDR*W8?X!V&PDKJ8MAeTT7_;J8MtR+QJ5>!q-p!9&8pNBE};JQh$(MmUB@PQu}Xjit!a-<}nrzOC2CE)a*vtpZcv}f}tu29DThhr3s@AV"
    "dt@JB(y1?#f{Bz%K6X9Bui_zz-5LqrD6T-&Ep7Dvx)mS8o=d-hnn{Esh?N^#Ct$f>Fvv#2GNx{+EXe%)k-A~Gz2ak?k(!5!2mku-p-#BZ)fNH+!k"
    "C4l$X4oI*Kq%9zV&*58KPebr35ZqS~yv$;2(C-fVHrVj^ZE$K7R->WNn;YFp>?=sTb&Vvtxi2>b(hRR;(P-WH9~xFDxB"
)

_ARRAYS = (
    "c-rk&u}&i~5FPJ2n*~hpL4XyyV#}040x1=@#g+F76rn(X1T;`k@(K9_KH!S`gp^lMP*6}%P*PITg=g<<aLk4ciRd!Yvpx2BGBcj1O%@W1;CTRf!K|&"
    "eNQxq=QH+%_lF$iSj8XEK-!=0!?m}xMShsjD0Iq;G>!&9dmt=hy&$%b#p|CAtxy^kACXSzcm)K@|H@_cKo$r%KZOl#R5q6c;@*IRPbK>|A!+7Ly&*c"
    "3dbCY#N8=Sea-YAsTM^Y3F6-jU+xi<S;GePenoprGvduN(PMVH(SJ-=llDs*!4^!3+~ythX4mXgwuyp1&QzIAJ3YTn?d`HP|B*(P2d%2~T{8vT#cH_"
    "wPmId(Lxp9b>YQ(m3&^XBkeJ3aL-kv)%!w-7-nYf(L3SX@%ejTQZ4b*;I+u}Kq3f6kyeg9aT@&7f{IgTi|ZzdhD;y?V60JmZpl&H9*qrL5mEqkKj@k"
    "J<N`7EZ;q$TF?E`m~4c2l@d0LexM8bb)K22iySvfIe^sJOM8NWrzmQKmw#d3uptKtm=oeIfLg6p6DB>Cin*SFzk2?cJBqw8%uA$&9<{M?_+Q1Pb(MN"
    "?hBCfG?E2n6@HqMLA@~yI-Y_-kGU_Y`E}jy-(iN$%9w`<7}FZVn9~x*)Mj8z?EULf-@qW_bMP=o56;t*vxB3<GDdw>-T>XAt?~"
)


def _unpacked(text: str) -> list[bytes]:
    data = zlib.decompress(base64.b85decode(text))
    values, position = [], 0
    while position < len(data):
        (length,) = struct.unpack_from("<H", data, position)
        values.append(data[position + 2 : position + 2 + length])
        position += 2 + length
    return values


PYARROW = dict(zip((b"0", b"1", b"2", b"__keys__", b"__len__"), _unpacked(_PYARROW), strict=True))
"""Key → value as pyarrow wrote it: three pairs, `__keys__` in the order 2, 0, 1, and `__len__`."""

PYARROW_PAIRS: list[Pair] = [
    (encoded(Image.new("RGB", (4, 3), colour), "PPM"), label)
    for colour, label in (((1, 2, 3), -1), ((255, 0, 0), 4), ((0, 200, 0), 0))
]
"""What they hold, in the order of `__keys__`."""

PYARROW_VALUES = _unpacked(_ARRAYS)
"""What pyarrow 11.0.0 made of uint8 [2, 4, 3], float32 [2, 3, 2, 2], int16 [2, 3] in Fortran's order, and a file."""

OLDER_PYARROWS = dict(
    zip(
        ("0.8.0", "0.11.1", "0.12.1", "0.14.1", "0.17.1", "1.0.1"),
        zip(_unpacked(_OLDER)[::2], _unpacked(_OLDER)[1::2], strict=True),
        strict=True,
    )
)
"""By pyarrow's version: what it wrote of the pair (b"abcdef", 7), and of the list [b"0", b"1"]."""
