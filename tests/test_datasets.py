"""Single datasets beyond the contract: lists and labels that are damaged or missing, archives, loaders, large files."""

import copy
import dataclasses
import io
import pickle
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets as tv
from numpy.typing import NDArray
from PIL import Image

import recordzoo
from recordzoo import CityscapesRecord, ObjectNetRecord, RecordReader, catalogue
from recordzoo.base.text import text_of
from recordzoo.datasets.cifar_mnist_recipe import load_batch
from recordzoo.errors import ArgumentError, DownloadError, NotPreparedError, OtherSourceError, SourceError
from recordzoo.recipes.declared import Lists
from tests import contract
from tests.contract import CIFAR10Record, LSUNRecord
from tests.fakes import cifar as cifar10
from tests.fakes.annotations import celeba, oxford_pets
from tests.fakes.annotations import cityscapes as STREETS
from tests.fakes.arrays import faces, npy
from tests.fakes.catalogued import catalogued
from tests.fakes.class_folders import gtsrb
from tests.fakes.domains import IMAGENET_LABELS, objectnet
from tests.fakes.domains import TOP as OBJECTNET
from tests.fakes.fake import Fake
from tests.fakes.flickr import flickr30k
from tests.fakes.folder import write_tree
from tests.fakes.imagenet_tests import imagenet_real
from tests.fakes.legacy import write_lmdb
from tests.fakes.lfw import lfw
from tests.fakes.listed_files import stanford_cars
from tests.fakes.lsun import FakeClassRecord
from tests.fakes.pictures import jpeg, picture
from tests.fakes.places365 import places365
from tests.fakes.plain import nabirds, tiny_imagenet
from tests.fakes.server import FileServer


def test_a_target_that_celeba_does_not_have(tmp_path: Path) -> None:
    """As torchvision's, whose samples leave a file open then: the contract cannot try it."""
    celeba.write_archive(tmp_path)
    dataset = recordzoo.CelebARecord(tmp_path, target_type=["attr", "age"], check_hash=False)
    with pytest.raises(ValueError, match=r'^Target type "age" is not recognized\.$'):
        dataset[0]


def test_streets_with_one_split(tmp_path: Path) -> None:
    tree = STREETS.write_tree(tmp_path)
    for folder in ("gtFine/val", "leftImg8bit/test"):
        shutil.rmtree(tree / folder)
    dataset = CityscapesRecord(tree)
    assert len(dataset) == 4
    assert list(RecordReader(dataset.records_path).manifest.splits) == ["train"]
    with pytest.raises(RuntimeError, match="Dataset not found or incomplete"):
        tv.Cityscapes(tree, "val")
    with pytest.raises(NotPreparedError, match=r"fine\.records has no split 'val': leftImg8bit/val/ or gtFine/val/"):
        CityscapesRecord(tree, "val")


def test_a_target_of_streets_that_is_missing(tmp_path: Path) -> None:
    tree = STREETS.write_tree(tmp_path)
    path = tree / "gtFine/train/ulm/ulm_000000_000019_gtFine_color.png"
    path.unlink()
    dataset = CityscapesRecord(tree, target_type=["semantic", "color"])
    index = [target[1] for target in dataset.targets].index(str(path))
    with pytest.raises(FileNotFoundError, match=path.name):  # torchvision's error, too
        dataset[index]
    assert CityscapesRecord(tree, target_type="semantic")[index][1].size == (24, 12)


def test_each_part_of_cityscapes_is_made_of_its_own_archives(tmp_path: Path) -> None:
    root = STREETS.write_archive(tmp_path)
    (root / "gtFine_trainvaltest.zip").unlink()
    (coarse,) = recordzoo.prepare("cityscapes.coarse", root, check_hash=False, workers=1)
    assert len(RecordReader(coarse)) == 8  # without the images of the test
    with pytest.raises(DownloadError, match=r"(?s)Register or log in.*gtFine_trainvaltest\.zip \(241 MB\)"):
        recordzoo.prepare("cityscapes.fine", root, check_hash=False, workers=1)


def test_what_nobody_hosts_says_how_to_get_it_and_comes_from_a_mirror_of_ones_own(tmp_path: Path) -> None:
    kind, folder = recordzoo.StanfordCarsRecord, catalogue.entry("stanford_cars").folder
    with pytest.raises(DownloadError, match=r"(?s)\n1\. .*\n2\. .*recordzoo prepare") as caught:
        kind(tmp_path, download=True)
    assert str(tmp_path / folder) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    with FileServer({f"stanford_cars/{file}": data for file, data in stanford_cars.files.items()}) as server:
        assert len(kind(tmp_path, download=True, mirror=server.url, check_hash=False)) > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((b"ClassId", b"Class"), r"GT-final_test\.csv is no list of files and their classes \(KeyError\('ClassId'\)\)"),
        ((b"00000.ppm", b"00009.ppm"), r"the raw data lacks 1 image that the lists name.* 00009\.ppm"),
    ],
)
def test_a_damaged_list_of_gtsrb(change: tuple[bytes, bytes], said: str, tmp_path: Path) -> None:
    path = gtsrb.write_tree(tmp_path) / "gtsrb" / "GT-final_test.csv"
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(SourceError, match=said):
        recordzoo.prepare("gtsrb.test", tmp_path, check_hash=False, workers=1)


def test_images_that_torchvision_sorted_have_the_same_reassessed_labels(tmp_path: Path) -> None:
    reassessed = imagenet_real.write_tree(tmp_path)
    flat = recordzoo.ImageNetReaLRecord(reassessed, records_dir=tmp_path / "flat")
    for number, path in enumerate(sorted((reassessed / "val").iterdir())):
        wnid = path.parent / flat.wnids[number % 3]
        wnid.mkdir(exist_ok=True)
        path.rename(wnid / path.name)
    in_classes = recordzoo.ImageNetReaLRecord(reassessed)
    assert in_classes.targets == flat.targets
    assert in_classes.samples == flat.samples
    assert in_classes[0][0].tobytes() == flat[0][0].tobytes()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        *((text, "is not a list of lists of labels from 0 to 999") for text in ("{", "[[1000]]", "[[true]]", "[3]")),
        ("[[1], [2], [3]]", "not all of them have labels"),
    ],
)
def test_reassessed_labels_that_are_none(labels: str, said: str, tmp_path: Path) -> None:
    (imagenet_real.write_tree(tmp_path) / "real.json").write_text(labels)
    with pytest.raises(SourceError, match=said):
        recordzoo.ImageNetReaLRecord(tmp_path)


@pytest.mark.parametrize(
    ("version", "folders"),
    [
        ("2021_train", ["00000_Animalia_Chordata_Aves"]),
        ("2021_valid", ["00001_Animalia_Chordata_Aves_Passeriformes_Corvidae_Pica_pica"]),
        ("2018", ["Aves/0", "Aves/magpie"]),
        ("2019", ["Aves/0000", "Aves/0001", "Plantae/1"]),
        ("2019", ["Aves/0000", "Plantae/0002"]),
    ],
)
def test_a_folder_that_is_no_category_of_inaturalist(version: str, folders: list[str], tmp_path: Path) -> None:
    image = jpeg(picture(np.random.default_rng(0), 9, 9))
    for folder in folders:
        (tmp_path / version / folder).mkdir(parents=True)
        (tmp_path / version / folder / "a.jpg").write_bytes(image)
    with pytest.raises(RuntimeError, match=r"category|dir name"):
        tv.INaturalist(tmp_path, version)
    with pytest.raises(SourceError, match=rf"iNaturalist {version}: the folders .* not numbered from 0"):
        recordzoo.INaturalistRecord(tmp_path, version)


def test_how_to_get_objectnet_is_said(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"(?s)https://objectnet\.dev/.*unzip -P .*prepare objectnet --root"):
        ObjectNetRecord(tmp_path, download=True)
    objectnet.write_archive(tmp_path)
    shutil.rmtree(tmp_path / OBJECTNET / "images" / "tie")
    with pytest.raises(SourceError, match="1 of 4 folders have no image, the first is tie"):
        ObjectNetRecord(tmp_path)
    shutil.rmtree(tmp_path / OBJECTNET)
    for download in (False, True):
        with pytest.raises(SourceError, match=r"is encrypted; extract it first: .* unzip -P objectnetisatestset"):
            ObjectNetRecord(tmp_path, download=download)


def test_objectnets_labels_of_imagenet_and_its_border(tmp_path: Path) -> None:
    objectnet.write_archive(tmp_path)
    dataset = ObjectNetRecord(tmp_path, "imagenet")
    assert {dataset.classes[label] for label in dataset.targets} == set(IMAGENET_LABELS)
    for label in set(dataset.targets):
        assert dataset.imagenet_labels[label] == IMAGENET_LABELS[dataset.classes[label]]
    image: Image.Image = dataset[0][0]
    assert image.getpixel((0, 5)) == (255, 0, 0)
    inner = ObjectNetRecord.without_border(image)
    assert inner.size == (image.width - 2, image.height - 2)
    assert inner.getpixel((0, 5)) == image.getpixel((1, 6))


def test_a_loader_takes_images_of_places_by_themselves_while_transforms_are_the_other_two(tmp_path: Path) -> None:
    dataset = contract.Places365Record(places365.write_archive(tmp_path), "val", transform=len)
    assert dataset.batch_source().problem == ""
    dataset.transform = None  # which torchvision does not look at
    assert "its transforms are not" in dataset.batch_source().problem


def test_only_the_archives_of_a_split_of_places_and_size_are_needed(tmp_path: Path) -> None:
    places365.write_archive(tmp_path)
    for path in tmp_path.iterdir():
        if path.name not in ("filelist_places365-standard.tar", "val_256.tar"):
            path.unlink()
    assert len(contract.Places365Record(tmp_path, "val", small=True)) == 6
    with pytest.raises(NotPreparedError, match=r"val_large/, filelist_places365-standard\.tar, val_large\.tar"):
        contract.Places365Record(tmp_path, "val")


OF_PEOPLE = ("people.txt", "peopleDevTrain.txt", "peopleDevTest.txt", "lfw-names.txt")


def _without(*names: str) -> Fake:
    return dataclasses.replace(lfw, files={name: data for name, data in lfw.files.items() if name not in names})


def test_pairs_need_no_lists_of_people(tmp_path: Path) -> None:
    _without(*OF_PEOPLE).write_archive(tmp_path)
    with pytest.raises(NotPreparedError, match=r"lfw\.funneled: no records and no raw data"):
        recordzoo.LFWPeopleRecord(tmp_path)  # says so before anything is converted
    assert not list(tmp_path.glob("*.records"))
    pairs = recordzoo.LFWPairsRecord(tmp_path, check_hash=False)
    assert len(pairs) == 8
    with pytest.raises(NotPreparedError, match=r"has no split 'people-train'.*refresh=True"):
        recordzoo.LFWPeopleRecord(tmp_path, "train")
    lfw.write_archive(tmp_path)
    assert len(recordzoo.LFWPeopleRecord(tmp_path, check_hash=False, refresh=True)) == 13


def test_labels_without_the_list_of_names(tmp_path: Path) -> None:
    _without("lfw-names.txt").write_archive(tmp_path)
    assert recordzoo.LFWPeopleRecord(tmp_path, check_hash=False).class_to_idx["Abdullah"] == 2


def test_what_mirrors_lack_is_left_out_of_a_download(tmp_path: Path) -> None:
    with FileServer({f"lfw/{name}": data for name, data in _without(*OF_PEOPLE).files.items()}) as server:
        with pytest.raises(DownloadError, match=r"people\.txt"):
            recordzoo.LFWPeopleRecord(tmp_path / "people", download=True, mirror=server.url, check_hash=False)
        pairs = recordzoo.LFWPairsRecord(tmp_path / "pairs", download=True, mirror=server.url, check_hash=False)
    assert len(pairs) == 8


def test_a_pair_with_a_broken_image_is_left_out_whole(tmp_path: Path) -> None:
    lfw.write_tree(tmp_path)
    broken = tmp_path / "lfw-py/lfw_funneled/Abdullah/Abdullah_0001.jpg"
    whole = recordzoo.LFWPairsRecord(tmp_path)
    kept = [pair for pair in zip(whole.data, whole.targets, strict=True) if str(broken) not in pair[0]]
    assert 0 < len(kept) < len(whole)
    broken.write_bytes(b"no image")
    rest = recordzoo.LFWPairsRecord(tmp_path, on_error="skip", refresh=True)
    assert list(zip(rest.data, rest.targets, strict=True)) == kept
    assert [rest[number][2] for number in range(len(rest))] == rest.targets


@pytest.mark.parametrize("row", ["Abdullah\t1\t2\t3\t4", "Abdullah\t1", "Zoran_Djindjic\t2\tZoran_Djindjic\t1"])
def test_a_row_that_is_no_pair(row: str, tmp_path: Path) -> None:
    lfw.write_tree(tmp_path)
    (tmp_path / "lfw-py/pairsDevTest.txt").write_text(f"1\nAbdullah\t2\t1\n{row}\n")
    with pytest.raises(SourceError, match=r"LFW: pairsDevTest\.txt has .* where a pair of two people should be"):
        recordzoo.LFWPairsRecord(tmp_path)


LSUN = catalogued()["lsun"]
LSUN_CLASSES = ["tower_train", "church_outdoor_val"]


def test_records_stand_for_databases_that_are_gone(tmp_path: Path) -> None:
    root = LSUN.write_tree(tmp_path / "lsun")
    before = [image.tobytes() for image, _ in LSUNRecord(root, LSUN_CLASSES)]
    for path in root.glob("*_lmdb*"):
        path.rename(tmp_path / path.name)
    ours = LSUNRecord(root, LSUN_CLASSES)
    first, second = ours.dbs
    assert [image.tobytes() for image, _ in ours] == before
    assert [ours[index][1] for index in range(len(ours))] == [0] * len(first) + [1] * len(second)
    assert not list(tmp_path.rglob("_cache_*"))
    assert (ours.records_path, ours.read(0), ours.read(-1)) == (root, first.read(0), first.read(-1))  # as torchvision
    assert ours.read(len(first) + 1) == second.read(1)
    with pytest.raises(IndexError):
        ours.read(len(ours))
    second.keys[0] = b"no such key"
    with pytest.raises(KeyError, match="no such key"):
        second[0]


def test_several_record_sets_have_no_one_place(tmp_path: Path) -> None:
    LSUN.write_tree(tmp_path)
    place = tmp_path / "elsewhere" / "tower.records"
    with pytest.raises(ArgumentError, match="records_dir names one record set"):
        LSUNRecord(tmp_path, LSUN_CLASSES, records_dir=place)
    assert LSUNRecord(tmp_path, LSUN_CLASSES[:1], records_dir=place).dbs[0].records_path == place


def test_a_folder_that_is_not_one_of_lsuns(tmp_path: Path) -> None:
    write_lmdb(tmp_path / "cat_lmdb", [(b"key", b"value")])
    with pytest.raises(ArgumentError, match=r"/cat_lmdb is not named like .* are called <category>_<split>_lmdb"):
        FakeClassRecord(str(tmp_path / "cat_lmdb"))
    with pytest.raises(NotPreparedError, match=r"tower_val_lmdb/data\.mdb"):
        FakeClassRecord(str(tmp_path / "tower_val_lmdb"))
    land = recordzoo.EuroSATRecord(catalogued()["eurosat"].write_tree(tmp_path)).records_path
    with pytest.raises(OtherSourceError, match=r"is a record set of eurosat, not of lsun"):
        FakeClassRecord(str(land))
    write_lmdb(tmp_path / "tower_val_lmdb", [])
    with pytest.raises(SourceError, match="is empty"):
        FakeClassRecord(str(tmp_path / "tower_val_lmdb"))


FACES = ("fer2013.csv", "icml_face_data.csv", "train.csv", "test.csv")


def write_faces(root: Path, *names: str) -> Path:
    write_tree(root / "fer2013", {name: faces()[name] for name in names})
    return root


def seen(dataset: Any) -> list[Any]:
    samples = [(image.mode, image.tobytes(), label) for image, label in map(dataset.__getitem__, range(len(dataset)))]
    return [*samples, *((face.dtype, face.tolist(), label) for face, label in dataset._samples)]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("names", [FACES, FACES[:2], FACES[1:], FACES[1:2], FACES[2:]], ids="+".join)
def test_each_file(names: tuple[str, ...], split: str, tmp_path: Path) -> None:
    theirs = contract.FER2013(write_faces(tmp_path / "theirs", *names), split)
    ours = contract.FER2013Record(write_faces(tmp_path / "ours", *names), split)
    assert seen(ours) == seen(theirs)
    assert [label for _, label in ours] == ours.targets
    assert (ours[0][1] is None) == (names == FACES[2:] and split == "test")
    for kind in (ours, theirs):
        kind.target_transform = repr
    assert seen(pickle.loads(pickle.dumps(ours))) == seen(theirs)


def test_a_split_needs_no_file_of_the_other(tmp_path: Path) -> None:
    root = write_faces(tmp_path, "test.csv")
    assert len(contract.FER2013Record(root, "test")) == len(contract.FER2013(root, "test")) == 3
    with pytest.raises(RuntimeError):
        contract.FER2013(root)
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"fer2013\.tar\.gz"):
        contract.FER2013Record(root)


@pytest.mark.parametrize(
    "change", [(b" 1", b" 999"), (b"emotion", b"feeling"), (b"\r\n", b' 0"\r\n'), (faces()["train.csv"], b"")]
)
def test_a_damaged_file_is_an_error(change: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = write_faces(tmp_path, "train.csv") / "fer2013" / "train.csv"
    path.write_bytes(path.read_bytes().replace(*change))
    said = r"train\.csv is (damaged|not a file of fer2013)|there is no image under .* in the raw data"
    for make in (contract.FER2013Record, lambda root: recordzoo.prepare("fer2013.train", root, check_hash=False)):
        with pytest.raises(recordzoo.errors.SourceError, match=said):
            make(tmp_path)


def saved(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FRAMES = np.zeros((20, 2, 64, 64), np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>not found</html>",
        saved(FRAMES)[:-1],
        npy(FRAMES).replace(b"NUMPY\x01", b"NUMPY\x02", 1),
        saved(FRAMES.astype(np.float32)),
        saved(np.asfortranarray(FRAMES)),
        saved(FRAMES.transpose(1, 0, 2, 3)),
    ],
    ids=["a page", "cut", "version 2", "floats", "column-major", "videos first"],
)
def test_a_file_that_is_something_else(data: bytes, tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"MovingMNIST/mnist_test_seq.npy": data})
    with pytest.raises(SourceError, match=r"mnist_test_seq\.npy is not a file of moving_mnist"):
        recordzoo.prepare("moving_mnist", root, check_hash=False, workers=1)


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


NUMBERS = [
    (celeba, "list_eval_partition.txt", " 0", "an integer"),
    (gtsrb, "GT-final_test.csv", r";\d+\r?$", "an integer"),
    (lfw, "peopleDevTrain.txt", r"\t\d+$", "an integer"),
    (nabirds, "bounding_boxes.txt", r" \d+$", "numbers"),
    (oxford_pets, "trainval.txt", r" \d+ ", "an integer"),
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


CIFAR10 = cifar10.build()
CIFAR10_BATCHES = cifar10.batches()


def test_facts_of_cifar10_are_torchvisions() -> None:
    (remote,) = catalogue.entry("cifar10").raw_files()
    assert (remote.name, remote.md5, remote.urls[0]) == (tv.CIFAR10.filename, tv.CIFAR10.tgz_md5, tv.CIFAR10.url)


def test_a_pickle_may_ask_for_arrays_only() -> None:
    """All that is refused is tried in test_unpickle.py."""
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match="Popen"):
            load_batch(pickle.dumps({"data": subprocess.Popen}, protocol))


@pytest.mark.parametrize("data", [b"", b"\x80", b"no pickle", pickle.dumps([1]), CIFAR10_BATCHES["test_batch"][:-100]])
def test_what_is_no_batch(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it cannot be unpickled|it holds a list"):
        load_batch(data)


def test_a_batch_of_ones_own_is_taken_without_its_hash(tmp_path: Path) -> None:
    path = CIFAR10.write_tree(tmp_path) / cifar10.FOLDER / "data_batch_3"
    batch = pickle.loads(path.read_bytes(), encoding="latin1")
    path.write_bytes(pickle.dumps({**batch, "labels": [0] * len(batch["labels"])}))
    with pytest.raises(SourceError, match="data_batch_3 is damaged"):
        CIFAR10Record(tmp_path)
    assert not (tmp_path / "cifar10.records").exists()
    ours = CIFAR10Record(tmp_path, check_hash=False)
    assert ours.targets[14:21] == [0] * 7
    assert RecordReader(ours.records_path).manifest.raw_files == ()  # nothing that was compared


@pytest.mark.parametrize("changed", [{"data": np.zeros((7, 3072))}, {"labels": [0] * 6}, {"labels": ["a"] * 7}, None])
def test_a_batch_with_other_content(tmp_path: Path, changed: dict[str, Any] | None) -> None:
    content = {} if changed is None else {"data": np.zeros((7, 3072), np.uint8), "labels": [0] * 7, **changed}
    files = {**CIFAR10_BATCHES, "data_batch_2": cifar10.python2_pickle(content)}
    Fake("cifar10", cifar10.packed(files), ()).write_tree(tmp_path)
    kind = type("Changed", (CIFAR10Record,), cifar10.lists(files))
    with pytest.raises(SourceError, match=r"data_batch_2 is not a file of cifar10|there are 42 images, but target 41"):
        kind(tmp_path)


def test_an_incomplete_tree_of_cifar10_is_none(tmp_path: Path) -> None:
    (CIFAR10.write_tree(tmp_path) / cifar10.FOLDER / "test_batch").unlink()
    with pytest.raises(NotPreparedError, match=r"cifar-10-batches-py/, cifar-10-python\.tar\.gz"):
        CIFAR10Record(tmp_path)
    assert len(CIFAR10Record(CIFAR10.write_archive(tmp_path))) == 35


@pytest.mark.parametrize("name", ["base_folder", "train_list"])
def test_a_subclass_that_names_other_files_is_refused(name: str, tmp_path: Path) -> None:
    of_others, ours = {name: getattr(tv.CIFAR100, name)}, recordzoo.CIFAR10Record
    with pytest.raises(ArgumentError, match=rf"Own\.{name} names other .* those of CIFAR10Record, .* CIFAR100Record"):
        type("Own", (ours,), of_others)(CIFAR10.write_tree(tmp_path))
    kind: Any = type("Own", (type("Mine", (ours,), {}), recordzoo.CIFAR100Record), of_others)
    assert len(kind(cifar10.cifar100.write_tree(tmp_path), check_hash=False).classes) == 100


@pytest.mark.parametrize(("ours", "name"), [("ImageNet", "find_classes"), ("MNIST", "_load_data")])
def test_a_subclass_with_a_method_that_would_not_be_called_is_refused(ours: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"{name} would never be called: {ours}Record reads records"):
        type("Own", (getattr(recordzoo, f"{ours}Record"),), {name: lambda *_: ([], {})})(tmp_path)


def test_samples_are_read_one_by_one_until_the_data_is_asked_for(tmp_path: Path) -> None:
    ours = CIFAR10Record(CIFAR10.write_tree(tmp_path))
    assert ours[3][0].tobytes() == ours.read(3)
    ours.classes[0] = "plane"  # a new name changes no numbers
    assert ours.class_to_idx == {name: label for label, name in enumerate(cifar10.CLASSES)}
    assert "data" not in ours.__dict__
    size = len(pickle.dumps(ours))
    assert ours.data.shape == (35, 32, 32, 3)
    assert len(pickle.dumps(ours)) == len(pickle.dumps(copy.copy(ours))) == size
    ours.data[3] = 0
    for twin in (ours, pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(ours)))), copy.deepcopy(ours)):
        assert set(twin[3][0].tobytes()) == {0}
    for assigned in (ours.data[::-1], ours.data.astype(object), ours.data.tolist()):
        ours.data = assigned
        assert np.array_equal(pickle.loads(pickle.dumps(ours)).data, assigned)
