"""Lists of datasets that are not what they should be: the error names the file and the line."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import recordzoo
from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.recipes.declared import Lists
from tests.fakes.annotations import celeba, oxford_pets, sbd
from tests.fakes.class_folders import gtsrb
from tests.fakes.fake import Fake
from tests.fakes.flickr import flickr30k
from tests.fakes.lfw import lfw
from tests.fakes.places365 import places365
from tests.fakes.plain import nabirds, online_products, tiny_imagenet


def test_a_byte_that_is_not_utf8() -> None:
    lists = Lists("birds", {"a.txt": b"one\n\ntwo caf\xe9\n"})
    for read in (lists.lines, lists.rows):
        with pytest.raises(SourceError, match=r"^birds: a\.txt, line 3: byte 8 \(0xe9\) is not UTF-8\. Get ") as caught:
            read("a.txt")
        assert caught.value.details["lines"] == [3]
    with pytest.raises(SourceError, match=r"^x, line 1: byte 1 \(0xff\) is not UTF-8"):
        text_of(b"\xff", "x")


def test_rows_have_their_columns() -> None:
    lists = Lists("birds", {"a.txt": b"1 a b\n\n2 c\n3\n"})
    assert lists.rows("a.txt") == [["1", "a", "b"], ["2", "c"], ["3"]]
    with pytest.raises(SourceError, match=r"^birds: a\.txt, line 1: expected 2 columns, found 3: '1 a b'\. Get "):
        lists.rows("a.txt", columns=2)
    with pytest.raises(SourceError, match=r"^birds: a\.txt, line 4: expected 2 columns, found 1: '3'\. Get "):
        lists.rows("a.txt", columns=2, cuts=1)


def _damaged(fake: Fake, tmp_path: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    root = fake.write_tree(tmp_path)
    path = next(root.rglob(name))
    path.write_bytes(change(path.read_bytes()))
    return root


@pytest.mark.parametrize(
    ("fake", "name", "message"),
    [
        (sbd, "train.txt", r"sbd: .*train\.txt, line 1: byte 1 \(0xe9\) is not UTF-8"),
        (celeba, "list_attr_celeba.txt", r"celeba: .*list_attr_celeba\.txt, line 1: byte 1 .* is not UTF-8"),
        (nabirds, "classes.txt", r"nabirds: .*classes\.txt, line 1: byte 1 \(0xe9\) is not UTF-8"),
    ],
    ids=lambda value: getattr(value, "dataset", None),
)
def test_lists_of_datasets(fake: Fake, name: str, message: str, tmp_path: Path) -> None:
    root = _damaged(fake, tmp_path, name, lambda data: b"\xe9" + data)
    with pytest.raises(SourceError, match=message):
        recordzoo.prepare(fake.dataset, root, check_hash=False, workers=1)


NUMBERS = [
    (celeba, "list_eval_partition.txt", " 0", "an integer"),
    (celeba, "list_attr_celeba.txt", " -1 ", "an integer"),
    (gtsrb, "GT-final_test.csv", r";\d+\r?$", "an integer"),
    (lfw, "peopleDevTrain.txt", r"\t\d+$", "an integer"),
    (lfw, "pairsDevTest.txt", r"\d+$", "an integer"),
    (nabirds, "image_class_labels.txt", r" \d+$", "an integer"),
    (nabirds, "bounding_boxes.txt", r" \d+$", "numbers"),
    (online_products, "Ebay_test.txt", r" \d+ ", "an integer"),
    (oxford_pets, "trainval.txt", r" \d+ ", "an integer"),
    (places365, "categories_places365.txt", r" \d+$", "an integer"),
    (places365, "places365_val.txt", r" \d+$", "an integer"),
    (tiny_imagenet, "val_annotations.txt", r"\t\d+$", "numbers"),
]


@pytest.mark.parametrize("value", ["two", "9" * 30])
@pytest.mark.parametrize(("fake", "name", "number", "expected"), NUMBERS, ids=[name for _, name, _, _ in NUMBERS])
def test_numbers_that_are_none(fake: Fake, name: str, number: str, expected: str, value: str, tmp_path: Path) -> None:
    if (expected, value) == ("numbers", "9" * 30):  # fits a float
        value = "9x"

    def change(data: bytes) -> bytes:
        return re.sub(
            number, lambda found: re.sub(r"-?\d+", value, found[0]), data.decode(), count=1, flags=re.M
        ).encode()

    root = _damaged(fake, tmp_path, name, change)
    with pytest.raises(SourceError, match=rf"{re.escape(name)}, line \d+: expected {expected}, found ") as caught:
        recordzoo.prepare(fake.dataset, root, check_hash=False, workers=1)
    path = next(root.rglob(name))
    (line,) = caught.value.details["lines"]
    assert value in path.read_text().splitlines()[line - 1]


@pytest.mark.parametrize(("fake", "name"), [(nabirds, "bounding_boxes.txt"), (tiny_imagenet, "wnids.txt")])
def test_lists_that_contradict_each_other(fake: Fake, name: str, tmp_path: Path) -> None:
    root = _damaged(fake, tmp_path, name, lambda data: b"x" + data)
    with pytest.raises(
        SourceError, match=rf"{fake.dataset}: (the lists contradict each other: one has '|.*missing in)"
    ):
        recordzoo.prepare(fake.dataset, root, check_hash=False, workers=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a.jpg#0\tone\na.jpg#1\ttwo\ttabs\n", r"captions\.token, line 2: expected an image, a tab and a caption"),
        (b"a.jpg#0 none\n", r"captions\.token, line 1: expected an image, a tab and a caption, found 'a\.jpg#0 none'"),
        (b"a.jpg#0\tone\na.jpg#1\tcaf\xe9\n", r"captions\.token, line 2: byte 12 \(0xe9\) is not UTF-8"),
        (b'{"images": [', r"captions\.token is no JSON of captions"),
        (b'{"images": [{}]}', r"captions\.token is no JSON of captions"),
    ],
)
def test_captions_of_flickr(data: bytes, message: str, tmp_path: Path) -> None:
    root = flickr30k.write_tree(tmp_path) / "flickr30k-images"
    path = tmp_path / "captions.token"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=message):
        recordzoo.Flickr30kRecord(root, path)
