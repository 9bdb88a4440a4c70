"""HDF5 files, as h5py writes them, become record sets."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from recordzoo.base import packages
from recordzoo.errors import ArgumentError, PrepareError
from tests.faults import fault
from tests.foreign import check, check_refused, check_resumed, expected_of, pairs
from tests.preparing import Notes, prepared
from tests.test_foreign_numpy import FEW, IMAGES, LABELS, SMALL, assert_rows, imported

VLEN = h5py.vlen_dtype(np.uint8)


def encoded_file(path: Path, samples: Any, chunks: int = 100) -> None:
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (len(samples),), VLEN, chunks=(chunks,))
        for number, (image, _) in enumerate(samples):
            images[number] = np.frombuffer(image, np.uint8)
        file["labels"] = np.array([label for _, label in samples], np.uint16)
        file["captions"] = [f"ä {number}" for number in range(len(samples))]


@pytest.mark.slow
def test_encoded_images(tmp_path: Path) -> None:
    """Pieces begin where chunks do; the same after a kill."""
    samples = pairs(350)
    path = tmp_path / "a.h5"
    encoded_file(path, samples)
    captions = [f"ä {number}" for number in range(350)]
    one = check(path, expected_of(samples, fields={"captions": captions}), tmp_path / "one.records")
    assert list(one.names[2:4]) == ["000002.jpg", "000003.png"]
    check_resumed(path, one, tmp_path / "resumed.records")


@pytest.mark.slow
def test_compressed_pixels(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("set/x", data=np.moveaxis(IMAGES, 3, 1), chunks=(90, 3, 5, 6), compression="gzip")
        file["set/y"] = LABELS[:, None]
    reader = imported(tmp_path / "a.hdf5")
    assert_rows(reader, IMAGES, LABELS)
    assert not reader.manifest.splits


def test_groups_are_splits(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for split, part in (("train", slice(0, 4)), ("test", slice(4, 6))):
            file[f"{split}/image"] = SMALL[part]
            file[f"{split}/label"] = FEW[part]
            file[f"{split}/is_odd"] = FEW[part] % 2 == 1
        file["class_names"] = list("abcdefg")
        file["mean"] = 0.5
        file["note"] = h5py.Empty("f4")
    told = Notes()
    reader = imported(tmp_path / "a.h5", progress=told)
    assert f"{tmp_path / 'a.h5'}: left out, as no value of a sample: mean, note" in told.notes
    assert_rows(reader, SMALL, FEW)
    assert reader.split("test").tolist() == [4, 5]
    assert reader.manifest.classes == tuple("abcdefg")
    assert reader.array("is_odd").tolist() == (FEW % 2 == 1).tolist()


def test_opaque_images_and_files_for_splits(tmp_path: Path) -> None:
    """Opaque values have one length, so shorter images have zeros at their end."""
    folder = tmp_path / "files"
    folder.mkdir()
    samples = [(image.ljust(1000, b"\0"), label) for image, label in pairs(5)]
    for name, part in (("train", samples[:3]), ("val", samples[3:])):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["photos"] = np.array([np.void(image) for image, _ in part])
            file["ans"] = np.array([label for _, label in part], np.int8)
    reader = imported(folder, fields={"photos": "image"})
    assert [reader.read("image", number) for number in range(5)] == [image for image, _ in samples]
    assert reader.array("target").tolist() == [label for _, label in samples]
    assert reader.split("val").tolist() == [3, 4]


def test_a_split_without_labels(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["train_x"], file["train_y"], file["test_x"] = SMALL[:4], FEW[:4], SMALL[4:]
    reader = imported(tmp_path / "a.h5")
    assert [reader.value("target", number) for number in range(6)] == [*FEW[:4].tolist(), None, None]


def linked(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["images"] = SMALL
    file["images"] = h5py.ExternalLink(str(folder / "other.h5"), "images")


def soft(file: h5py.File, folder: Path) -> None:
    file["images"] = h5py.SoftLink("/elsewhere")


def virtual(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["images"] = SMALL
    layout = h5py.VirtualLayout(SMALL.shape, np.uint8)
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "images", SMALL.shape)
    file.create_virtual_dataset("images", layout)


def external(file: h5py.File, folder: Path) -> None:
    file.create_dataset("images", data=SMALL, external=[(str(folder / "other.bin"), 0, SMALL.nbytes)])


def unwritten(file: h5py.File, folder: Path) -> None:
    file.create_dataset("images", (10**12, 64, 64, 3), np.uint8, chunks=(1, 64, 64, 3))


def never_written(file: h5py.File, folder: Path) -> None:
    file.create_dataset("images", (10**12, 64, 64, 3), np.uint8)


def large_chunks(file: h5py.File, folder: Path) -> None:
    file.create_dataset("images", (1 << 20, 64, 64, 3), np.uint8, chunks=(1 << 17, 64, 64, 3))


def structures(file: h5py.File, folder: Path) -> None:
    file["images"] = SMALL
    file["boxes"] = np.zeros(6, [("x", "<f4"), ("y", "<f4")])


def references(file: h5py.File, folder: Path) -> None:
    file["images"] = SMALL
    file.create_dataset("there", (6,), h5py.ref_dtype)


def endless(file: h5py.File, folder: Path) -> None:
    for name in "abcdefghijk":
        file[name] = file["/"]


def no_text(file: h5py.File, folder: Path) -> None:
    file["images"] = SMALL
    file["caption"] = np.array([b"\xff"] * 6, h5py.string_dtype("utf-8", 1))


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (linked, "images is a link to"),
        (soft, "images is a link to /elsewhere, which is not followed"),
        (virtual, "images has its numbers in"),
        (external, "images has its numbers in"),
        (unwritten, "images: not all of it was written"),
        (never_written, "images: not all of it was written"),
        (large_chunks, "images: chunks of (131072, 64, 64, 3) are too large"),
        (structures, "boxes holds "),
        (references, "there holds "),
        (endless, "has no images with a usual name"),
        (no_text, "caption is not text in UTF-8"),
    ],
)
def test_refused(tmp_path: Path, write: Any, text: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        write(file, tmp_path)
    check_refused(path, tmp_path / "one.records", str(path), text)


@fault("F7")
def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.h5").write_bytes(b"")
    monkeypatch.setattr(packages, "is_installed", lambda package: False)
    with pytest.raises(PrepareError, match=r"pip install 'recordzoo\[hdf5\]'"):
        prepared(tmp_path / "a.h5", tmp_path / "one.records")


def test_labels_in_another_group(tmp_path: Path) -> None:
    """They are those of the images if they are as many; others are joined if the person names them."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data/images"] = SMALL
        file["annotations/labels"] = FEW
        file["annotations/kind"] = FEW[::-1]
        file["annotations/few"] = FEW[:2]
    reader = imported(tmp_path / "a.h5")
    assert_rows(reader, SMALL, FEW)
    assert "kind" not in reader.columns
    named = {"annotations/kind": "target", "annotations/labels": "other"}
    reader = imported(tmp_path / "a.h5", fields=named, refresh=True)
    assert_rows(reader, SMALL, FEW[::-1])
    assert reader.array("other").tolist() == FEW.tolist()
    text = "'annotations/few', which argument fields names, has not a row for each image; there are 6 images"
    with pytest.raises(ArgumentError, match=text):
        imported(tmp_path / "a.h5", fields={"annotations/few": "target"}, refresh=True)
