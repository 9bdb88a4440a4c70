"""Single datasets beyond the contract: lists and labels that are damaged or missing, archives, loaders, variants."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import Cityscapes, INaturalist
from torchvision.datasets.folder import pil_loader

import recordzoo
from recordzoo import CityscapesRecord, ObjectNetRecord, RecordReader, catalogue
from recordzoo.errors import DownloadError, NotPreparedError, SourceError
from tests import contract
from tests.contract import DECLARED, Pair
from tests.fakes.annotations import celeba
from tests.fakes.annotations import cityscapes as STREETS
from tests.fakes.catalogued import catalogued
from tests.fakes.class_folders import gtsrb, omniglot
from tests.fakes.domains import IMAGENET_LABELS
from tests.fakes.domains import TOP as OBJECTNET
from tests.fakes.domains import objectnet as OBJECTS
from tests.fakes.imagenet_tests import imagenet_real
from tests.fakes.pictures import jpeg, picture
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
        Cityscapes(tree, "val")
    with pytest.raises(NotPreparedError, match=r"no leftImg8bit/val/ or no gtFine/val/ when .*fine\.records"):
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
    splits = {name: len(RecordReader(coarse).split(name)) for name in RecordReader(coarse).manifest.splits}
    assert splits == {"train": 4, "val": 4}
    assert len(RecordReader(coarse)) == 8  # without the images of the test
    with pytest.raises(DownloadError, match=r"(?s)Register or log in.*gtFine_trainvaltest\.zip \(241 MB\)"):
        recordzoo.prepare("cityscapes.fine", root, check_hash=False, workers=1)


GONE = ["stanford_cars", "lfw"]


@pytest.mark.parametrize("name", GONE)
def test_a_download_says_how_to_get_the_files(name: str, tmp_path: Path) -> None:
    entry = catalogue.entry(name)
    by_hand = next(file for file in entry.files if not file.urls and not file.optional)
    part = entry.part(by_hand.parts[0])
    with pytest.raises(recordzoo.errors.DownloadError, match=r"(?s)\n1\. .*\n2\. .*recordzoo prepare") as caught:
        getattr(recordzoo, entry.class_names[0])(tmp_path, **part.arguments, download=True)
    assert str(tmp_path / entry.folder) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", GONE)
def test_a_mirror_of_ones_own_has_them(name: str, tmp_path: Path) -> None:
    fake = catalogued()[name]
    entry = catalogue.entry(name)
    with FileServer({f"{name}/{file}": data for file, data in fake.files.items()}) as server:
        for part in map(entry.part, entry.default_parts):
            kind = getattr(recordzoo, entry.class_names[0])
            assert len(kind(tmp_path, **part.arguments, download=True, mirror=server.url, check_hash=False)) > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((b"ClassId", b"Class"), r"GT-final_test\.csv is no list of files and their classes \(KeyError\('ClassId'\)\)"),
        ((b"\r\n", b"x\r\n"), r"GT-final_test\.csv is no list of files"),
        ((b"00000.ppm", b"00009.ppm"), r"the raw data lacks 1 image that the lists name.* 00009\.ppm"),
    ],
    ids=["a column", "a label", "a file"],
)
def test_a_damaged_list_of_gtsrb(change: tuple[bytes, bytes], said: str, tmp_path: Path) -> None:
    path = gtsrb.write_tree(tmp_path) / "gtsrb" / "GT-final_test.csv"
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(SourceError, match=said):
        recordzoo.prepare("gtsrb.test", tmp_path, check_hash=False, workers=1)


def test_without_its_list_gtsrb_has_no_test_set(tmp_path: Path) -> None:
    (gtsrb.write_tree(tmp_path) / "gtsrb" / "GT-final_test.csv").unlink()
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"GTSRB_Final_Test_GT\.zip"):
        recordzoo.GTSRBRecord(tmp_path, "test")
    assert len(recordzoo.GTSRBRecord(tmp_path, workers=1)) == 12


@pytest.fixture
def reassessed(tmp_path: Path) -> Path:
    return imagenet_real.write_tree(tmp_path)


def test_images_that_torchvision_sorted_have_the_same_reassessed_labels(reassessed: Path, tmp_path: Path) -> None:
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
        *(
            (text, "is not a list of lists of labels from 0 to 999")
            for text in ("{", "[[1000]]", "[[true]]", "[3]", "7")
        ),
        ("[[1], [2], [3]]", "not all of them have labels"),
    ],
)
def test_reassessed_labels_that_are_none(reassessed: Path, labels: str, said: str) -> None:
    (reassessed / "real.json").write_text(labels)
    with pytest.raises(SourceError, match=said):
        recordzoo.ImageNetReaLRecord(reassessed)


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
    with pytest.raises(RuntimeError, match=r"category|dir name") as theirs:
        INaturalist(tmp_path, version)
    with pytest.raises(recordzoo.errors.SourceError) as ours:
        recordzoo.INaturalistRecord(tmp_path, version)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("download", [False, True])
def test_the_zip_of_objectnet_alone_is_refused_with_the_command_that_extracts_it(
    tmp_path: Path, download: bool
) -> None:
    OBJECTS.write_archive(tmp_path)
    shutil.rmtree(tmp_path / OBJECTNET)
    with pytest.raises(SourceError, match=r"is encrypted; extract it first: .* unzip -P objectnetisatestset"):
        ObjectNetRecord(tmp_path, download=download)


def test_that_objectnet_cannot_be_downloaded_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match=r"looked for .*objectnet-1\.0/images/"):
        ObjectNetRecord(tmp_path)
    with pytest.raises(DownloadError, match=r"(?s)https://objectnet\.dev/.*unzip -P .*prepare objectnet --root"):
        ObjectNetRecord(tmp_path, download=True)


def test_half_of_objectnet_is_noticed(tmp_path: Path) -> None:
    OBJECTS.write_archive(tmp_path)
    shutil.rmtree(tmp_path / OBJECTNET / "images" / "tie")
    with pytest.raises(SourceError, match="1 of 4 folders have no image, the first is tie"):
        ObjectNetRecord(tmp_path)


def test_objectnets_labels_of_imagenet_and_its_border(tmp_path: Path) -> None:
    OBJECTS.write_archive(tmp_path)
    dataset = ObjectNetRecord(tmp_path, "imagenet")
    assert {dataset.classes[label] for label in dataset.targets} == set(IMAGENET_LABELS)
    for label in set(dataset.targets):
        assert dataset.imagenet_labels[label] == IMAGENET_LABELS[dataset.classes[label]]
    image: Image.Image = dataset[0][0]
    assert image.getpixel((0, 5)) == (255, 0, 0)
    inner = ObjectNetRecord.without_border(image)
    assert inner.size == (image.width - 2, image.height - 2)
    assert inner.getpixel((0, 5)) == image.getpixel((1, 6))


def test_omniglot_with_a_loader_of_the_users(tmp_path: Path) -> None:
    theirs = contract.Omniglot(omniglot.write_tree(tmp_path / "theirs"), loader=pil_loader)
    ours = contract.OmniglotRecord(omniglot.write_tree(tmp_path / "ours"), loader=pil_loader)
    shutil.rmtree(tmp_path / "ours" / "omniglot-py" / "images_background")
    for dataset in (ours, pickle.loads(pickle.dumps(ours))):
        assert dataset.loader == pil_loader
        assert [(image.mode, image.tobytes(), label) for image, label in dataset] == [
            (image.mode, image.tobytes(), label) for image, label in theirs
        ]
    stored = ours.read(0)
    ours.loader = theirs.loader = lambda path: Path(path).read_bytes()
    assert ours[0] == theirs[0] == (stored, 0)
    ours.loader = theirs.loader = None
    assert ours.loader is None
    assert ours[0][0].mode == theirs[0][0].mode == "L"


def build_places(folder: Path, source: str) -> Pair:
    (row,) = [each for each in DECLARED if each.name == "Places365"]
    return row.build(folder, source)


def test_a_list_of_places_that_was_changed(tmp_path: Path) -> None:
    """torchvision refuses it, too."""
    pair = build_places(tmp_path, "tree")
    path = pair.our_root / "places365_val.txt"
    path.write_bytes(path.read_bytes() + b"Places365_val_00000007.jpg 3\n")
    with pytest.raises(RuntimeError, match="does not exist or is corrupted"):
        pair.theirs(pair.our_root, "val")
    with pytest.raises(recordzoo.errors.SourceError, match=r"places365_val\.txt is damaged: its MD5 is"):
        pair.ours(pair.our_root, "val")


def test_a_loader_takes_images_of_places_by_themselves_while_transforms_are_the_other_two(tmp_path: Path) -> None:
    pair = build_places(tmp_path, "archive")
    dataset = pair.ours(pair.our_root, "val", transform=len)
    assert dataset.batch_source().problem == ""
    dataset.transform = None  # which torchvision does not look at
    assert "its transforms are not" in dataset.batch_source().problem


def test_only_the_archives_of_a_split_of_places_and_size_are_needed(tmp_path: Path) -> None:
    pair = build_places(tmp_path, "archive")
    needed = {"filelist_places365-standard.tar", "val_256.tar"}
    for path in pair.our_root.iterdir():
        if path.name not in needed:
            path.unlink()
    assert len(pair.ours(pair.our_root, "val", small=True)) == 6
    with pytest.raises(
        recordzoo.errors.NotPreparedError, match=r"val_large/, filelist_places365-standard\.tar, val_large\.tar"
    ):
        pair.ours(pair.our_root, "val")
