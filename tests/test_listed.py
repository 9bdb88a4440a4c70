"""Lists of datasets that are not what they should be: the error names the file and the line."""

from collections.abc import Callable
from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import SourceError
from recordzoo.recipes.listed import Lists
from recordzoo.text import text_of
from tests.fakes import celeba, flickr, nabirds, sbd
from tests.fakes.fake import Fake


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
        (sbd.FAKES[0], "train.txt", r"sbd: .*train\.txt, line 1: byte 1 \(0xe9\) is not UTF-8"),
        (celeba.FAKES[0], "list_attr_celeba.txt", r"celeba: .*list_attr_celeba\.txt, line 1: byte 1 .* is not UTF-8"),
        (nabirds.FAKES[0], "classes.txt", r"nabirds: .*classes\.txt, line 1: byte 1 \(0xe9\) is not UTF-8"),
    ],
    ids=lambda value: getattr(value, "dataset", None),
)
def test_lists_of_datasets(fake: Fake, name: str, message: str, tmp_path: Path) -> None:
    root = _damaged(fake, tmp_path, name, lambda data: b"\xe9" + data)
    with pytest.raises(SourceError, match=message):
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
    root = flickr.FAKES[1].write_tree(tmp_path) / "flickr30k-images"
    path = tmp_path / "captions.token"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=message):
        recordzoo.Flickr30kRecord(root, path)
