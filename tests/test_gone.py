"""Datasets whose hosts are gone: what `download=True` does, where torchvision's class only raises an error."""

from pathlib import Path

import pytest

import recordzoo
from recordzoo import catalogue
from tests.fakes.catalogued import catalogued
from tests.fakes.server import FileServer

GONE = ["stanford_cars", "lfw"]


@pytest.mark.parametrize("name", GONE)
def test_a_download_says_how_to_get_the_files(name: str, tmp_path: Path) -> None:
    entry = catalogue.entry(name)
    by_hand = next(file for file in entry.files if not file.urls and not file.optional)
    part = entry.part(by_hand.parts[0])
    with pytest.raises(recordzoo.errors.DownloadError, match=r"(?s)\n1\. .*\n2\. .*recordzoo prepare") as caught:
        getattr(recordzoo, entry.class_names[0])(tmp_path, **part.arguments, download=True)
    assert str(tmp_path / entry.folder) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", GONE)
def test_a_mirror_of_ones_own_has_them(name: str, tmp_path: Path) -> None:
    fake = catalogued()[name]
    entry = catalogue.entry(name)
    with FileServer({f"{name}/{file}": data for file, data in fake.files.items()}) as server:
        for part in map(entry.part, entry.default_parts):
            kind = getattr(recordzoo, entry.class_names[0])
            assert len(kind(tmp_path, **part.arguments, download=True, mirror=server.url, check_hash=False)) > 0
