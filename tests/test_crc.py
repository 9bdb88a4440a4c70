"""CRC-32: whichever library computes it, it is zlib's, with which record sets are written elsewhere."""

import importlib.util
import sys
import zlib
from types import ModuleType

import numpy as np
import pytest

from recordzoo.records import shard as crc


@pytest.fixture(params=[pytest.param("isal", marks=pytest.mark.needs("isal")), "zlib"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    assert crc.__spec__ is not None
    module = importlib.util.module_from_spec(crc.__spec__)
    assert crc.__spec__.loader is not None
    crc.__spec__.loader.exec_module(module)
    assert module.crc32.__module__ == {"isal": "isal.isal_zlib", "zlib": "zlib"}[request.param]
    return module


@pytest.mark.parametrize("num_bytes", [0, 1, 15, 16, 17, 1_000, 6_000, 1_000_003])
def test_it_is_zlibs(implementation: ModuleType, num_bytes: int) -> None:
    data = np.random.default_rng(num_bytes).integers(256, size=num_bytes, dtype=np.uint8)
    for value in (data.tobytes(), memoryview(data), data):
        assert implementation.crc32(value) == zlib.crc32(value)
    half = num_bytes // 2
    assert implementation.crc32(data[half:], implementation.crc32(data[:half])) == zlib.crc32(data)
    assert 0 <= implementation.crc32(data) < 1 << 32
