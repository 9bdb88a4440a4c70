"""NumPy's files become record sets: `.npz`, compressed or not, and `.npy` files of a folder."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo.errors import ArgumentError
from recordzoo.records.reader import RecordReader
from tests.faults import fault
from tests.foreign import UNIT_BYTES, check_refused, check_resumed
from tests.preparing import Notes, prepared

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 255, (600, 5, 6, 3), np.uint8)
LABELS = RNG.integers(0, 7, 600)


def imported(path: Path, **options: Any) -> RecordReader:
    return RecordReader(prepared(path, path.parent / "made.records", **{"workers": 1, **options}))


def assert_rows(reader: RecordReader, images: Any, labels: Any, positions: Any = None) -> None:
    positions = range(len(reader)) if positions is None else positions
    assert len(positions) == len(images)
    for position, image in zip(positions, images, strict=True):
        assert np.array_equal(reader.value("image", position), image)
    assert reader.array("target")[positions].tolist() == np.asarray(labels).reshape(-1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, save: Any) -> None:
    """The same with one process and with two, and after a kill where there are several pieces."""
    path = tmp_path / "a.npz"
    save(path, images=IMAGES, labels=LABELS, weight=LABELS / 2, tag=[f"ä{n}" for n in LABELS], box=IMAGES[:, 0, :4, 0])
    one = imported(path, shard_bytes=UNIT_BYTES)
    assert_rows(one, IMAGES, LABELS)
    assert one.array("weight").tolist() == (LABELS / 2).tolist()
    assert [one.value("tag", n) for n in range(3)] == [f"ä{n}" for n in LABELS[:3]]
    assert np.array_equal(one.array("box"), IMAGES[:, 0, :4, 0])
    assert list(one.names[:2]) == ["000000", "000001"]
    two = RecordReader(prepared(path, tmp_path / "two.records", workers=2, shard_bytes=UNIT_BYTES))
    assert two.digest == one.digest
    if save is np.savez:
        check_resumed(path, one, tmp_path / "resumed.records")


SMALL, FEW = IMAGES[:6], LABELS[:6]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_medmnist(tmp_path: Path, save: Any) -> None:
    """Splits by the names of arrays; labels [N, 1]; gray pixels."""
    names = {"train": slice(0, 3), "val": slice(3, 4), "test": slice(4, 6)}
    arrays = {}
    for split, part in names.items():
        arrays |= {f"{split}_images": SMALL[part, ..., 0], f"{split}_labels": FEW[part, None].astype(np.uint8)}
    save(tmp_path / "bloodmnist.npz", **arrays)
    reader = imported(tmp_path / "bloodmnist.npz")
    assert set(reader.manifest.splits) == set(names)
    for split, part in names.items():
        assert_rows(reader, SMALL[part, ..., 0], FEW[part], reader.split(split))
    assert reader.names[3].startswith("val/000000")


def test_folder_of_npy(tmp_path: Path) -> None:
    """In folders of splits; channels first; what is of no sample: class names, and a small array."""
    folder = tmp_path / "arrays"
    for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
        (folder / split).mkdir(parents=True)
        np.save(folder / split / "X.npy", np.moveaxis(SMALL[part], 3, 1))
        np.save(folder / split / "y.npy", FEW[part].astype(">i2"))
    np.save(folder / "class_names.npy", list("abcdefg"))
    np.save(folder / "mean.npy", np.array([0.5, 0.25]))
    reader = imported(folder)
    assert_rows(reader, SMALL, FEW)
    assert reader.manifest.classes == tuple("abcdefg")
    np.save(folder / "class_names.npy", ["a", "b"])
    check_refused(folder, tmp_path / "other.records", "has no name; 2 classes have one")


def test_a_file_for_each_split_and_other_names(tmp_path: Path) -> None:
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.savez(folder / "train.npz", pics=SMALL[:4], arr_1=FEW[:4])
    np.savez(folder / "test.npz", pics=SMALL[4:], arr_1=FEW[4:])
    fields = {"pics": "image", "arr_1": "target"}
    reader = imported(folder, fields=fields)
    assert_rows(reader, SMALL, FEW)
    assert reader.split("test").tolist() == [4, 5]
    with pytest.raises(ArgumentError, match=r"has no 'pic'.* Did you mean"):
        imported(folder, fields={"pic": "image"})


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_split_without_samples(tmp_path: Path, save: Any) -> None:
    arrays = {"train_images": SMALL, "train_labels": FEW, "test_images": SMALL[:0], "test_labels": FEW[:0]}
    save(tmp_path / "a.npz", **arrays)
    assert_rows(imported(tmp_path / "a.npz"), SMALL, FEW)


def test_arrays_of_no_sample_are_left_out_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=SMALL, labels=FEW, mean=np.array([0.5], np.longdouble), scale=np.array([2.0]))
    told = Notes()
    assert_rows(imported(tmp_path / "a.npz", progress=told), SMALL, FEW)
    assert f"{tmp_path / 'a.npz'}: left out, as no value of a sample: mean, scale" in told.notes


def test_images_without_labels_and_floats(tmp_path: Path) -> None:
    """Numbers that are no bytes stay as they are, with their dimensions."""
    floats = SMALL.astype(np.float32) / 255
    np.save(tmp_path / "images.npy", floats)
    reader = imported(tmp_path / "images.npy")
    assert np.array_equal(reader.value("image", 5), floats[5])
    assert "target" not in reader.manifest.arrays


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"images": SMALL.astype(object), "labels": FEW}, "has no images with a usual name"),
        ({"images": SMALL, "labels": FEW, "more": np.array([{}] * 6)}, "more.npy holds object, which is not read"),
        ({"images": SMALL, "labels": FEW, "more": FEW * 1j}, "more.npy holds complex128, which is not read"),
        ({"images": SMALL, "labels": FEW, "more": FEW.astype("M8[s]")}, "holds datetime64[s], which is not read"),
        ({"images": SMALL, "labels": FEW[:5]}, "labels.npy has int64 [5], but"),
        ({"images": SMALL[:, :3], "labels": FEW}, "channels may be the second or the last dimension"),
        ({"images": SMALL.reshape(6, -1), "labels": FEW}, "It has images (uint8 [6, 90]), labels (int64 [6])"),
        ({"images": np.asfortranarray(SMALL), "labels": FEW}, "Fortran's order"),
        ({"images": SMALL, "labels": FEW, "A": FEW, "a": FEW}, "have the same meaning"),
        ({"images": SMALL, "labels": FEW, "target_": FEW, "target": FEW}, "would both become the field 'target'"),
        ({"images": SMALL, "labels": FEW, "tag": np.array([b"\xff"] * 6)}, "tag.npy is not text in UTF-8"),
        ({"images": np.zeros((10**15, 0, 3), np.uint8)}, "a sample of it is empty"),
    ],
)
def test_refused(tmp_path: Path, arrays: Mapping[str, Any], text: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    check_refused(tmp_path / "a.npz", tmp_path / "one.records", str(tmp_path / "a.npz"), text)


def header(shape: tuple[int, ...], dtype: str = "|u1") -> bytes:
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\2\0" + len(text).to_bytes(4, "little") + text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (header((1 << 60, 8, 8)) + bytes(100), "the header says uint8"),
        (header((-1, -8, 8)) + bytes(64), "the header says uint8"),
        (header((1, 8, 8)) + bytes(63), "the file is cut or damaged"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff{}", "cannot be read"),
        (b"\x93NUMPY\3\0\x01\0\0\0{}", "it has version (3, 0)"),
        (header((1, 8, 8), "no such")[:-1] + b"\n", "cannot be read"),
        (header((1, 8, 8))[:-4] + b"(((\n", "its header is damaged"),
        (b"", "cannot be read"),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True])
@fault("F4")
def test_a_forged_header(tmp_path: Path, data: bytes, text: str, is_packed: bool) -> None:
    path = tmp_path / ("images.npz" if is_packed else "images.npy")
    path.write_bytes(data)
    if is_packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("images.npy", data)
    check_refused(path, tmp_path / "one.records", str(path), text)


def test_text_of_no_letters(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", SMALL)
    np.save(tmp_path / "tag.npy", np.full(6, 0x7FFFFFFF, np.uint32).view("<U1"))
    check_refused(tmp_path, tmp_path / "one.records", "tag.npy is not text")


def test_a_folder_with_an_array_for_each_sample_is_no_such_one(tmp_path: Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", SMALL[number])
    check_refused(tmp_path, tmp_path / "one.records", "has no class folders, no images")
