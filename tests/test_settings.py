"""Environment variables: their defaults, their values, and a bad one named."""

import re

import pytest

from recordzoo.base import settings
from recordzoo.errors import ArgumentError


@pytest.mark.parametrize(
    ("variable", "read", "default", "unit"),
    [
        ("RECORDZOO_AUTO_PREPARE_GB", settings.auto_prepare_bytes, 20e9, 1e9),
        ("RECORDZOO_TIMEOUT", settings.timeout_s, 30.0, 1.0),
        ("RECORDZOO_MIN_SPEED", settings.min_bytes_per_s, 100.0, 1.0),
    ],
)
def test_numbers(variable, read, default, unit, monkeypatch):
    monkeypatch.delenv(variable, raising=False)
    assert read() == default
    monkeypatch.setenv(variable, "0.5")
    assert read() == 0.5 * unit
    for bad in ("-1", "nan", "inf"):
        monkeypatch.setenv(variable, bad)
        with pytest.raises(ArgumentError, match=f"{variable} is '{bad}'"):
            read()


def test_offline_and_mirror(monkeypatch):
    monkeypatch.delenv("RECORDZOO_OFFLINE", raising=False)
    assert not settings.offline()
    for value, offline in (("1", True), ("0", False), ("yes", True), ("No", False), ("", False), ("ON", True)):
        monkeypatch.setenv("RECORDZOO_OFFLINE", value)
        assert settings.offline() is offline
    monkeypatch.setenv("RECORDZOO_MIRROR", "https://mirror.example/data/")
    assert settings.mirror() == "https://mirror.example/data"


BAD = {
    **dict.fromkeys(("RECORDZOO_AUTO_PREPARE_GB", "RECORDZOO_TIMEOUT", "RECORDZOO_MIN_SPEED"), "abc"),
    **dict.fromkeys(("RECORDZOO_OFFLINE", "RECORDZOO_QUIET"), "perhaps"),
    "RECORDZOO_MIRROR": "mirror.example/data",
    "RECORDZOO_COMPILE": "later",
    "RECORDZOO_STATE": "state",
    "RECORDZOO_CACHE_DIR": "cache",
    "RECORDZOO_CACHE_BYTES": "much",
}


def test_a_bad_value_names_its_variable(monkeypatch):
    """Every variable that there is: each function of the module reads one, and its documentation names it."""
    read = {}
    for name, function in vars(settings).items():
        if (match := re.search(r"``(RECORDZOO_\w+)``", getattr(function, "__doc__", None) or "")) and name[0] != "_":
            read[match[1]] = function
    assert set(read) == set(BAD)
    for variable, value in BAD.items():
        monkeypatch.setenv(variable, value)
        with pytest.raises(ArgumentError, match=f"{variable} is '{value}'"):
            read[variable]()
