"""Foreign formats as the real packages write them; `make formats` makes their environment.

The other tests of importing take `tests/fakes/legacy.py`, which needs none of these packages. Here its databases are
compared with the real ones, key by key and byte by byte.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import numpy as np
import pytest
from PIL import Image

from recordzoo.records.reader import RecordReader
from tests.fakes import legacy
from tests.preparing import prepared

HERE = Path(__file__).parent
PYTHON = Path(os.environ.get("RECORDZOO_FORMATS_PYTHON", HERE / ".venv-formats/bin/python"))

# `make formats` says which Python, and then it must be there.
if not PYTHON.exists() and "RECORDZOO_FORMATS_PYTHON" not in os.environ:
    pytest.skip("the packages that write these formats are installed by `make formats`", allow_module_level=True)


class Written(NamedTuple):
    folder: Path
    paths: list[Path]
    pairs: list[legacy.Pair]

    def pixels(self) -> list[np.ndarray]:
        return [np.asarray(Image.open(path).convert("RGB")) for path in self.paths]

    def labels(self) -> list[int]:
        return [label for _, label in self.pairs]

    def read(self, name: str, output: Path) -> RecordReader:
        return RecordReader(prepared(self.folder / name, output, workers=1))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("formats")
    pairs = legacy.files(130)
    endings = ["png" if index % 4 == 1 else "jpg" for index in range(len(pairs))]
    paths = [root / f"{index}.{ending}" for index, ending in enumerate(endings)]
    for path, (data, _) in zip(paths, pairs, strict=True):
        path.write_bytes(data)
    listing = root / "list.txt"
    listing.write_text("".join(f"{path} {label}\n" for path, (_, label) in zip(paths, pairs, strict=True)))
    ended = subprocess.run(
        [PYTHON, HERE / "write_formats.py", listing, root / "out"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return Written(root / "out", paths, pairs)


# Any: keys and values, or of each named database such ones.
def contents(path: Path, named: int = 0) -> dict[Any, Any]:
    with lmdb.open(str(path), subdir=path.is_dir(), max_dbs=named, readonly=True, lock=False, lib_version=0) as env:
        databases = [env.open_db(f"db{index}".encode(), create=False) for index in range(named)] or [None]
        with env.begin() as txn:
            found = [dict(txn.cursor(database)) for database in databases]
    return dict(enumerate(found)) if named else found[0]


def assert_files(reader: RecordReader, written: Written) -> None:
    assert [reader.read("image", i) for i in range(len(reader))] == [image for image, _ in written.pairs]
    assert reader.array("target").tolist() == written.labels()


def assert_pixels(reader: RecordReader, written: Written) -> None:
    assert reader.array("target").tolist() == written.labels()
    for position, pixels in enumerate(written.pixels()):
        assert np.array_equal(reader.value("image", position), pixels)


@pytest.mark.parametrize("count", [1, 3, 12])
def test_torchrecord(count: int, written: Written, tmp_path: Path) -> None:
    assert_pixels(written.read(f"torchrecord-{count}", tmp_path / "my.records"), written)
    messages = [legacy.tensors(*pair) for pair in zip(written.pixels(), written.labels(), strict=True)]
    imitated = legacy.torchrecord(tmp_path / "imitated", messages, count)
    assert contents(imitated, count) == contents(written.folder / f"torchrecord-{count}", count)


def test_torchrecord_with_a_function_of_ones_own(written: Written, tmp_path: Path) -> None:
    assert_files(written.read("torchrecord-numbers", tmp_path / "my.records"), written)
    imitated = legacy.torchrecord(tmp_path / "imitated", [legacy.file_tensors(*p) for p in written.pairs], 2)
    assert contents(imitated, 2) == contents(written.folder / "torchrecord-numbers", 2)


def arrays(pairs: list[legacy.Pair]) -> list[tuple[np.ndarray, np.int64]]:
    return [(np.frombuffer(image, np.uint8), np.int64(label)) for image, label in pairs]


@pytest.mark.parametrize(
    ("name", "form", "dumps"),
    [
        ("pickle", list, None),
        ("msgpack-1", list, legacy.msgpack),
        ("msgpack-0", list, legacy.old_msgpack),
        ("numpy-1", arrays, legacy.msgpack),
        ("numpy-0", arrays, legacy.old_msgpack),
        *([("pyarrow", list, None)] if sys.version_info < (3, 12) else []),
    ],
)
def test_folder2lmdb(name: str, form: Callable, dumps: Callable | None, written: Written, tmp_path: Path) -> None:
    path = written.folder / f"folder2lmdb-{name}"
    assert_files(written.read(path.name, tmp_path / "my.records"), written)
    if dumps is not None:
        assert contents(legacy.folder2lmdb(tmp_path / "imitated", form(written.pairs), dumps)) == contents(path)


def test_caffe(written: Written, tmp_path: Path) -> None:
    """Pixels; files; floats without labels, as extract_features writes them."""
    assert_pixels(written.read("caffe-pixels", tmp_path / "pixels.records"), written)
    assert_files(written.read("caffe-files", tmp_path / "files.records"), written)
    names = [path.name for path in written.paths]
    pixels = map(legacy.datum, written.pixels(), written.labels())
    files = [legacy.encoded_datum(*pair) for pair in written.pairs]
    for name, datums in (("pixels", pixels), ("files", files)):
        imitated = legacy.caffe(tmp_path / name, dict(zip(names, datums, strict=True)))
        assert contents(imitated) == contents(written.folder / f"caffe-{name}")
    reader = written.read("caffe-floats", tmp_path / "floats.records")
    assert set(reader.array("target").tolist()) == {0}
    features = [pixels[..., ::-1].mean((0, 1)).astype(np.float32).reshape(3, 1, 1) for pixels in written.pixels()]
    assert all(np.array_equal(reader.value("image", i), feature) for i, feature in enumerate(features))
    floats = list(contents(written.folder / "caffe-floats").values())
    assert floats == [legacy.float_datum(feature) for feature in features]
