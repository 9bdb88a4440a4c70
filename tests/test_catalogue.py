"""The catalogue: every file of it is whole, and a wrong one is refused by name."""

import importlib
import re
from datetime import date
from pathlib import Path

import pytest

from recordzoo import catalogue
from recordzoo.catalogue import parse
from recordzoo.errors import ArgumentError
from recordzoo.recipes.declared import dataset_recipe

GOOD = """
title = "Birds"
summary = "Two birds."
homepage = "https://example.org/"
license = "CC0"
citation = "Nobody."
checked = "layout"
checked_date = "2026-11-24"
checked_source = "The README."
task = "classification"
class = "BirdsRecord"
folder = "birds/raw"
expansion = 2

[parts.train]
description = "one bird"
splits = { train = 1 }
[parts.extra]
optional = true
set_name = "birds-extra"

[[files]]
name = "birds.tgz"
part = "train"
urls = ["https://example.org/birds.tgz"]
size_bytes = 10
md5 = "00000000000000000000000000000000"

[[files]]
name = "notes.txt"
parts = ["train", "extra"]
size_bytes = 5
optional = true

[[files]]
name = "more.tgz"
part = "extra"
size_bytes = 7
"""


@pytest.mark.parametrize("name", catalogue.names())
def test_every_entry_is_whole(name):
    entry = catalogue.entry(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)
    assert entry.name == name
    for text in (entry.title, entry.summary, entry.license, entry.citation):
        assert text.strip() == text
        assert text
    assert len(entry.summary) >= 50, "a Croissant description: Google's dataset search takes none that is shorter"
    assert entry.license_source, "say where the license was read, or looked for in vain"
    assert entry.homepage.startswith(("https://", "http://"))
    assert date.fromisoformat(entry.checked.date)
    assert entry.splits or entry.images
    assert all(split.count > 0 for split in entry.splits)
    for part in entry.parts:
        assert entry.raw_files(part.name), f"no raw file makes {entry.label(part.name)}"
    for file in entry.files:
        assert file.md5 or file.sha256, f"{file.name} has no hash"
        assert all(url.startswith(("https://", "http://")) for url in file.urls), file.urls
        assert file.urls or entry.instructions, f"{file.name} has no address, and nothing says how to get it"


@pytest.mark.parametrize("name", catalogue.names())
def test_the_entry_names_a_class_and_a_recipe_that_exist(name):
    entry = catalogue.entry(name)
    for kind in entry.class_names:
        assert getattr(importlib.import_module("recordzoo"), kind).__module__ == entry.dataset_module
    for part in entry.parts:
        recipe = dataset_recipe(name, part.name)
        assert (recipe.dataset, recipe.part) == (name, part.name)
        assert recipe.set_name == entry.set_name(part.name)
        assert recipe.raw_files == entry.raw_files(part.name)


def test_parses_all_facts():
    entry = parse("birds", GOOD)
    assert [(p.name, p.optional) for p in entry.parts] == [("train", False), ("extra", True)]
    assert entry.class_names == ("BirdsRecord",)
    assert entry.size_bytes == 15  # what only the optional part needs is not fetched
    assert (entry.label("train"), entry.set_name("train")) == ("birds.train", "birds.train")
    assert (entry.label("extra"), entry.set_name("extra")) == ("birds.extra", "birds-extra")
    assert [file.name for file in entry.raw_files("train")] == ["birds.tgz", "notes.txt"]
    assert [file.name for file in entry.raw_files("extra")] == ["notes.txt", "more.tgz"]
    assert [file.optional for file in entry.raw_files("train")] == [False, True]
    assert entry.raw_files("train")[0].hash == ("md5", "0" * 32)
    assert entry.raw_files("train")[0].path(Path("data")) == Path("data/birds/raw/birds.tgz")
    assert (entry.splits, entry.expansion) == ((catalogue.Split("train", 1, "train"),), 2)


ZEROS, ONES = "0" * 32, "1" * 64


@pytest.mark.parametrize(
    ("more", "hashes", "facts"),
    [
        ("unconfirmed = true", (None, ZEROS, None), f"10 B, probably md5 {ZEROS}"),
        (f'sha256 = "{ONES}"', (("sha256", ONES), None, ZEROS), f"10 B, sha256 {ONES} or md5 {ZEROS}"),
        (f'unconfirmed = true\nsha256 = "{ONES}"', (("sha256", ONES), None, None), f"sha256 {ONES}"),
    ],
)
def test_hashes_of_a_file(more, hashes, facts):
    entry = parse("birds", GOOD.replace(f'md5 = "{ZEROS}"', f'md5 = "{ZEROS}"\n{more}'))
    remote = entry.raw_files("train")[0]
    assert (remote.hash, remote.likely_md5, remote.second_md5) == hashes
    assert facts in remote.facts
    assert entry.obtained == "partly"  # an optional file has no address


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('title = "Birds"', ""), "missing 1 required positional argument: 'title'"),
        (('checked = "layout"', 'checked = "yes"'), "checked must be one of bytes, lists, layout; it is 'yes'"),
        (("expansion = 2", 'layout = "flat"'), "birds.toml: layout must be class_folders or annotated; it is 'flat'"),
        (("optional = true\nset_name", 'top = "extra/"\nset_name'), "[parts.extra] has the unknown key top"),
        (("size_bytes = 10", "size_bytes = true"), "[[files]] number 1: size_bytes must be of the type int | None"),
        (("size_bytes = 10", "size_bytes = 10\nabout_bytes = 9"), "about_bytes is for a file without size_bytes"),
        (("size_bytes = 5", "size_bytes = 5\nunconfirmed = true"), "unconfirmed is for a file with an md5"),
        (("0" * 32, "0" * 31), "is not a hash of 32 hexadecimal digits"),
        (('part = "train"\nurls', 'part = "trian"\nurls'), "birds.tgz belongs to ('trian',), but the parts are"),
        (("[parts.train]", "[parts.train"), "birds.toml is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(change, told):
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(ArgumentError) as caught:
        parse("birds", text)
    assert told in str(caught.value)
