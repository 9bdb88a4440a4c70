"""`convert` and `RecordWriter`: what a person does wrong is said at once, and in the words of what the person did."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import Dataset

from recordzoo import ImageFolderRecord, RecordReader, RecordWriter, convert
from recordzoo.errors import ArgumentError, PrepareError, SampleError
from tests.fakes.samples import jpeg
from tests.preparing import prepared


class Missing(Dataset):
    """200 samples, one of which opens a file that is not there."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.asked = 0

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> Any:
        self.asked += 1
        if index == self.missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/data/lost.png")
        return jpeg(index), index % 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("photos", "A str is no map-style dataset.* files at a path become records by prepare"),
        ({"train": [(b"x", 0)], "test": [(b"x", 0)]}, "A dict is no map-style dataset.* one dataset of a dict"),
        (Missing, "A type is no map-style dataset.* Pass an object of a class"),
        (Path("photos"), "A pathlib.PosixPath is no"),
        (iter([(b"x", 0)]), "A list_iterator is no map-style dataset, an object with __len__ and __getitem__"),
        ([], "list is empty"),
    ],
)
def test_what_is_no_dataset(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        convert(given, tmp_path / "my.records")
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_does_not_exist(tmp_path: Path) -> None:
    options: dict[str, Any] = {"variant": "256"}  # of `prepare` alone
    with pytest.raises(TypeError, match=r"convert\(\) got an unexpected keyword argument 'variant'"):
        convert([(jpeg(1), 0)], tmp_path / "my.records", **options)
    with pytest.raises(TypeError, match=r"prepare\(\) got an unexpected keyword argument 'worker'"):
        prepared(tmp_path / "list.txt", **{"worker": 2})


@pytest.mark.parametrize("make", [RecordWriter, lambda *args, **named: convert([(jpeg(1), 0)], *args, **named)])
def test_class_names_that_are_one_text(make: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="classes is 'cat'"):
        make(tmp_path / "my.records", classes="cat")


@pytest.mark.parametrize("count", [4, 300])
def test_a_label_beyond_the_class_names(tmp_path: Path, count: int) -> None:
    """Also where the sample is none of those that are looked at first."""
    samples = [(jpeg(1), 2 if index == 1 else 0) for index in range(count)]
    with pytest.raises(SampleError, match=r"position 1: .*2 is not a label: with 2 classes, labels are 0 to 1"):
        convert(samples, tmp_path / "my.records", classes=["cat", "dog"])


def test_labels_beyond_the_names_that_the_dataset_itself_has(tmp_path: Path) -> None:
    """As torchvision's STL10 has -1 for images without a label."""
    dataset = Missing(-1)
    dataset.classes = ["a", "b"]  # type: ignore[attr-defined]  # as torchvision's datasets have them
    assert len(ImageFolderRecord(convert(dataset, tmp_path / "my.records"))) == 200


def test_what_is_in_the_way_is_said_before_the_dataset_is_asked(tmp_path: Path) -> None:
    dataset = Missing(-1)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"mine")
    with pytest.raises(PrepareError, match=r"photos is in the way: .* another path"):
        convert(dataset, tmp_path / "photos")
    assert dataset.asked == 0
    assert (tmp_path / "photos" / "1.jpg").read_bytes() == b"mine"


@pytest.mark.parametrize("missing", [0, 101])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_the_dataset_misses_is_not_taken_for_a_full_disk(
    tmp_path: Path, missing: int, workers: int
) -> None:
    with pytest.raises(SampleError) as caught:
        convert(Missing(missing), tmp_path / "my.records", workers=workers, num_shards=4)
    message = str(caught.value)
    assert message.count(f"position {missing}: Missing raised FileNotFoundError") == 1
    assert "/data/lost.png" in message
    assert caught.value.details["position"] == missing


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ((b"x", 1), "position 1: a tuple, not a dict such as"),
        ({"image": b"x"}, "position 1: a dict that is no dict of image, target, but of image"),
        ({"image": b"x", "target": "one"}, r"position 1: 'target' holds a str, not int64 \(pass kinds="),
    ],
)
def test_a_record_that_is_not_like_the_first(tmp_path: Path, record: Any, words: str) -> None:
    with RecordWriter(tmp_path / "my.records") as writer:
        writer.write({"image": b"x", "target": 0})
        with pytest.raises(SampleError, match=words) as caught:
            writer.write(record)
    assert (caught.value.position, len(RecordReader(tmp_path / "my.records"))) == (1, 1)


def test_a_path_instead_of_an_image(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match=r"position 0: 'image' is a path.*prepare\('list.csv'\)"):
        convert([("cat.JPG", 0)] * 4, tmp_path / "my.records")
    sample, words = {"image": "cat.jpg", "target": 0}, "position 0: 'image' is a path, 'cat.jpg'; of a file, give the"
    with pytest.raises(SampleError, match=words), RecordWriter(tmp_path / "my.records") as writer:
        writer.write(sample)
    kept = convert([sample] * 4, tmp_path / "my.records", kinds={"image": "json"})
    assert RecordReader(kept)[0]["image"] == "cat.jpg"


def test_a_name_that_is_taken_is_answered_with_another(tmp_path: Path) -> None:
    for key in ("name", "split"):
        with pytest.raises(ArgumentError, match=rf"none of name, .*, split. .* such as fields={{'{key}': '{key}_'}}"):
            convert([{key: "a", "image": jpeg(1)}], tmp_path / "my.records")
        convert([{key: "a", "image": jpeg(1)}], tmp_path / f"{key}.records", fields={key: f"{key}_"})


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({"a": [1, {"b": object()}]}, "nor numbers nor JSON (a object, which JSON has not, at ['a'][1]['b'])"),
        ({"a": {5: 1}}, "JSON (a dict with the key 5, a int; JSON's keys are strings, at ['a'])"),
    ],
)
def test_what_json_has_not_is_named_with_its_key(meta: object, text: str, tmp_path: Path) -> None:
    with pytest.raises(SampleError, match=re.escape(text)):
        convert([{"image": jpeg(1), "meta": meta}], tmp_path / "my.records")
