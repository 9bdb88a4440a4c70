"""Trees that lack a list, or whose lists contradict them: what is there opens, and errors say what is wrong."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.datasets as tv
from PIL import Image
from scipy.io import loadmat, savemat

import recordzoo
from recordzoo import catalogue
from tests.fakes.catalogued import catalogued
from tests.running import run


def write_tree(dataset: str, root: Path) -> Path:
    return catalogued()[dataset].write_tree(root)


@pytest.mark.parametrize(
    ("dataset", "kind", "missing", "split"),
    [
        ("dtd", "DTDRecord", "dtd/dtd/labels/val1.txt", "val"),
        ("food101", "Food101Record", "food-101/meta/test.json", "test"),
        ("clevr", "CLEVRClassificationRecord", "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json", "val"),
        ("stanford_dogs", "StanfordDogsRecord", "stanford_dogs/test_list.mat", "test"),
        ("cub200_2010", "CUB200_2010Record", "cub200_2010/lists/test.txt", "test"),
    ],
)
def test_a_split_whose_list_was_missing(dataset: str, kind: str, missing: str, split: str, tmp_path: Path) -> None:
    write_tree(dataset, tmp_path)
    (tmp_path / missing).unlink()
    assert len(getattr(recordzoo, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.NotPreparedError, match=rf"{dataset}\.records has no split '{split}.*refresh"):
        getattr(recordzoo, kind)(tmp_path, split)


SCENES, AIRCRAFT = "CLEVR_val_scenes.json", "images_variant_val.txt"


def without_first(text: str) -> str:
    return text.partition("\n")[2]


def without_scene(text: str) -> str:
    content = json.loads(text)
    return json.dumps({**content, "scenes": content["scenes"][1:]})


@pytest.mark.parametrize(
    ("dataset", "name", "change", "said"),
    [
        ("clevr", SCENES, without_scene, r"CLEVR_val_scenes\.json has no scene for CLEVR_val_"),
        ("clevr", SCENES, lambda text: '{"questions": []}', r"CLEVR_val_scenes\.json is not a file of CLEVR's scenes"),
        (
            "sun397",
            "ClassName.txt",
            lambda text: text.replace("/b/bakery-hall\n", ""),
            r"sun_\w+\.jpg lies in a folder that SUN397/ClassName.txt does not",
        ),
        ("fgvc_aircraft", "images_family_test.txt", without_first, r"images_family_test\.txt has other images than"),
        ("fgvc_aircraft", AIRCRAFT, lambda text: f"0000001 Zeppelin\n{text}", r"'Zeppelin' is not in variants\.txt"),
        (
            "fgvc_aircraft",
            AIRCRAFT,
            lambda text: f"0000001\n{text}",
            r"val\.txt.* line 1: expected 2 columns",
        ),
        ("oxford_pets", "test.txt", lambda text: f"beagle_7 3\n{text}", r"line 1: expected 4 columns, found 2"),
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
    folder = write_tree("caltech101", tmp_path) / "caltech101/Annotations"
    folder.rename(tmp_path / "elsewhere")
    dataset = recordzoo.Caltech101Record(tmp_path, target_type=["category", "annotation"])
    with pytest.raises(FileNotFoundError, match=r"Faces_2/annotation_0001\.mat was missing .*refresh=True"):
        dataset[0]
    image, label = recordzoo.Caltech101Record(tmp_path)[0]
    assert (image.size, label) == ((21, 24), 0)


@pytest.mark.parametrize(
    ("dataset", "kind", "image"),
    [
        ("food101", "Food101", "french_fries/1650852.jpg"),
        ("dtd", "DTD", "braided/braided_0002.jpg"),
        ("fgvc_aircraft", "FGVCAircraft", "0266460.jpg"),
        ("oxford_pets", "OxfordIIITPet", "Abyssinian_28.jpg"),
    ],
)
def test_a_listed_image_that_is_missing(dataset: str, kind: str, image: str, tmp_path: Path) -> None:
    """torchvision opens such a tree; `differences` says so."""
    next(path for path in write_tree(dataset, tmp_path).rglob("*.jpg") if path.match(image)).unlink()
    assert len(getattr(tv, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.SourceError, match=rf"lacks 1 image that the lists name, .*{image}"):
        getattr(recordzoo, f"{kind}Record")(tmp_path)
    assert "A tree without an image that a list names is refused." in " ".join(recordzoo.info(dataset).differences)


def seen(dataset: Any) -> list[Any]:
    return [
        dataset.classes,
        *((image.tobytes(), label) for image, label in map(dataset.__getitem__, range(len(dataset)))),
    ]


def keep_only(root: Path, pattern: str, *kept: str) -> None:
    for path in root.glob(pattern):
        if path.name not in kept:
            path.unlink()


LEVELS = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}


@pytest.mark.parametrize("split", ["train", "val", "trainval", "test"])
@pytest.mark.parametrize("level", LEVELS)
def test_aircraft_with_one_list(level: str, split: str, tmp_path: Path) -> None:
    keep_only(
        write_tree("fgvc_aircraft", tmp_path), "*/data/*.txt", f"{LEVELS[level]}.txt", f"images_{level}_{split}.txt"
    )
    theirs, ours = tv.FGVCAircraft(tmp_path, split, level), recordzoo.FGVCAircraftRecord(tmp_path, split, level)
    assert seen(ours) == seen(theirs)
    other_split, other_level = {"test": "val"}.get(split, "test"), {"family": "variant"}.get(level, "family")
    assert recordzoo.RecordReader(ours.records_path).manifest.splits.keys() == {split}
    for asked, said in (
        (
            (other_split, level),
            rf"has no split '{other_split}': images_{level}_{other_split}\.txt was missing .*refresh",
        ),
        ((split, other_level), rf"has no {other_level} of .* images_{other_level}_{split}\.txt was missing .*refresh"),
    ):
        with pytest.raises(recordzoo.errors.NotPreparedError, match=said):
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
    with pytest.raises(
        recordzoo.errors.NotPreparedError, match=rf"has no split '{other}': annotations/{other}\.txt was"
    ):
        recordzoo.OxfordIIITPetRecord(tmp_path, other)


@pytest.mark.parametrize("train", [True, False])
def test_emnist_with_one_split(train: bool, tmp_path: Path) -> None:
    raw = write_tree("emnist", tmp_path) / "EMNIST/raw"
    for path in raw.glob(f"*-{'test' if train else 'train'}-*"):
        path.unlink()
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
    file = io.BytesIO()
    savemat(file, {"X": content["X"], "y": content["y"].reshape(shape)}, oned_as="row")
    path.write_bytes(file.getvalue())
    dataset = recordzoo.SVHNRecord(tmp_path, check_hash=False)
    assert [label for _, label in dataset] == expected


EUROSAT = [
    *("AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop"),
    *("Residential", "River", "SeaLake"),
]


def write_eurosat(folder: Path, classes: list[str]) -> None:
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        Image.new("RGB", (64, 64), label).save(folder / name / f"{name}_1.jpg")


def test_a_class_folder_that_is_missing(tmp_path: Path) -> None:
    """torchvision's class gives Forest the label 0 then."""
    write_eurosat(tmp_path / "eurosat/2750", EUROSAT[1:])
    assert tv.EuroSAT(tmp_path).class_to_idx["Forest"] == 0
    told = r"eurosat: the raw data has 9 class folders, and the dataset has 10 classes.*Forest.*--allow-incomplete"
    with pytest.raises(recordzoo.errors.PrepareError, match=told):
        recordzoo.EuroSATRecord(tmp_path)
    ours = recordzoo.EuroSATRecord(tmp_path, incomplete=True)
    assert ours.class_to_idx == tv.EuroSAT(tmp_path).class_to_idx
    assert recordzoo.EuroSATRecord(tmp_path).targets == ours.targets  # once it is there
    assert ours.records_path.name == "eurosat.records"
    done = run("prepare", "eurosat", "--root", tmp_path, "--refresh", cwd=tmp_path)
    assert done.returncode == 1
    assert "--allow-incomplete" in done.stderr
    assert (
        run("prepare", "eurosat", "--root", tmp_path, "--refresh", "--allow-incomplete", cwd=tmp_path).returncode == 0
    )


def test_images_that_are_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_eurosat(tmp_path / "eurosat/2750", EUROSAT)
    ours = recordzoo.EuroSATRecord(tmp_path)
    assert "eurosat has 10 images, not 27,000." in caplog.text
    assert ours.class_to_idx == tv.EuroSAT(tmp_path).class_to_idx
    assert 'incomplete = "has 10 images, not 27,000."' in run("info", ours.records_path, cwd=tmp_path).stdout


def test_a_tree_one_folder_too_deep(tmp_path: Path) -> None:
    write_eurosat(tmp_path / "eurosat/2750/2750", EUROSAT)
    (tmp_path / "eurosat/2750/.DS_Store").touch()
    ours = recordzoo.EuroSATRecord(tmp_path)
    assert ours.classes == EUROSAT
    assert recordzoo.RecordReader(ours.records_path).names[3] == "Highway/Highway_1.jpg"


def test_more_classes_than_there_are(tmp_path: Path) -> None:
    write_eurosat(tmp_path / "eurosat/2750", [*EUROSAT, "Thumbs"])
    with pytest.raises(
        recordzoo.errors.PrepareError, match=r"11 class folders, and the dataset has 10 classes.*Thumbs"
    ):
        recordzoo.EuroSATRecord(tmp_path)


CLASS_FOLDERS = [
    (name, entry.parts[0].name)
    for name in catalogue.names()
    if (part := (entry := catalogue.entry(name)).parts[0]).layout.kind == "class_folders" and not part.recipe
]


@pytest.mark.parametrize(("name", "part"), CLASS_FOLDERS, ids=[name for name, _ in CLASS_FOLDERS])
def test_all_entries_of_class_folders_know_their_number_of_classes(name: str, part: str, tmp_path: Path) -> None:
    entry, layout = catalogue.entry(name), catalogue.entry(name).part(part).layout
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "png")
    ending = (layout.endings or (".png",))[0]

    def write(count: int) -> None:
        for label in range(count):
            for split in layout.folders.values() if layout.folders else [""]:
                folder = tmp_path / entry.folder / layout.top / split / f"class{label:04d}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"1{ending}").write_bytes(image.getvalue())

    assert entry.num_classes is not None
    write(entry.num_classes - 1)
    told = rf"has {entry.num_classes - 1:,} class folders?, and the dataset has {entry.num_classes} classes"
    with pytest.raises(recordzoo.errors.PrepareError, match=told):
        recordzoo.prepare(entry.label(part), tmp_path, download=False, workers=1)
    write(entry.num_classes)
    (made,) = recordzoo.prepare(entry.label(part), tmp_path, download=False, workers=1)
    reader = recordzoo.RecordReader(made)
    assert len(reader.manifest.classes or ()) == entry.num_classes
    assert "images, not" in str(reader.manifest.metadata["incomplete"])
