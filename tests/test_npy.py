"""`.npy` and `.npz` are read in several threads: CPython before 3.11.8 and 3.12.2 parses headers in one only."""

import ast
import gc
import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
from recordzoo.datasets.arrays_recipe import MovingMNIST
from recordzoo.formats import find_foreign
from recordzoo.formats import webdataset as tar_keys
from recordzoo.own.sample import Row, packed, unpacked
from recordzoo.preparing.convert import ShardFacts, ShardRows, load_shard, save_shard
from recordzoo.recipes.arrays import read_npy
from recordzoo.records.manifest import ShardSpec

INDEX = np.array([(0, 5, 1), (5, 7, 0)], [("offset", "<u8"), ("length", "<u8"), ("label", "<i4")])


def saved(save: Callable[..., None], *args: Any, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *args, **arrays)
    return buffer.getvalue()


def rows(folder: Path) -> Callable[[], object]:
    noted = ShardRows()
    noted.append("image", "a.jpg", 5, 1, 0)
    facts = ShardFacts(0, 0, ShardSpec("", 1, 1, 4096, 1, ""), 1, False, "")
    save_shard(folder, facts, noted, np.zeros(1, np.uint64))
    return lambda: list(load_shard(folder / f"{facts.stem}.npz").values())


def columns(folder: Path) -> Callable[[], object]:
    numbers = {"a": np.arange(3), "b": np.zeros((3, 2))}
    side = packed([Row(str(number)) for number in range(3)], numbers)
    return lambda: {name: values.tolist() for name, values in unpacked({side.name: side.data})[1].items()}


def index(folder: Path) -> Callable[[], object]:
    (folder / "photos.bin").write_bytes(b"\xff\xd8\xff\xd8\xffabcdefg")
    np.save(folder / "photos.npy", INDEX)

    def read() -> object:
        foreign = find_foreign(str(folder), "indexed", {})
        assert foreign is not None
        return [sample for piece in foreign.pieces for sample in foreign.read(piece)]

    return read


def sample(folder: Path) -> Callable[[], object]:
    data = saved(np.save, np.arange(6).reshape(2, 3))
    return lambda: tar_keys.as_npy(data).tolist()


def videos(folder: Path) -> Callable[[], object]:
    data = saved(np.save, np.zeros((20, 2, 64, 64), np.uint8))
    return lambda: [
        chunk["image"].shape for chunk in MovingMNIST("moving_mnist").decode("mnist_test_seq.npy", io.BytesIO(data))
    ]


@pytest.mark.parametrize(
    "array",
    [np.arange(5, dtype=np.uint8), np.arange(5 << 20).reshape(5, -1), np.asfortranarray(np.eye(3)), np.zeros((0, 2))],
    ids=["small", "in chunks", "Fortran", "empty"],
)
def test_a_file_is_read_in_order(array: np.ndarray):
    data = saved(np.save, array)
    chunks = list(read_npy(io.BytesIO(data)))
    assert len(chunks) == (5 if array.nbytes > 1 << 20 else len(array) > 0)
    assert np.array_equal(np.concatenate([array[:0], *chunks]), array)
    if array.size:
        with pytest.raises(ValueError, match=r"has 4 of 5 rows|buffer|reshape"):
            list(read_npy(io.BytesIO(data[: -array.nbytes // len(array)])))


@pytest.fixture
def interrupted() -> Iterator[None]:
    """Other threads run whenever garbage is collected while a header is parsed, and that is often."""
    before = gc.get_threshold()

    def give_way(phase: str, info: object) -> None:
        if sys._getframe(1).f_code is ast.parse.__code__:
            time.sleep(1e-4)

    gc.callbacks.append(give_way)
    gc.set_threshold(3, 10_000)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.parametrize("reader", [rows, columns, index, sample, videos], ids=lambda reader: reader.__name__)
def test_many_threads_read_arrays(tmp_path: Path, interrupted: None, reader: Callable[[Path], Callable[[], object]]):
    read = reader(tmp_path)
    expected = read()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: read(), range(16))) == [expected] * 16


def test_numpy_parses_headers_in_one_module():
    package = Path(recordzoo.__file__).parent
    texts = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    calls = re.compile(r"np\.load\(|read_magic|\bread_array|open_memmap")
    assert [name for name, text in texts.items() if calls.search(text)] == ["records/arrays.py"]
