"""What tests of record sets at URLs share."""

import os
from pathlib import Path

import pytest

from recordzoo.net import http as retry


def with_own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give a test a cache of its own, without pauses between attempts, without a proxy."""
    monkeypatch.setattr(retry, "BACKOFF_S", 0.001)
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("RECORDZOO_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path / "cache"))
