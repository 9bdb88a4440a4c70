"""Trees that lack a list, or whose lists contradict them: what is there opens, and errors say what is wrong."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets as tv
from scipy.io import loadmat, savemat

import recordzoo
from recordzoo import catalogue
from tests.fakes.catalogued import catalogued
from tests.fakes.folder import image_bytes
from tests.running import run


def write_tree(dataset: str, root: Path) -> Path:
    return catalogued()[dataset].write_tree(root)


@pytest.mark.parametrize(
    ("dataset", "kind", "missing", "split"),
    [
        ("dtd", "DTDRecord", "dtd/dtd/labels/val1.txt", "val"),
        ("food101", "Food101Record", "food-101/meta/test.json", "test"),
        ("stanford_dogs", "StanfordDogsRecord", "stanford_dogs/test_list.mat", "test"),
    ],
)
def test_a_split_whose_list_was_missing(dataset: str, kind: str, missing: str, split: str, tmp_path: Path) -> None:
    write_tree(dataset, tmp_path)
    (tmp_path / missing).unlink()
    assert len(getattr(recordzoo, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.NotPreparedError, match=rf"{dataset}\.records has no split '{split}.*refresh"):
        getattr(recordzoo, kind)(tmp_path, split)


def without_scene(text: str) -> str:
    content = json.loads(text)
    return json.dumps({**content, "scenes": content["scenes"][1:]})


@pytest.mark.parametrize(
    ("dataset", "name", "change", "said"),
    [
        ("clevr", "CLEVR_val_scenes.json", without_scene, r"CLEVR_val_scenes\.json has no scene for CLEVR_val_"),
        ("clevr", "CLEVR_val_scenes.json", lambda text: '{"questions": []}', "is not a file of CLEVR's scenes"),
        ("sun397", "ClassName.txt", lambda text: text.replace("/b/bakery-hall\n", ""), "a folder that SUN397/Class"),
        ("fgvc_aircraft", "images_family_test.txt", lambda text: text.partition("\n")[2], "has other images than"),
        ("fgvc_aircraft", "images_variant_val.txt", "0000001 Zeppelin\n{}".format, "'Zeppelin' is not in variants"),
        ("oxford_pets", "test.txt", "beagle_7 3\n{}".format, "line 1: expected 4 columns, found 2"),
    ],
)
def test_a_list_that_contradicts(
    dataset: str, name: str, change: Callable[[str], str], said: str, tmp_path: Path
) -> None:
    path = next(write_tree(dataset, tmp_path).rglob(name))
    path.write_text(change(path.read_text()))
    with pytest.raises(recordzoo.errors.SourceError, match=said):
        recordzoo.prepare(dataset, tmp_path)


def test_an_outline_that_is_missing(tmp_path: Path) -> None:
    """torchvision's own download leaves all of them out."""
    shutil.rmtree(write_tree("caltech101", tmp_path) / "caltech101/Annotations")
    dataset = recordzoo.Caltech101Record(tmp_path, target_type=["category", "annotation"])
    with pytest.raises(FileNotFoundError, match=r"Faces_2/annotation_0001\.mat was missing .*refresh=True"):
        dataset[0]
    image, label = recordzoo.Caltech101Record(tmp_path)[0]
    assert (image.size, label) == ((21, 24), 0)


@pytest.mark.parametrize(("dataset", "image"), [("food101", "1650852.jpg"), ("fgvc_aircraft", "0266460.jpg")])
def test_a_listed_image_that_is_missing(dataset: str, image: str, tmp_path: Path) -> None:
    """torchvision opens such a tree; `differences` says so."""
    next(path for path in write_tree(dataset, tmp_path).rglob("*.jpg") if path.match(image)).unlink()
    (kind,) = recordzoo.info(dataset).class_names
    assert len(getattr(tv, kind.removesuffix("Record"))(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.SourceError, match=rf"lacks 1 image that the lists name, .*{image}"):
        getattr(recordzoo, kind)(tmp_path)
    assert "A tree without an image that a list names is refused." in " ".join(recordzoo.info(dataset).differences)


def seen(dataset: Any) -> list[Any]:
    samples = map(dataset.__getitem__, range(len(dataset)))
    return [dataset.classes, *((image.tobytes(), label) for image, label in samples)]


def keep_only(root: Path, pattern: str, *kept: str) -> None:
    for path in root.glob(pattern):
        if path.name not in kept:
            path.unlink()


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("level", ["variant", "family", "manufacturer"])
def test_aircraft_with_one_list(level: str, split: str, tmp_path: Path) -> None:
    names = "families.txt" if level == "family" else f"{level}s.txt"
    keep_only(write_tree("fgvc_aircraft", tmp_path), "*/data/*.txt", names, f"images_{level}_{split}.txt")
    theirs, ours = tv.FGVCAircraft(tmp_path, split, level), recordzoo.FGVCAircraftRecord(tmp_path, split, level)
    assert seen(ours) == seen(theirs)
    other = "variant" if level == "family" else "family"
    for asked, said in ((("val", level), "split 'val':"), ((split, other), f"{other} of .*")):
        lost = rf"has no {said} images_{asked[1]}_{asked[0]}\.txt was missing .*refresh"
        with pytest.raises(recordzoo.errors.NotPreparedError, match=lost):
            recordzoo.FGVCAircraftRecord(tmp_path, *asked)
        with pytest.raises(FileNotFoundError):
            tv.FGVCAircraft(tmp_path, *asked)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torchvision leaves a GIF open
@pytest.mark.parametrize(("split", "other"), [("trainval", "test"), ("test", "trainval")])
def test_pets_with_one_list(split: str, other: str, tmp_path: Path) -> None:
    keep_only(write_tree("oxford_pets", tmp_path), "*/annotations/*.txt", f"{split}.txt")
    for kind in ("category", "binary-category"):
        theirs, ours = (make(tmp_path, split, kind) for make in (tv.OxfordIIITPet, recordzoo.OxfordIIITPetRecord))
        assert seen(ours) == seen(theirs)
    with pytest.raises(recordzoo.errors.NotPreparedError, match=rf"no split '{other}': annotations/{other}\.txt was"):
        recordzoo.OxfordIIITPetRecord(tmp_path, other)


@pytest.mark.parametrize("train", [True, False])
def test_emnist_with_one_split(train: bool, tmp_path: Path) -> None:
    keep_only(write_tree("emnist", tmp_path), f"EMNIST/raw/*-{'test' if train else 'train'}-*")
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"looked for .*gzip\.zip"):  # what a download would get
        recordzoo.EMNISTRecord(tmp_path, "letters", train=not train)
    theirs, ours = (make(tmp_path, "letters", train=train) for make in (tv.EMNIST, recordzoo.EMNISTRecord))
    assert seen(ours) == seen(theirs)
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"has no split '\w+': .* was missing .*refresh"):
        recordzoo.EMNISTRecord(tmp_path, "letters", train=not train)


@pytest.mark.parametrize("shape", [(-1,), (1, -1), (-1, 1)])
def test_street_numbers_with_labels_of_any_shape(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = write_tree("svhn", tmp_path) / "train_32x32.mat"
    content = loadmat(path)
    expected = np.where(content["y"] == 10, 0, content["y"]).ravel().tolist()
    savemat(path, {"X": content["X"], "y": content["y"].reshape(shape)}, oned_as="row")
    dataset = recordzoo.SVHNRecord(tmp_path, check_hash=False)
    assert [label for _, label in dataset] == expected


def test_a_class_folder_that_is_missing(tmp_path: Path) -> None:
    """torchvision's class gives Forest the label 0 then."""
    shutil.rmtree(write_tree("eurosat", tmp_path) / "eurosat/2750/AnnualCrop")
    assert tv.EuroSAT(tmp_path).class_to_idx["Forest"] == 0
    with pytest.raises(recordzoo.errors.PrepareError, match=r"has 9 class folders.*Forest.*--allow-incomplete"):
        recordzoo.EuroSATRecord(tmp_path)
    ours = recordzoo.EuroSATRecord(tmp_path, incomplete=True)
    assert ours.class_to_idx == tv.EuroSAT(tmp_path).class_to_idx
    assert recordzoo.EuroSATRecord(tmp_path).targets == ours.targets  # once it is there
    for more, code in (((), 1), (("--allow-incomplete",), 0)):
        assert run("prepare", "eurosat", "--root", tmp_path, "--refresh", *more, cwd=tmp_path).returncode == code


@pytest.mark.parametrize(
    ("part", "old", "new", "said"),
    [
        ("cub200", "CUB_200_2011", "CUB_200_2011/CUB_200_2011", ""),
        ("eurosat", "eurosat/2750", "eurosat/2750/2750", ""),
        ("imagenet.val", "val", "val/val", ""),
        ("stanford_cars.train", "stanford_cars/cars_train", "stanford_cars/cars_train/cars_train", ""),
        ("food101", "food-101", "kaggle/food-101", r"food-101/images/ is in \S+kaggle: give that as the root"),
        ("inaturalist.2021_valid", "2021_valid", "val", ""),
        ("usps.train", "usps.bz2", "usps (1).bz2", r"looked for .*usps\.bz2"),
    ],
)
def test_a_layout_that_people_have(part: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    root = write_tree(part.partition(".")[0], tmp_path / "root")
    (made,) = recordzoo.prepare(part, root, check_hash=False, output=tmp_path / "expected.records")
    for path in list(root.rglob("*.*")):
        path.with_name(f"._{path.name}").touch()  # as macOS does
    (root / old).rename(tmp_path / "moved")
    os.renames(tmp_path / "moved", root / new)
    with pytest.raises(recordzoo.errors.NotPreparedError, match=said) if said else contextlib.nullcontext():
        (again,) = recordzoo.prepare(part, root, check_hash=False, download=False)
        expected, found = map(recordzoo.RecordReader, (made, again))
        assert (list(found.names), found.manifest.classes) == (list(expected.names), expected.manifest.classes)
        assert re.search("images?, not|should have", str(found.manifest.metadata["incomplete"]))


CLASS_FOLDERS = [
    (name, entry.parts[0].name)
    for name in catalogue.names()
    if (part := (entry := catalogue.entry(name)).parts[0]).layout.kind == "class_folders" and not part.recipe
]


@pytest.mark.parametrize(("name", "part"), CLASS_FOLDERS, ids=[name for name, _ in CLASS_FOLDERS])
def test_all_entries_of_class_folders_know_their_number_of_classes(name: str, part: str, tmp_path: Path) -> None:
    entry, layout = catalogue.entry(name), catalogue.entry(name).part(part).layout
    ending = (layout.endings or (".png",))[0]

    def write(count: int) -> None:
        for label in range(count):
            for split in layout.folders.values() if layout.folders else [""]:
                folder = tmp_path / entry.folder / layout.top / split / f"class{label:04d}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"1{ending}").write_bytes(image_bytes("1.png", label))

    write(entry.num_classes - 1)
    with pytest.raises(recordzoo.errors.PrepareError, match=f"and the dataset has {entry.num_classes} classes"):
        recordzoo.prepare(entry.label(part), tmp_path, download=False, workers=1)
    write(entry.num_classes)
    (made,) = recordzoo.prepare(entry.label(part), tmp_path, download=False, workers=1)
    reader = recordzoo.RecordReader(made)
    assert len(reader.manifest.classes or ()) == entry.num_classes
    assert "images, not" in str(reader.manifest.metadata["incomplete"])
