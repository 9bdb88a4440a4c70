"""LMDB layouts that no one tool writes: arrays, objects of a class, images with texts, images under their names.

`tests/fakes/legacy.py` writes them as the scripts do that people copy.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo import ImageFolderRecord
from recordzoo.errors import SourceError
from recordzoo.records.reader import RecordReader
from tests.fakes import legacy
from tests.foreign import imported
from tests.test_unpickle import Reduced

write_values = legacy.folder2lmdb  # pickles whatever it is given


def values_of(reader: RecordReader) -> list[np.ndarray]:
    return [reader.value("image", position) for position in range(len(reader))]


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert [array.dtype for array in found] == [array.dtype for array in wanted]
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


# Arrays


def as_chw(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image.transpose(2, 0, 1))


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, as_chw], ids=["hwc", "fortran", "chw"])
def test_pixels(form: Callable[[np.ndarray], np.ndarray], tmp_path: Path) -> None:
    images = [image for image, _ in legacy.pixels(18) if image.shape[1] > 4]  # [3, H, 3] would pass for [H, W, 3]
    reader = imported(write_values(tmp_path / "x.lmdb", [form(image) for image in images]))
    assert_same(values_of(reader), images)
    assert reader.manifest.dataset == "lmdb_arrays"
    assert list(reader.names)[9:] == ["9", "10", "11"]


def test_arrays_open_as_images_without_classes_do(tmp_path: Path) -> None:
    images = [image for image, _ in legacy.pixels(5)]
    imported(write_values(tmp_path / "x.lmdb", images))
    dataset = ImageFolderRecord(tmp_path / "my.records")
    assert (dataset.classes, dataset.class_to_idx, dataset.targets) == ([], {}, [-1] * 5)
    for (image, label), wanted in zip(dataset, images, strict=True):
        assert (image.mode, label) == ("RGB", -1)
        assert np.array_equal(image, wanted)


def test_images_in_grey_and_the_length_as_digits(tmp_path: Path) -> None:
    images = [image for image, _ in legacy.pixels(12, channels=1)]
    values = [(str(i).encode(), pickle.dumps(image[..., 0])) for i, image in enumerate(images)]
    legacy.write_lmdb(tmp_path / "x.lmdb", [*values, (b"__len__", b"12")])
    assert_same(values_of(imported(tmp_path / "x.lmdb")), images)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8"])
def test_tensors_as_they_were(dtype: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal((3, 4, 5 + i % 2)).astype(dtype) for i in range(4)]
    reader = imported(write_values(tmp_path / "x.lmdb", tensors))
    assert_same(values_of(reader), [tensor.astype(tensor.dtype.newbyteorder("<")) for tensor in tensors])
    image, label = ImageFolderRecord(tmp_path / "my.records")[3]
    assert np.array_equal(image, tensors[3])
    assert label == -1


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_batch_is_as_many_samples(dtype: type, tmp_path: Path) -> None:
    batch = np.random.default_rng(0).integers(0, 256, (10, 3, 6, 7)).astype(dtype)
    reader = imported(write_values(tmp_path / "x.lmdb", [batch[:4], batch[4:8], batch[8:]]))
    wanted = list(batch if dtype == np.float32 else batch.transpose(0, 2, 3, 1))
    assert_same(values_of(reader), wanted)
    assert list(reader.names) == ["0/0", "0/1", "0/2", "0/3", "1/0", "1/1", "1/2", "1/3", "2/0", "2/1"]
    assert reader.array("target").tolist() == [-1] * 10


ARRAY = np.zeros((4, 4, 3), np.uint8)


NO_ARRAYS: list[tuple[Any, str]] = [
    ((ARRAY, 1), "it is a tuple, not a numpy.ndarray"),
    (np.zeros((1, 1, 1, 1, 1)), r"shape \[1, 1, 1, 1, 1\], which is none of an image"),
    (np.zeros((0, 3, 4, 4), np.float32), r"shape \[0, 3, 4, 4\]"),
    (np.zeros((3, 4, 4), np.float32), "holds <f4 numbers of 3 dimensions without a label, and the first record pix"),
    (np.array([None]), "numpy.dtype of 'O8'"),
    (Reduced(os.system, "touch harmed"), r"asks for (posix|nt)\.system"),
]


def test_arrays_by_pyarrow(tmp_path: Path) -> None:
    pixels, batch, fortran, _ = legacy.PYARROW_VALUES
    reader = imported(legacy.write_lmdb(tmp_path / "x.lmdb", [(b"0", pixels), (b"1", pixels)]))
    assert_same(values_of(reader), [np.arange(24, dtype=np.uint8).reshape(2, 4, 3)] * 2)
    reader = imported(legacy.write_lmdb(tmp_path / "y.lmdb", [(b"0", batch)]), refresh=True)
    assert_same(values_of(reader), list(np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2) / 8))
    reader = imported(legacy.write_lmdb(tmp_path / "z.lmdb", [(b"0", fortran)]), refresh=True)
    assert_same(values_of(reader), [np.arange(6, dtype=np.int16).reshape(2, 3)])


# Objects of a class


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("number", [int, np.int64, lambda label: np.array([label])], ids=["int", "int64", "array"])
def test_objects(number: Callable[[int], Any], protocol: int, tmp_path: Path) -> None:
    pairs = legacy.pixels(12)
    images = [legacy.LmdbImage(image, number(label)) for image, label in pairs]
    reader = imported(legacy.objects(tmp_path / "12_lmdb", images, protocol))
    assert_same(values_of(reader), [image for image, _ in pairs])
    assert reader.array("target").tolist() == [label for _, label in pairs]
    assert list(reader.names)[10:] == ["00000010", "00000011"]
    assert reader.manifest.dataset == "lmdb_objects"


def test_objects_without_a_label_and_with_more(tmp_path: Path) -> None:
    images = [legacy.LmdbImage(image, None) for image, _ in legacy.pixels(3)]
    for image in images:
        del image.label
        image.__dict__.update(id="B01", mode="train")
    reader = imported(write_values(tmp_path / "x.lmdb", images))
    assert reader.array("target").tolist() == [-1] * 3


def changed(**attributes: Any) -> legacy.LmdbImage:
    made = legacy.LmdbImage(ARRAY, 1)
    made.__dict__.update(attributes)
    return made


NO_OBJECTS: list[tuple[Any, str]] = [
    (changed(image=bytes(5)), r"LmdbImage is 5 bytes, not the pixels of size \[4, 4, 3\]"),
    (changed(image=ARRAY), r"is numpy\.ndarray, not the pixels"),
    (changed(size=(4,)), "it has no size and channels, but the attributes channels, size, image, label"),
    (changed(size=(1 << 62, 1 << 62)), "is 48 bytes, not the pixels of size"),
    (changed(size=(-4, -4)), "no size and channels"),
    (changed(label="cat"), "its label is a str, not a whole number"),
    (changed(label=None), "holds pixels without a label, and the first record pixels"),
    (changed(label=changed()), "its label is a PickledObject"),
    (changed(label=Reduced(os.system, "touch harmed")), r"calls (posix|nt)\.system"),
    ((ARRAY, 1), "it is a tuple, not an object"),
]


@pytest.mark.parametrize(
    ("first", "value", "text"),
    [*((ARRAY, *row) for row in NO_ARRAYS), *((legacy.LmdbImage(ARRAY, 1), *row) for row in NO_OBJECTS)],
)
def test_a_value_of_something_else_is_named(
    first: Any, value: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    path = write_values(tmp_path / "x.lmdb", [first, value])
    with pytest.raises(SourceError, match=rf"x\.lmdb/data\.mdb, key b'1': .*{text}"):
        imported(path)
    assert list((tmp_path / "empty").iterdir()) == []


# Images with texts

WORDS = ["Hallo", "Füße", "日本", "a b", 'x"y', "", "7"]


def test_texts(tmp_path: Path) -> None:
    pairs = [(image, WORDS[i % 7]) for i, (image, _) in enumerate(legacy.files(3) * 7)]
    reader = imported(legacy.texts(tmp_path / "x", pairs), shard_bytes=8_000)
    assert len(reader.manifest.shards) > 1
    assert [reader.read("image", i) for i in range(21)] == [image for image, _ in pairs]
    assert [reader.value("target", i) for i in range(21)] == [text for _, text in pairs]
    assert list(reader.names)[:2] == ["image-000000001.jpg", "image-000000002.png"]
    assert reader.manifest.dataset == "lmdb_text"
    dataset = ImageFolderRecord(tmp_path / "my.records")
    assert [dataset[i][1] for i in range(7)] == WORDS


def test_texts_of_broken_images_are_left_out_with_them(tmp_path: Path) -> None:
    pairs = [(image, f"word {i}") for i, (image, _) in enumerate(legacy.files(5))]
    pairs[2] = (b"\xff\xd8\xff broken", "broken")
    reader = imported(legacy.texts(tmp_path / "x", pairs), on_error="skip")
    assert [reader.value("target", i) for i in range(4)] == ["word 0", "word 1", "word 3", "word 4"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({b"num-samples": b"3"}, "num-samples is 3, but there are 2 keys image-"),
        ({b"label-000000002": None}, "key b'label-000000002' is not there"),
        ({b"image-000000002": None, b"image-000000003": b"x"}, "key b'image-000000002' is not there"),
        ({b"label-000000002": b"\xff\xfe"}, "key b'image-000000002': 'utf-8' codec can't decode"),
    ],
)
def test_texts_that_do_not_fit(change: dict[bytes, bytes | None], text: str, tmp_path: Path) -> None:
    image = legacy.files(1)[0][0]
    values = {b"image-000000001": image, b"image-000000002": image, b"label-000000001": b"a", b"label-000000002": b"b"}
    kept = {k: v for k, v in {**values, b"num-samples": b"2", **change}.items() if v is not None}
    legacy.write_lmdb(tmp_path / "x", kept.items())
    with pytest.raises(SourceError, match=text):
        imported(tmp_path / "x", from_="lmdb_text")


# Images under their names


def named(count: int) -> dict[str, bytes]:
    return {f"f/{(7 * i) % count:04d}": image for i, (image, _) in enumerate(legacy.files(count))}


@pytest.mark.parametrize("listed", [True, False])
def test_images_under_their_names(listed: bool, tmp_path: Path) -> None:
    images = named(12)
    reader = imported(legacy.basicsr(tmp_path / "x.lmdb", images, listed=listed))
    wanted = list(images) if listed else sorted(images)
    assert [name.rpartition(".")[0] for name in reader.names] == wanted
    assert [reader.read("image", i) for i in range(12)] == [images[name] for name in wanted]
    assert reader.array("target").tolist() == [-1] * 12
    assert reader.manifest.dataset == "lmdb_images"


@pytest.mark.parametrize("dumps", [pickle.dumps, lambda _: legacy.PYARROW_VALUES[3]], ids=["pickle", "pyarrow"])
def test_images_that_are_serialised(dumps: Callable[[bytes], bytes], tmp_path: Path) -> None:
    image = b"\xff\xd8\xff an image"
    values = [(b"%d" % number, dumps(image)) for number in range(3)]
    reader = imported(legacy.write_lmdb(tmp_path / "x.lmdb", [*values, (b"__len__", b"3")]))
    assert [reader.read("image", i) for i in range(3)] == [image] * 3
    assert list(reader.names) == ["0.jpg", "1.jpg", "2.jpg"]


def test_a_value_that_is_no_image_and_a_list_that_does_not_fit_are_named(tmp_path: Path) -> None:
    path = legacy.basicsr(tmp_path / "x.lmdb", {"a": legacy.files(1)[0][0], "b": b"text"})
    with pytest.raises(SourceError, match=r"key b'b': it is no image's file, but begins with 74 65 78 74"):
        imported(path)
    (path / "meta_info.txt").write_text("a.png (1,1,3) 1\nc.png (1,1,3) 1\n")
    with pytest.raises(SourceError, match=r"is no database of lmdb_images: meta_info.txt names b'c', which is not"):
        imported(path)
