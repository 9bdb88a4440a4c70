"""What a notebook shows of a dataset: facts and images of it, cheaply, whatever is in it, and never an error."""

import base64
import html.parser
import io
import re

import numpy as np
import pytest
from PIL import Image

import recordzoo
from recordzoo import CUB200Record, ImageFolderRecord
from tests.fakes import cub200, folder
from tests.fakes.odd_images import HOSTILE_NAMES
from tests.fakes.pictures import encoded
from tests.fakes.records import flip, write_records

SMALL = encoded(Image.new("RGB", (20, 10), (200, 30, 30)), "PNG")
LIMIT = 100_000


class Parsed(html.parser.HTMLParser):
    """The elements with their attributes, and all text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def images(self):
        return [attributes for tag, attributes in self.elements if tag == "img"]


def parsed(dataset):
    text = dataset._repr_html_()
    assert len(text.encode()) < LIMIT
    return Parsed(text)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    root = tmp_path_factory.mktemp("birds")
    cub200.build(5, 6).write_tree(root)
    CUB200Record(root, prepare=True, workers=1)
    return root


def test_facts_and_images_of_the_split(birds):
    train = CUB200Record(birds, split="train")
    shown = parsed(train)
    facts = dict(zip(shown.texts[2::2], shown.texts[3::2], strict=False))
    assert shown.texts[:2] == ["CUB200Record", ": 15 samples"]
    assert facts["records"] == str(birds / "cub200.records")
    assert facts["splits"] == "test 15, train 15; this one: train"
    assert facts["classes"].startswith("5: 001.Black_footed_Albatross, 002.")
    assert facts["fields"].startswith("attributes (multilabel), bbox (boxes), image (image), ")
    assert len(shown.images) == 12
    for number, attributes in enumerate(shown.images):
        image, label = train[number * 15 // 12]
        kind, data = re.fullmatch("data:image/(png|jpeg);base64,(.*)", attributes["src"]).groups()
        small = Image.open(io.BytesIO(base64.b64decode(data)))
        assert small.format.lower() == kind
        assert attributes["alt"].startswith(f"{train.classes[label]}: ")
        assert attributes["alt"].endswith(train._selection.names()[number * 15 // 12].rpartition("/")[2])
        expected = np.asarray(image.resize(small.size), np.int16)
        assert np.abs(np.asarray(small, np.int16) - expected).mean() < 12


def test_hostile_names_are_text(odd, birds):
    def is_hostile(path):
        return "/odd/" not in path

    shown = parsed(recordzoo.open(odd))
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in parsed(CUB200Record(birds)).elements}
    names = {name for _, attributes in shown.elements for name in attributes}
    assert names <= {"style", "title", "alt", "src", "width", "height"}
    subset = ImageFolderRecord(odd, is_valid_file=is_hostile, allow_empty=True)
    shown = parsed(subset)
    titles = [attributes["title"] for tag, attributes in shown.elements if tag == "figure"]
    assert len(titles) == len(HOSTILE_NAMES)
    assert titles[0].startswith('</script><img src=x onerror="alert(1)">: ')
    assert "\\u202egnp.exe\\u2066: \\u202egnp.exe\\u2066.png" in titles
    assert all(text.isprintable() for text in [*titles, *shown.texts])
    assert max(map(len, titles)) < 200


def test_noise_and_huge_images_stay_small_and_quick(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    noise = encoded(Image.fromarray(rng.integers(0, 256, (300, 300, 3), np.uint8)), "PNG")
    huge = encoded(Image.new("L", (5000, 4000)), "PNG")
    assert len(parsed(recordzoo.open(write_records(tmp_path / "noise", [noise] * 30, encoding="image"))).images) == 12
    monkeypatch.setattr(Image.Image, "convert", None)  # pixels would be decoded for it
    shown = parsed(recordzoo.open(write_records(tmp_path / "huge", [huge], encoding="image")))
    assert "5,000 x 4,000 pixels: too large to be shown" in shown.texts


def test_damage_is_said_in_its_place(tmp_path):
    values = [SMALL + b"first", SMALL]
    path = write_records(tmp_path / "s", values, encoding="image")
    dataset = recordzoo.open(path)
    shard = path / "shard-00000.lmdb"
    flip(shard, 8 * shard.read_bytes().index(b"first"))
    shown = parsed(dataset)
    assert len(shown.images) == 1
    assert "its stored bytes are damaged" in shown.texts
    dataset = recordzoo.open(path)
    assert len(dataset) == 2
    for array in path.glob("*.npy"):
        array.unlink()
    assert {": 2 samples", "not shown"} <= set(parsed(dataset).texts)
    half = CUB200Record.__new__(CUB200Record)  # it is not open
    assert "CUB200Record object" in Parsed(half._repr_html_()).texts[0]


def test_changed_samples_are_said(tmp_path):
    dataset = ImageFolderRecord(folder.write_tree(tmp_path / "photos"), workers=1)
    assert "note" not in parsed(dataset).texts
    dataset.samples = dataset.samples[:2]
    shown = parsed(dataset)
    assert ": 2 samples" in shown.texts
    assert "samples were changed; images and classes are as opened" in shown.texts


def test_other_fields_than_images(tmp_path):
    series = [(np.arange(4, dtype=np.float32) + index, index) for index in range(3)]
    recordzoo.convert(series, tmp_path / "series.records", workers=1)
    shown = parsed(recordzoo.open(tmp_path / "series.records"))
    assert shown.images == []
    assert any("holds no images; its blob fields are: image (raw)" in text for text in shown.texts)
