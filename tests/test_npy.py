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
from recordzoo.recipes.arrays import read_npy
from recordzoo.records.arrays import arrays_of


def saved(save: Callable[..., None], *args: Any, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *args, **arrays)
    return buffer.getvalue()


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


def test_many_threads_read_arrays(interrupted: None):
    data = saved(np.savez, a=np.arange(6).reshape(2, 3), b=np.zeros(1, [("offset", "<u8"), ("label", "<i4")]))
    expected = {"a": [[0, 1, 2], [3, 4, 5]], "b": [(0, 0)]}

    def read(_: int) -> dict[str, Any]:
        return {name: values.tolist() for name, values in arrays_of(data).items()}

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(16))) == [expected] * 16


def test_numpy_parses_headers_in_one_module():
    package = Path(recordzoo.__file__).parent
    texts = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    calls = re.compile(r"np\.load\(|read_magic|\bread_array|open_memmap")
    assert [name for name, text in texts.items() if calls.search(text)] == ["records/arrays.py"]
