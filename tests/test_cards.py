"""The pictures on the pages of datasets: cards that are drawn, and sheets of a few real samples."""

import dataclasses
import os
import re
import shutil
from html import unescape
from xml.etree import ElementTree

import pytest
from PIL import Image

import recordzoo
from docs.parts import card, dataset_page, fakes, real_samples
from recordzoo import catalogue
from tests.fakes.catalogued import catalogued
from tools.samples import CELL


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.names())
def test_the_expression_takes_a_sample_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code on the card runs, on the fake, and its names are those of the list."""
    figure, page = card.figure(name), dataset_page.page(name)
    assert page.count('<figure class="card">') == 1
    assert card.picture(name) in page
    assert len(card.picture(name)) < 12_000
    assert "\n\n" not in figure, "Markdown ends its HTML there"
    title = str(ElementTree.fromstring(card.picture(name))[0].text)
    assert catalogue.entry(name).title in title
    assert catalogue.entry(name).task in title
    codes = [unescape(code) for code in re.findall(r"<pre><code>(.+?)</code></pre>", figure, re.DOTALL)]
    lists = re.findall(r"<dl>(.+?)</dl>", figure, re.DOTALL)
    seen = fakes.seen(name)  # which has prepared it
    assert len(codes) == len(lists) == len([samples for samples in seen.samples.values() if samples])
    made = fakes._folder() / name
    monkeypatch.chdir(made)  # where files of annotations are
    values = [value for case in catalogued()[name].cases for each in case.arguments for value in each.values()]
    for value in values:
        if isinstance(value, os.PathLike):
            shutil.copy(value, made)
    folders = {case.name: case.folder for case in catalogued()[name].cases}
    for code, listed in zip(codes, lists, strict=True):
        kind = re.search(r"= (\w+)\(", code)[1]

        def opened(root, kind=kind, **arguments):
            dataset = getattr(recordzoo, kind)(made / folders[kind], **arguments, **fakes._OPTIONS)
            return [next(fakes._some(dataset))]  # the first one may be broken

        taken = {kind: opened}
        with fakes._quiet():
            exec(code, taken)
        names = re.findall(r"<dt><code>(\w+)</code>", listed)
        assert {*names} == {*taken} - {kind, "dataset", "__builtins__"}


# Real samples.


@pytest.mark.parametrize("name", real_samples.sheets())
def test_a_sheet_of_real_samples_says_whose_they_are(name: str) -> None:
    sheet = real_samples.sheets()[name]
    facts = catalogue.entry(name)
    assert all(getattr(sheet, field.name) for field in dataclasses.fields(sheet))
    assert sheet.license in facts.license, "the catalogue says something else"
    assert sheet.source == facts.homepage
    assert len(sheet.indices) == len({*sheet.indices}) <= real_samples.MOST
    assert max(sheet.indices) < next(split.count for split in facts.splits if split.name == sheet.split)
    figure = real_samples.figure(name, "../../")
    assert all(text in figure for text in (sheet.author, sheet.license, sheet.license_url, sheet.source))
    assert figure in dataset_page.page(name)


def test_sheets_are_small_and_all_of_them_are_described() -> None:
    files = {path.stem: path for path in real_samples.FOLDER.iterdir() if path.name != "samples.toml"}
    assert {*files} == {*real_samples.sheets()}
    for name, path in files.items():
        assert path.suffix == ".webp"
        assert path.stat().st_size < 60_000
        with Image.open(path) as image:
            assert image.size == real_samples.sheets()[name].size
            room = (image.width // CELL) * (image.height // CELL)
            assert len(real_samples.sheets()[name].indices) <= room <= real_samples.MOST
