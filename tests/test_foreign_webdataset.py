"""Tar shards that WebDataset's own writers wrote become record sets with the samples that WebDataset reads."""

import gc
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset
from braceexpand import braceexpand

from recordzoo import ImageFolderRecord
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.formats import base
from recordzoo.formats import webdataset as tar_keys
from recordzoo.own.sample import default_place
from tests.fakes import archives as fake
from tests.foreign import check, check_refused, expected_of, imported, pairs

IMAGE = pairs(1)[0][0]


def npy(array: Any) -> bytes:  # Any: an array, or what becomes one
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def write_shards(folder: Path, name: str, samples: list[tuple[bytes, int]], shards: int = 2, start: int = 0) -> Path:
    """Write shards with the package's writer, JPEG and PNG, with a label, a caption and numbers."""
    folder.mkdir(exist_ok=True)
    maxcount = -(-len(samples) // shards)
    with webdataset.ShardWriter(str(folder / name), maxcount=maxcount, verbose=0) as writer:
        for number, (image, label) in enumerate(samples, start):
            ending = "png" if image.startswith(b"\x89") else "jpg"
            about = {"number": number}
            caption = f"Bäume {number}"
            writer.write({"__key__": f"{number:04d}", ending: image, "cls": label, "json": about, "txt": caption})
    return folder


def put(path: Path, *samples: Mapping[str, bytes]) -> Path:
    """Write a tar of samples: files by their endings."""
    files = {f"{number}.{key}": data for number, sample in enumerate(samples) for key, data in sample.items()}
    path.write_bytes(fake.tar(files))
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # WebDataset's reader leaves its shards open
def test_what_webdataset_wrote_is_what_webdataset_reads(tmp_path: Path) -> None:
    samples = pairs(23)
    folder = write_shards(tmp_path / "shards", "train-%06d.tar", samples, shards=3)
    theirs = list(webdataset.WebDataset(str(folder / "train-{000000..000002}.tar"), shardshuffle=False).decode())
    gc.collect()
    assert len(theirs) == 23
    expected = expected_of(samples, fields={name: [each[name] for each in theirs] for name in ("json", "txt")})
    assert [each["cls"] for each in theirs] == list(expected.targets)
    reader = check(folder, expected, tmp_path / "one.records")
    endings = [".png" if image.startswith(b"\x89") else ".jpg" for image, _ in samples]
    assert list(reader.names) == [each["__key__"] + end for each, end in zip(theirs, endings, strict=True)]
    again = imported(f"{folder}/train-{{000000..000001}}.tar", tmp_path / "again.records")
    assert list(again.names) == list(reader.names)[:16]
    assert ImageFolderRecord(reader.path)[5][1] == theirs[5]["cls"]


def test_files_of_every_kind_and_none(tmp_path: Path) -> None:
    first = {
        "JPG": IMAGE,
        "seg.png": pairs(4)[3][0],
        "cls": b" 3\n",
        "id": b"007",
        "json": b'{"a": NaN, "b": [1]}',
        "caption.txt": "Übung".encode(),
        "npy": npy(np.arange(3.0)),
        "pyd": b"\x80\x04N.",
        "name": b"whoever",
    }
    second = {"jpeg": pairs(2)[1][0], "cls": b"-1", "id": b"x7", "npy": npy(np.arange(3.0)[::-1])}
    reader = imported(put(tmp_path / "a.tar", first, second))
    assert list(reader.names) == ["0.jpg", "1.jpeg"]
    assert [reader.read("image", position) for position in (0, 1)] == [IMAGE, second["jpeg"]]
    assert reader.array("target").tolist() == [3, -1]
    assert reader.array("npy").tolist() == [[0, 1, 2], [2, 1, 0]]
    assert [reader.value("id", position) for position in (0, 1)] == ["007", "x7"]
    assert [reader.value("json", position) for position in (0, 1)] == [{"a": None, "b": [1]}, None]
    assert [reader.value("caption_txt", position) for position in (0, 1)] == ["Übung", None]
    assert (reader.read("pyd", 0), reader.read("seg_png", 0)) == (first["pyd"], first["seg.png"])
    assert reader.read("field_name", 0) == b"whoever"
    assert [reader.has(field, 1) for field in ("image", "pyd", "seg_png", "field_name")] == [True, False, False, False]


@pytest.mark.slow
def test_an_image_and_its_mask(tmp_path: Path) -> None:
    mask = pairs(4)[3][0]
    path = put(tmp_path / "a.tar", {"jpg": IMAGE, "png": mask, "cls": b"1"}, {"webp": IMAGE, "cls": b"2"})
    reader = imported(path)
    assert [reader.read("image", 0), reader.read("png", 0), reader.read("image", 1)] == [IMAGE, mask, IMAGE]
    both = {"png": "image", "jpg": "image"}
    text = "sample '0': .jpg and .png would both be the field 'image'"
    check_refused(path, tmp_path / "no.records", text, fields=both)
    other = imported(path, fields={"png": "image", "cls": "number"}, refresh=True)
    assert [other.read("image", 0), other.read("jpg", 0), other.read("image", 1)] == [mask, IMAGE, IMAGE]
    assert other.array("number").tolist() == [1, 2]


def test_files_that_belong_to_no_sample(tmp_path: Path) -> None:
    key = "ordner/" + "ü" * 150
    others = {"README": b"", "._0.jpg": b"macOS", "a/.x": b"", "__meta__/x.json": b"{}"}
    files = {"./a/0.jpg": IMAGE, "./a/0.cls": b"1", **others, f"{key}.jpg": IMAGE}
    path = tmp_path / "a.tgz"
    path.write_bytes(fake.tar(files, format=tarfile.PAX_FORMAT))
    assert list(imported(path).names) == ["a/0.jpg", f"{key}.jpg"]


def test_splits_and_keys_that_repeat(tmp_path: Path) -> None:
    samples = pairs(6)
    folder = write_shards(tmp_path / "shards", "birds-train-%03d.tar", samples[:4])
    write_shards(folder, "birds-val-%03d.tar", samples[4:], shards=1)
    reader = imported(folder)
    splits = {name: reader.split(name).tolist() for name in reader.manifest.splits}
    assert splits == {"train": [0, 1, 2, 3], "val": [4, 5]}
    assert list(reader.names)[:1] + list(reader.names)[4:5] == ["birds-train-000/0000.jpg", "birds-val-000/0000.jpg"]


@pytest.mark.parametrize("inner", ["", "data"])
def test_folders_of_splits(inner: str, tmp_path: Path) -> None:
    for split in ("train", "validation"):
        folder = tmp_path / "birds" / inner / split
        folder.mkdir(parents=True)
        put(folder / "00000.tar", {"jpg": IMAGE, "cls": b"1"})
    assert set(imported(tmp_path / "birds").manifest.splits) == {"train", "validation"}


@pytest.mark.slow
def test_a_key_that_only_later_samples_have(tmp_path: Path) -> None:
    samples = [{"jpg": IMAGE, "cls": b"1"}] * 256 + [{"jpg": IMAGE, "cls": b"1", "txt": b"late", "mask.png": IMAGE}]
    path = put(tmp_path / "a.tar", *samples)
    check_refused(path, tmp_path / "my.records", "sample '256'", "a file .txt", "--field txt=FIELD")
    reader = imported(path, fields={"txt": "caption", "mask.png": "mask"})
    assert [reader.value("caption", position) for position in (0, 256)] == [None, "late"]
    assert (reader.has("mask", 0), reader.read("mask", 256)) == (False, IMAGE)
    with pytest.raises(ArgumentError, match=r"has no 'clss', which argument fields names.* Did you mean"):
        imported(path, fields={"clss": "caption"}, refresh=True)


GOOD = {"0.jpg": IMAGE, "0.cls": b"1", "0.npy": npy(np.zeros(2))}
HOSTILE = {
    "a link": ([*GOOD.items(), fake.entry("1.jpg", tarfile.SYMTYPE, "/etc/passwd")], "'1.jpg' is a symbolic link"),
    "class folders": ([("cat/1.jpg", IMAGE), ("dog/1.jpg", IMAGE)], "If the folders are classes, unpack it, or pack"),
    "a way out": ([("../0.jpg", IMAGE)], "has '..' in its name"),
    "apart": ([*GOOD.items(), ("1.jpg", IMAGE), ("0.txt", b"")], "sample '0': its files do not follow each other"),
    "twice": ([*GOOD.items(), ("0.NPY", b"")], "it has two files .npy"),
    "a pickle": ([*GOOD.items(), ("1.npy", npy(np.array([{}], object)))], "it is no array of numbers that is read"),
    "a forged shape": (
        [*GOOD.items(), ("1.npy", npy(np.zeros(2)).replace(b"(2,), }   ", b"(9999,), }"))],
        "float64 of shape [9999] in 16 bytes",
    ),
    "no bottom": ([*GOOD.items(), ("0.json", b"{}"), ("1.json", b"[" * 100_000)], ".json cannot be read"),
    "no label": ([*GOOD.items(), ("1.cls", b"cat")], "sample '1': .cls cannot be read: b'cat' is no whole number"),
    "extensions": ([(f"0.x{number}", b"") for number in range(300)], "more than 256 different extensions"),
    "nothing": ([("README", b"")], "is empty"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_tars(case: str, tmp_path: Path) -> None:
    entries, text = HOSTILE[case]
    path = tmp_path / "a.tar"
    path.write_bytes(fake.tar(entries))
    check_refused(path, tmp_path / "my.records", str(path), text)


def test_sparse_and_huge(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    whole = fake.tar(GOOD)
    path.write_bytes(fake.header(b"0.jpg", b"77777777777") + b"x" * 512)  # 8 GiB
    check_refused(path, tmp_path / "my.records", str(path), "0.jpg has 8,589,934,591 bytes; 1,073,741,824 are the")
    path.write_bytes(fake.pax(fake.record(b"GNU.sparse.major", b"1")) + whole)
    check_refused(path, tmp_path / "my.records", str(path), "'0.jpg' is a sparse file")


def test_values_that_none_of_the_samples_holds_as_its_name_says(tmp_path: Path) -> None:
    pickled = npy(np.array([{}], object))
    path = put(tmp_path / "a.tar", *[{"jpg": IMAGE, "cls": b"cat", "npy": pickled, "json": b"\xff{"}] * 2)
    reader = imported(path)
    assert [reader.value(field, 1) for field in ("target", "npy", "json")] == ["cat", pickled, b"\xff{"]


def test_arrays_that_are_none_and_one_in_the_order_of_fortran() -> None:
    for data in (
        npy(np.zeros(2))[:40],
        npy(np.zeros(0)).replace(b"(0,), }" + b" " * 24, b"(0, 99999999999999999999999), }"),
        npy(np.zeros(4)).replace(b"(4,), }  ", b"(-2,-2), }"),
        npy(np.zeros(1, "c16")),
    ):
        with pytest.raises((ValueError, OverflowError)):
            tar_keys.as_npy(data)
    array = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    assert tar_keys.as_npy(npy(array)).tolist() == array.tolist()


BRACES = "train-{000..012}.tar {8..11} {a,b}-{1..2}.tar {00..10..5} {3..1} plain {train,val}/{0,}x {} {one} {08..11}"


def test_braces_stand_for_what_they_stand_for_elsewhere() -> None:
    for text in BRACES.split():
        assert base.expand(text) == list(braceexpand(text))
    for text in ("{0..99999999999}", "{0..9999}{0..9999}"):
        with pytest.raises(ArgumentError, match="more than 1,000,000 names"):
            base.expand(text)


def test_the_default_place() -> None:
    for path, place in {
        "a/train.tar.gz": "a/train.records",
        "a/train-{000..012}.tar": "a/train.records",
        "a/{train,val}/{0..3}.tar": "a.records",
        "hf://datasets/user/birds/": "birds.records",
    }.items():
        assert default_place(path) == Path(place).absolute()


def test_classes_beside_a_file_called_like_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "lsun.tar", {"txt": b"a", "cls": b"1"})
    names = tmp_path / "classes.json"
    names.write_text('["cat", "dog"]')
    reader = imported("lsun.tar")
    assert (reader.value("txt", 0), reader.array("target").tolist()) == ("a", [1])
    assert reader.manifest.classes == ("cat", "dog")
    names.write_text('["cat", "cow"]')
    with pytest.raises(OtherSourceError, match="other records or class names"):
        imported("lsun.tar")
    assert imported("lsun.tar", refresh=True).manifest.classes == ("cat", "cow")
