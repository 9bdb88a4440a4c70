"""The catalogue: every file of it is whole, and a wrong one is refused by name."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from recordzoo import catalogue
from recordzoo.catalogue import CONVERT_SPEED, Costs, Layout, parse
from recordzoo.cli import listing as cli_info
from recordzoo.errors import ArgumentError
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Preparation
from recordzoo.recipes.declared import dataset_recipe
from tests.test_rooms import modules_after

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
    ("more", "hashes", "facts", "described"),
    [
        (
            "unconfirmed = true",
            (None, ZEROS, None),
            f"10 B, probably md5 {ZEROS}",
            f"10 bytes, md5:{ZEROS}, the hash is not confirmed",
        ),
        (
            f'sha256 = "{ONES}"',
            (("sha256", ONES), None, ZEROS),
            f"10 B, sha256 {ONES} or md5 {ZEROS}",
            f"10 bytes, sha256:{ONES} or md5:{ZEROS}",
        ),
        (f'unconfirmed = true\nsha256 = "{ONES}"', (("sha256", ONES), None, None), f"sha256 {ONES}", f"sha256:{ONES}"),
    ],
)
def test_hashes_of_a_file(more, hashes, facts, described):
    entry = parse("birds", GOOD.replace(f'md5 = "{ZEROS}"', f'md5 = "{ZEROS}"\n{more}'))
    remote = entry.raw_files("train")[0]
    assert (remote.hash, remote.likely_md5, remote.second_md5) == hashes
    assert facts in remote.facts
    (line,) = [line for line in cli_info.describe(entry).splitlines() if "birds.tgz, " in line]
    assert described in line


def test_which_md5s_are_not_confirmed():
    """Each is known from one loader and its copies alone; mlverse's of COCO's train2014.zip was wrong."""
    files = [file for name in catalogue.names() for file in catalogue.entry(name).files if file.unconfirmed]
    assert sorted(file.name for file in files) == [
        "PACS.zip",
        "caption_datasets.zip",
        "flickr30k-images.tar.gz",
        "nabirds.tar.gz",
        "objectnet-1.0.zip",
    ]
    (train2014,) = [file for file in catalogue.entry("coco").files if file.name == "train2014.zip"]
    assert train2014.md5 == "0da8c0bd3d6becc4dcb32757491aca88"


def test_optional_files_without_an_address_are_had_by_hand():
    entry = parse("birds", GOOD)
    assert entry.obtained == "partly"
    assert "obtained:  downloaded; some files by hand" in cli_info.describe(entry)
    assert parse("birds", GOOD.replace("size_bytes = 5", 'urls = ["https://example.org"]')).obtained == "download"


def test_a_size_is_exact_or_about_or_not_known():
    about = parse("birds", GOOD.replace("size_bytes = 10", "about_bytes = 9_000_000"))
    assert (about.size_bytes, about.known_bytes, about.is_size_exact) == (9_000_005, 9_000_005, False)
    assert about.raw_files("train")[0].facts == f"about 9 MB, md5 {'0' * 32}"
    assert (about.raw_files("train")[0].size_bytes, about.raw_files("train")[0].expected_bytes) == (None, 9_000_000)
    assert cli_info.size(about) == "about 9 MB"
    assert "birds.tgz, about 9 MB, md5" in cli_info.describe(about)
    unknown = parse("birds", GOOD.replace("size_bytes = 10\n", ""))
    assert (unknown.size_bytes, unknown.known_bytes) == (None, 5)
    assert cli_info.size(unknown) == "> 5 B"
    assert "birds.tgz, size not known" in cli_info.describe(unknown)
    assert cli_info.entry_document(unknown)["size_bytes"] is None
    assert parse("birds", GOOD).is_size_exact


def test_costs_are_those_of_a_dry_run(tmp_path):
    """`describe` knows each record set; what is downloaded for several of them is there once."""
    for name in catalogue.names():
        entry = catalogue.entry(name)
        outlooks = [
            Preparation(dataset_recipe(name, part), tmp_path, Options.of({}, "test")).outlook()
            for part in entry.default_parts
        ]
        records = [outlook.records_bytes for outlook in outlooks]
        if entry.size_bytes is None:
            assert entry.costs == Costs()
            assert None in records
            assert "disk:      unknown\ntime:      unknown\n" in cli_info.describe(entry)
            continue
        assert entry.costs.kept_bytes == sum(records)
        assert entry.costs.needed_bytes == sum(records) + entry.size_bytes
        seconds = sum(outlook.raw_bytes for outlook in outlooks) / CONVERT_SPEED
        assert entry.costs.convert_seconds == pytest.approx(seconds, abs=0.05)


NO_LICENSE = ('"CC0"', '"Not stated by its authors."\nlicense_source = "None was found."')
MEANING = "The recipe has read only generated files; the layout of the real ones is from sources."


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("", ""), "license:   CC0\n"),
        (NO_LICENSE, "license:   Not stated by its authors. Source: None was found.\n"),
        (("", ""), f"checked:   layout (2026-11-24). {MEANING} Source: The README."),
        (
            ("size_bytes = 10", "about_bytes = 9_000_000_000"),
            "disk:      about 18 GB for the record sets; 27 GB while preparing, with the raw files\n"
            "time:      about 1 min 09 s to convert on one core: an estimate, at 130 MB/s of raw data\n",
        ),
    ],
)
def test_info_says(change, told):
    assert told in cli_info.describe(parse("birds", GOOD.replace(*change, 1)))


def test_the_document_says_it_too():
    said = cli_info.entry_document(parse("birds", GOOD.replace(*NO_LICENSE)))
    assert said["license_source"] == "None was found."
    assert said["checked"] == {"by": "layout", "date": "2026-11-24", "source": "The README."}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('title = "Birds"', ""), "birds.toml: title must be a string; it is missing"),
        (('title = "Birds"', "title = 3"), "title must be a string; it is 3"),
        (('title = "Birds"', 'title = "Birds"\ntitel = "x"'), "birds.toml has unknown keys: titel"),
        (('checked = "layout"', ""), "birds.toml: checked must be a string; it is missing"),
        (('checked = "layout"', 'checked = "yes"'), "checked must be one of bytes, lists, layout; it is 'yes'"),
        (("expansion = 2", 'layout = "flat"'), "birds.toml: layout must be class_folders or annotated; it is 'flat'"),
        (("expansion = 2", 'top = "birds/"'), "birds.toml has unknown keys: top"),
        (("optional = true\nset_name", 'top = "extra/"\nset_name'), "[parts.extra] has unknown keys: top"),
        (("2026-11-24", "yesterday"), "checked_date must be a day, as 2026-11-24; it is 'yesterday'"),
        (("size_bytes = 10", "size_bytes = -1"), r"[[files]] number 1: size_bytes must be a whole number"),
        (("size_bytes = 10", "size_bytes = 10\nabout_bytes = 9"), "about_bytes is for a file without size_bytes"),
        (("size_bytes = 5", "size_bytes = 5\nunconfirmed = true"), "unconfirmed is for a file with an md5"),
        (("size_bytes = 10", "size_bytes = 10\nneeded = true"), "[[files]] number 1 has unknown keys: needed"),
        (("size_bytes = 10", "size_byte = 1"), "[[files]] number 1 has unknown keys: size_byte"),
        (("0" * 32, "0" * 31), "is not a hash of 32 hexadecimal digits"),
        (('part = "train"\nurls', 'part = "trian"\nurls'), "birds.tgz belongs to ('trian',), but the parts are"),
        (("train = 1 }", "train = true }"), "[parts.train]: splits must be a table of whole numbers"),
        (("splits = {", "split = {"), "[parts.train] has unknown keys: split"),
        (("expansion = 2", "expansion = 0"), "expansion must be a number above 0"),
        (("optional = true\nset_name", "optional = 1\nset_name"), "optional must be true or false"),
        (("[parts.train]", "[parts.train"), "birds.toml is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(change, told):
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(ArgumentError) as caught:
        parse("birds", text)
    assert told in str(caught.value)


def test_a_layout_is_that_of_the_dataset_but_for_what_a_part_says():
    layout = 'layout = "class_folders"\nfolders = { train = "training" }\nendings = [".png"]'
    text = GOOD.replace("expansion = 2", layout).replace("set_name =", 'top = "more/"\nset_name =')
    train, extra = parse("birds", text).parts
    assert train.layout == Layout("class_folders", "train/", {"train": "training"}, (".png",))
    assert extra.layout == dataclasses.replace(train.layout, top="more/")
    assert parse("birds", GOOD).parts[0].layout == Layout()


def test_reading_it_imports_no_torch_no_numpy_no_requests():
    code = "from recordzoo import catalogue; [catalogue.entry(name) for name in catalogue.names()]"
    assert not modules_after(code) & {"torch", "numpy", "requests"}
