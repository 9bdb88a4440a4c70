"""Write a database with each of the real packages: python write_formats.py LIST FOLDER.

Runs in the environment of `make formats`, which has no recordzoo. LIST has a line for each image, its path and its
label. The packages' loaders do not import today, so only the modules that write are imported.
"""

import importlib.util
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
from PIL import Image

MAP_BYTES = 1 << 30


def without_init(package: str) -> None:
    """Make a package's modules importable without running its `__init__`."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not installed"
    module = types.ModuleType(package)
    module.__path__ = list(spec.submodule_search_locations or [])
    sys.modules[package] = module


def torchrecord(listing: Path, folder: Path) -> None:
    without_init("torchrecord")
    from torchrecord.tr_pb2 import TensorProtos
    from torchrecord.writer import Writer

    def keep_file(line: str) -> Any:
        path, label = line.split(" ")
        message = TensorProtos()
        image, target = message.protos.add(), message.protos.add()
        image.dims.extend(Image.open(path).size)
        image.data_type = 3
        image.byte_data = Path(path).read_bytes()
        target.data_type = 2
        target.int32_data.append(int(label))
        return message

    def write(name: str, **options: Any) -> None:
        Writer(str(listing), str(folder / name), map_size=MAP_BYTES, shuffle=False, **options).write()

    for count in (1, 3, 12):
        write(f"torchrecord-{count}", db_num=count)
    write("torchrecord-numbers", db_num=2, data_process_func=keep_file)


def pairs(listing: Path) -> list[tuple[bytes, int]]:
    lines = [line.split(" ") for line in listing.read_text().splitlines()]
    return [(Path(path).read_bytes(), int(label)) for path, label in lines]


def folder2lmdb(folder: Path, values: list[Any], dumps: Callable[[Any], Any]) -> None:
    """Do what the script does, whose serialiser is one of the packages."""
    keys = [str(index).encode("ascii") for index in range(len(values))]
    with lmdb.open(str(folder), map_size=MAP_BYTES) as env, env.begin(write=True) as txn:
        for key, value in zip(keys, values, strict=True):
            txn.put(key, dumps(value))
        txn.put(b"__keys__", dumps(keys))
        txn.put(b"__len__", dumps(len(keys)))


def folders2lmdb(listing: Path, folder: Path) -> None:
    import msgpack
    import msgpack_numpy

    stored = pairs(listing)
    arrays = [(np.frombuffer(image, np.uint8), np.int64(label)) for image, label in stored]
    folder2lmdb(folder / "folder2lmdb-pickle", stored, pickle.dumps)
    for use_bin_type in (True, False):

        def dumps(value: Any, use_bin_type: bool = use_bin_type) -> bytes:
            return msgpack.packb(value, default=msgpack_numpy.encode, use_bin_type=use_bin_type)

        folder2lmdb(folder / f"folder2lmdb-msgpack-{use_bin_type:d}", stored, dumps)
        folder2lmdb(folder / f"folder2lmdb-numpy-{use_bin_type:d}", arrays, dumps)
    if sys.version_info < (3, 12):  # the last pyarrow with serialize is for those
        import pyarrow

        folder2lmdb(folder / "folder2lmdb-pyarrow", stored, lambda value: pyarrow.serialize(value).to_buffer())


def caffe(listing: Path, folder: Path) -> None:
    """Do what convert_imageset and extract_features do, which are not packaged, with Caffe's own messages."""
    without_init("caffe")
    from caffe.proto.caffe_pb2 import Datum

    def write(name: str, datums: dict[str, Any]) -> None:
        with lmdb.open(str(folder / name), map_size=MAP_BYTES) as env, env.begin(write=True) as txn:
            for key, datum in datums.items():
                txn.put(key.encode(), datum.SerializeToString())

    lines = [line.split(" ") for line in listing.read_text().splitlines()]
    pixels, files, floats = {}, {}, {}
    for index, (path, label) in enumerate(lines):
        planes = np.asarray(Image.open(path).convert("RGB"))[..., ::-1].transpose(2, 0, 1)
        channels, height, width = planes.shape
        key = f"{index:08d}_{Path(path).name}"
        shape = {"channels": channels, "height": height, "width": width}
        pixels[key] = Datum(**shape, data=planes.tobytes(), label=int(label), encoded=False)
        files[key] = Datum(data=Path(path).read_bytes(), label=int(label), encoded=True)
        floats[f"{index:010d}"] = Datum(channels=3, height=1, width=1, float_data=planes.mean((1, 2)))
    write("caffe-pixels", pixels)
    write("caffe-files", files)
    write("caffe-floats", floats)


def main() -> None:
    listing, folder = map(Path, sys.argv[1:])
    folder.mkdir()
    torchrecord(listing, folder)
    folders2lmdb(listing, folder)
    caffe(listing, folder)


if __name__ == "__main__":
    main()
