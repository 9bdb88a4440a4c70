"""`RECORDZOO_FACTS`: new addresses of raw files come without a release; nothing else does."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from recordzoo.catalogue.published import document, new_addresses
from recordzoo.errors import ArgumentError, DownloadError, HashMismatchError
from recordzoo.preparing import describe, ensure, locate, moved
from recordzoo.preparing.options import Options
from recordzoo.recipes.declared import DeclaredRecipe, dataset_recipe
from recordzoo.records.reader import is_record_set
from tests.downloading import quick
from tests.fakes.catalogued import catalogued
from tests.fakes.server import Fault, FileServer
from tests.test_download_network import Certificate, tls

__all__ = ["quick", "tls"]  # fixtures for all tests here

FILE = "usps.t.bz2"

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(autouse=True)
def forgetful() -> None:
    """Fetch anew in each test."""
    moved._addresses.cache_clear()


@pytest.fixture
def usps(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """USPS with the hashes of the fake, at addresses that are dead."""
    made = catalogued()["usps"].entry()
    dead = tuple(dataclasses.replace(file, urls=("http://127.0.0.1:9/gone",)) for file in made.files)
    made, real = dataclasses.replace(made, files=dead), catalogue.entry
    monkeypatch.setattr(catalogue, "entry", lambda name: made if name == "usps" else real(name))
    return made


@pytest.fixture
def data(usps: Entry, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("usps")
    catalogued()["usps"].write(folder)
    return (folder / FILE).read_bytes()


def recipe(usps: Entry) -> DeclaredRecipe:
    return dataset_recipe("usps", "test", usps.raw_files("test"))


def facts(*urls: str) -> dict[str, Any]:
    """What this release says of USPS's test file, with other addresses."""
    said: Any = document()["datasets"]
    return {"schema_version": 1, "datasets": {"usps": {FILE: {**said["usps"][FILE], "urls": list(urls)}}}}


def encoded(said: object) -> bytes:
    return json.dumps(said).encode()


def test_the_facts_of_this_release_change_nothing() -> None:
    found = new_addresses(encoded(document()))
    assert found == {(name, file.name): file.urls for name in catalogue.names() for file in catalogue.entry(name).files}


def test_a_file_that_moved_is_downloaded(
    usps: Entry, data: bytes, tmp_path: Path, tls: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileServer({FILE: data}, tls=tls.context) as host:
        with FileServer({"facts.json": encoded(facts(f"{host.url}/{FILE}"))}, tls=tls.context) as server:
            monkeypatch.setenv("RECORDZOO_FACTS", f"{server.url}/facts.json".replace("//", "//me:secret@"))
            located = locate(recipe(usps), tmp_path, Options.of({}, "test"))
            assert describe(located).sources[0]["url"] == "http://127.0.0.1:9/gone"  # a dry run fetches nothing
            assert server.log == []
            assert is_record_set(Path(ensure(recipe(usps), tmp_path, download=True, prepare=True)))
            assert is_record_set(Path(ensure(recipe(usps), tmp_path / "again", download=True, prepare=True)))
            assert len(server.log) == 1
            ensure(recipe(usps), tmp_path, refresh=True, download=True, prepare=True)
        assert [request.path for request in host.log] == [FILE, FILE]


def test_a_file_at_the_new_address_must_have_its_hash(
    usps: Entry, data: bytes, tmp_path: Path, tls: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {FILE: data[:-1] + b"x"}
    with FileServer(content, tls=tls.context) as server:
        content["facts.json"] = encoded(facts(f"{server.url}/{FILE}"))
        monkeypatch.setenv("RECORDZOO_FACTS", f"{server.url}/facts.json")
        with pytest.raises(HashMismatchError, match="is not the expected file"):
            ensure(recipe(usps), tmp_path, download=True, prepare=True)


def test_it_is_not_fetched_when_nothing_is_compared_or_downloaded(
    usps: Entry, data: bytes, tmp_path: Path, tls: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileServer({"facts.json": b""}, tls=tls.context) as server:
        monkeypatch.setenv("RECORDZOO_FACTS", f"{server.url}/facts.json")
        with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9"):
            ensure(recipe(usps), tmp_path, download=True, prepare=True, check_hash=False)
        with monkeypatch.context() as offline:
            offline.setenv("RECORDZOO_OFFLINE", "1")
            with pytest.raises(DownloadError, match="RECORDZOO_OFFLINE is set"):
                ensure(recipe(usps), tmp_path, download=True, prepare=True)
        (tmp_path / FILE).write_bytes(data)
        assert is_record_set(Path(ensure(recipe(usps), tmp_path, download=True, prepare=True)))
        assert server.log == []


def change(*keys: str, to: object) -> Change:
    """Return what sets a value in a document."""

    def do(said: dict[str, Any]) -> None:
        for key in keys[:-1]:
            said = said[key]
        said[keys[-1]] = to

    return do


USPS = ("datasets", "usps", FILE)
REFUSED: dict[str, tuple[Change, str]] = {
    "another form": (change("schema_version", to=2), "its schema_version is 2, not 1"),
    "more": (change("message", to="hello"), "it must have the keys schema_version, datasets and no others"),
    "no datasets": (change("datasets", to=[]), "its datasets are no JSON object"),
    "an unknown dataset": (change("datasets", "uspss", to={}), "the dataset 'uspss', which this release does not know"),
    "an unknown file": (change("datasets", "usps", "a.bz2", to={}), "files of usps that this release does not know"),
    "no files": (change("datasets", "usps", to=[]), "files of usps that this release does not know"),
    "an unknown key": (change(*USPS, "part", to="train"), "must have the keys urls, size_bytes, md5, sha256 and no"),
    "no file": (change(*USPS, to=None), f"its entry for {FILE} of usps must have the keys"),
    "another size": (change(*USPS, "size_bytes", to=1), f"its size_bytes of {FILE} of usps is 1, not"),
    "another MD5": (change(*USPS, "md5", to="0" * 32), f"its md5 of {FILE} of usps is '{'0' * 32}', not"),
    "another SHA-256": (change(*USPS, "sha256", to=None), f"its sha256 of {FILE} of usps is None, not"),
    "a text": (change(*USPS, "urls", to="https://a"), "are no list of strings"),
    "numbers": (change(*USPS, "urls", to=[1]), "are no list of strings"),
    "plain http": (change(*USPS, "urls", to=["http://a/b"]), "its address 'http://a/b' of .* is not a plain https"),
    "a file": (change(*USPS, "urls", to=["file:///etc/passwd"]), "is not a plain https address"),
    "a login": (change(*USPS, "urls", to=["https://me:secret@a/b"]), "its address 'https://a/b' of"),
    "a line end": (change(*USPS, "urls", to=["https://a/b\r\nX: y"]), "is not a plain https address"),
}


@pytest.mark.parametrize(("changed", "said"), REFUSED.values(), ids=REFUSED)
def test_facts_that_say_more_are_refused_whole(changed: Change, said: str) -> None:
    made = facts("https://example.org/a")
    changed(made)
    with pytest.raises(ArgumentError, match=said) as caught:
        new_addresses(encoded(made))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"<html>", b"\xff\xfe{", b"[" * 100_000, b'"text"'])
def test_what_is_no_facts_is_refused(data: bytes) -> None:
    with pytest.raises(ArgumentError, match=r"it is not JSON|it must have the keys"):
        new_addresses(data)


def test_a_file_without_a_confirmed_hash_keeps_its_addresses() -> None:
    said: Any = document()
    said["datasets"] = {"nabirds": said["datasets"]["nabirds"]}
    new_addresses(encoded(said))
    said["datasets"]["nabirds"]["nabirds.tar.gz"]["urls"] = ["https://example.org/a"]
    with pytest.raises(ArgumentError, match=r"nabirds.tar.gz of nabirds, of which no confirmed hash is known"):
        new_addresses(encoded(said))


ANSWERS = {
    "gone": (Fault(status=404), "404 Not Found"),
    "busy": (Fault(status=503), "503"),
    "cut off": (Fault(missing=5), "broke|came"),
    "too large": (Fault(body=b" " * 2000), "it is larger than 1 kB"),
    "a page": (Fault(body=b"<html>"), "it is not JSON"),
    "redirected to http": (Fault(location="http://127.0.0.1:9/facts.json"), "from https only https is followed"),
    "silent": (Fault(mute=True), "it was not there within 0.5 s"),
    "slow": (Fault(trickle_s=0.05), "it was not there within 0.5 s"),
}


@pytest.mark.parametrize(("fault", "said"), ANSWERS.values(), ids=ANSWERS)
def test_what_cannot_be_fetched_ends_the_download(
    usps: Entry, tmp_path: Path, tls: Certificate, monkeypatch: pytest.MonkeyPatch, fault: Fault, said: str
) -> None:
    monkeypatch.setattr(moved, "TIME_S", 0.5)
    monkeypatch.setattr(moved, "MOST_BYTES", 1000)
    with FileServer({"facts.json": encoded(facts("https://a"))}, {"facts.json": [fault]}, tls.context) as server:
        monkeypatch.setenv("RECORDZOO_FACTS", f"{server.url}/facts.json".replace("//", "//me:secret@"))
        with pytest.raises(
            DownloadError, match=rf"^The facts at {server.url}/facts\.json .* not used: .*({said})"
        ) as err:
            ensure(recipe(usps), tmp_path, download=True, prepare=True)
    assert "Unset the variable" in str(err.value)
    assert "secret" not in str(err.value)
    assert list(tmp_path.iterdir()) == []
