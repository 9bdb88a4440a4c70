"""The list of directories in which something was prepared."""

import functools

import pytest

from recordzoo.base import settings
from recordzoo.base.text import user_folder


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORDZOO_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "roots.jsonl"


def test_each_directory_is_listed_once(tmp_path, place, monkeypatch):
    (tmp_path / "with\nline break").mkdir()
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "with\nline break", tmp_path.relative_to(tmp_path), tmp_path):
        settings.remember_root(folder)
    assert settings.known_roots() == [tmp_path, tmp_path / "with\nline break"]
    assert len(place.read_bytes().splitlines()) == 2


def test_what_is_gone_or_damaged_is_left_out(tmp_path, place):
    place.parent.mkdir()
    lines = f'[1]\n{{\n"relative"\n"{tmp_path}/gone"\n\udcff\n"{tmp_path}"\n'
    place.write_bytes(lines.encode(errors="surrogateescape"))
    assert settings.known_roots() == [tmp_path]
    place.unlink()
    place.mkdir()
    assert settings.known_roots() == []
    settings.remember_root(tmp_path)  # nothing happens


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORDZOO_STATE", "off")
    settings.remember_root(tmp_path)
    assert (settings.roots_file(), settings.known_roots()) == (None, [])


def test_the_default_is_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("RECORDZOO_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("recordzoo.base.settings.user_folder", functools.partial(user_folder, platform="linux"))
    assert settings.roots_file() == tmp_path / "recordzoo" / "roots.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # by its specification such a value is ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.roots_file() == tmp_path / ".local" / "state" / "recordzoo" / "roots.jsonl"


def test_it_does_not_grow_for_ever(tmp_path, place):
    place.parent.mkdir()
    place.write_bytes(b'"/' + b"x" * 600_000 + b'"\n')
    settings.remember_root(tmp_path)
    assert settings.known_roots() == []
