"""ImageNet as people have it: every form of the raw data gives what torchvision's ImageNet makes of its tree."""

import dataclasses
import gzip
import hashlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from torchvision.datasets import ImageNet

from recordzoo import catalogue
from recordzoo.datasets.imagenet import ImageNetRecord
from recordzoo.datasets.imagenet_forms import all_wnids
from recordzoo.errors import NotPreparedError, PrepareError, SourceError
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
from tests.fakes import imagenet
from tests.fakes.archives import tar, zipped
from tests.fakes.folder import write_tree
from tests.running import run

FAKE = imagenet.build(broken_exif=False)
KAGGLE = FAKE.kaggle_files()
SPLITS = ("train", "val")


def without(*names: str) -> dict[str, bytes]:
    """Return Kaggle's files but some, by what their names begin with."""
    return {name: data for name, data in KAGGLE.items() if not name.startswith(names)}


def write_official(root: Path) -> None:
    for write in (FAKE.write_train_archive, FAKE.write_val_archive, FAKE.write_devkit):
        write(root)


def write_trees(root: Path) -> None:
    for split in SPLITS:
        FAKE.write_tree(root, split)


def write_kaggle_with_sorted_val(root: Path) -> None:
    images = imagenet.KAGGLE_IMAGES
    write_tree(root, without(f"{images}val/", "LOC_val_solution.csv", imagenet.KAGGLE_NOTES))
    FAKE.write_tree(root / images, "val")


def write_solution(root: Path) -> None:
    write_tree(root, {"LOC_val_solution.csv": KAGGLE["LOC_val_solution.csv"]})


def write_flat_val(root: Path, write: Callable[[Path], object]) -> None:
    """Write the training images in their folders, the others in one, and what says the labels of these."""
    FAKE.write_tree(root, "train")
    write_tree(root / "val", FAKE.val)
    write(root)


def write_inner_archive(root: Path) -> None:
    """Write what unpacking an older download of Kaggle's gives."""
    (root / imagenet.KAGGLE_INNER).write_bytes(gzip.compress(tar(without("LOC_")), mtime=0))
    write_tree(root, {name: KAGGLE[name] for name in KAGGLE if name.startswith("LOC_")})


def write_shards(root: Path) -> None:
    for split in SPLITS:
        FAKE.write_parquet(root, split)


FORMS: dict[str, Callable[[Path], object]] = {
    "official archives": write_official,
    "sorted trees alone": write_trees,
    "Kaggle's zip": lambda root: (root / imagenet.KAGGLE_ARCHIVE).write_bytes(zipped(KAGGLE)),
    "Kaggle's zip without solutions": lambda root: (root / imagenet.KAGGLE_ARCHIVE).write_bytes(
        zipped(without("LOC_val_solution.csv"))
    ),
    "Kaggle's older archive": write_inner_archive,
    "Kaggle's older archive alone": lambda root: (root / imagenet.KAGGLE_INNER).write_bytes(
        gzip.compress(tar(without("LOC_")), mtime=0)
    ),
    "Kaggle's folder": lambda root: write_tree(root, KAGGLE),
    "Kaggle's folder without XML": lambda root: write_tree(root, without(imagenet.KAGGLE_NOTES)),
    "Kaggle's folder without solutions": lambda root: write_tree(root, without("LOC_val_solution.csv")),
    "Kaggle's folder, val sorted": write_kaggle_with_sorted_val,
    "flat val with solutions": lambda root: write_flat_val(root, write_solution),
    "flat val with the development kit": lambda root: write_flat_val(root, FAKE.write_devkit),
    "flat val with meta.bin": lambda root: write_flat_val(root, FAKE.write_meta_bin),
    "parquet": lambda root: write_shards(root / "data"),
    "parquet in the root": write_shards,
}

HAS_SYNONYMS = (
    *("official archives", "flat val with the development kit", "flat val with meta.bin"),
    *(form for form in FORMS if form.startswith("Kaggle") and form != "Kaggle's older archive alone"),
)


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root as torchvision leaves it."""
    folder = tmp_path_factory.mktemp("extracted")
    write_trees(folder)
    FAKE.write_meta_bin(folder)
    return folder


def record_class(root: Path, form: str) -> type[ImageNetRecord]:
    """Make a class that knows the hashes of the official archives, if they are there."""
    if form != "official archives":
        return ImageNetRecord

    class Record(ImageNetRecord):
        raw_files = (*imagenet.remote_files(root, "train"), *imagenet.remote_files(root, "val"))

    return Record


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_torchvisions_tree(form: str, extracted: Path, tmp_path: Path) -> None:
    FORMS[form](tmp_path)
    kind = record_class(tmp_path, form)
    for split in SPLITS:
        theirs, ours = ImageNet(extracted, split), kind(tmp_path, split, check_hash="kit" not in form)
        assert len(ours) == len(theirs) == len(FAKE.split(split))
        assert ours.wnids == theirs.wnids
        assert ours.targets == theirs.targets
        assert ours.samples == [(path.replace(str(extracted), str(tmp_path)), label) for path, label in theirs.samples]
        for index, (path, _) in enumerate(theirs.samples):
            assert ours.read(index) == Path(path).read_bytes()
            (image, label), (mine, target) = theirs[index], ours[index]
            assert (mine.tobytes(), mine.size, mine.mode, target) == (image.tobytes(), image.size, image.mode, label)
        if form in HAS_SYNONYMS:
            assert (ours.classes, ours.class_to_idx) == (theirs.classes, theirs.class_to_idx)
        else:
            assert ours.classes == [(wnid,) for wnid in theirs.wnids]


@pytest.mark.parametrize("form", ["Kaggle's zip", "Kaggle's folder", "parquet"])
def test_same_bytes_whatever_the_workers(form: str, tmp_path: Path) -> None:
    FORMS[form](tmp_path)
    digests = set()
    for workers in (1, 2):
        target = tmp_path / f"{workers}.records"
        options = {"workers": workers, "shard_bytes": 4096}
        digests.add(
            RecordReader(ensure(dataset_recipe("imagenet", "val"), tmp_path, records_dir=target, **options)).digest
        )
    assert len(digests) == 1


def test_a_partly_downloaded_form_gives_its_split_only(tmp_path: Path) -> None:
    FAKE.write_parquet(tmp_path / "data", "val")
    assert len(ImageNetRecord(tmp_path, "val")) == len(FAKE.val)
    with pytest.raises(NotPreparedError, match=r"ILSVRC/Data/CLS-LOC/train/, imagenet-obj.*\.zip, train-\*\.parquet"):
        ImageNetRecord(tmp_path, "train")


def test_an_archive_in_kaggles_archive_is_said(tmp_path: Path) -> None:
    files = {imagenet.KAGGLE_INNER: b"another archive", "LOC_val_solution.csv": KAGGLE["LOC_val_solution.csv"]}
    (tmp_path / imagenet.KAGGLE_ARCHIVE).write_bytes(zipped(files))
    with pytest.raises(SourceError, match="the images are in another archive, imagenet_object_localization"):
        ImageNetRecord(tmp_path, "val")


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        (b"ImageId,PredictionString\n", "nothing that says which class each image has"),
        (
            KAGGLE["LOC_val_solution.csv"].rpartition(b"ILSVRC")[0],
            "do not say the class of 1 image: ILSVRC2012_val_0",
        ),
        (
            b"ImageId,PredictionString\nILSVRC2012_val_00000001,7 1 2 3 4\n",
            r"solution\.csv, line 2: not an image",
        ),
        (b"\xff\xfe\0\n", r"LOC_val_solution\.csv, line 1"),
    ],
)
def test_a_broken_list_of_solutions_is_said(solution: bytes, message: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {**without(imagenet.KAGGLE_NOTES), "LOC_val_solution.csv": solution})
    with pytest.raises(SourceError, match=message):
        ImageNetRecord(tmp_path, "val")


def test_flat_val_of_kaggle_without_lists(tmp_path: Path) -> None:
    write_tree(tmp_path, without("LOC_", imagenet.KAGGLE_NOTES))
    with pytest.raises(NotPreparedError, match=r"Kaggle's LOC_val_solution\.csv \(missing: only they say which class"):
        ImageNetRecord(tmp_path, "val")
    assert len(ImageNetRecord(tmp_path, "train")) == len(FAKE.split("train"))


def rewrite(path: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    """Change the rows of a shard."""
    rows = parquet.read_table(path).to_pylist()
    change(rows)
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "is no whole shard of ILSVRC/imagenet-1k"),
        (lambda path: path.write_bytes(b""), "is no whole shard"),
        (lambda path: parquet.write_table(pyarrow.table({"text": ["a"]}), path), "is no whole shard"),
        (lambda path: rewrite(path, lambda rows: [row.update(image=b"bytes") for row in rows]), "is no whole shard"),
        (lambda path: rewrite(path, lambda rows: rows[1].update(label=17)), "with the label 17 is not called as in"),
        (lambda path: rewrite(path, lambda rows: rows[1].update(label=-1)), "with the label -1 is not called as in"),
        (lambda path: rewrite(path, lambda rows: rows[1].update(label=None)), "is no whole shard"),
        (lambda path: rewrite(path, lambda rows: rows[1]["image"].update(path="1.jpg")), "'1.jpg' with the label"),
        (lambda path: rewrite(path, lambda rows: rows[1]["image"].update(path=None)), "the image None with the label"),
        (lambda path: rewrite(path, lambda rows: rows[1]["image"].update(bytes=None)), "is no whole shard"),
    ],
)
def test_a_broken_shard_is_said(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    damage(FAKE.write_parquet(tmp_path, "val")[1])
    with pytest.raises(SourceError, match=f"validation-00001-of-00003.parquet.*{message}|{message}"):
        ImageNetRecord(tmp_path, "val")


def test_shards_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path)
    ImageNetRecord(tmp_path, "val")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PrepareError, match=r"imagenet\.train: .* read with pyarrow, which is not installed"):
        ImageNetRecord(tmp_path, "train")
    assert len(ImageNetRecord(tmp_path, "val")) == len(FAKE.val)  # what is converted is read without it


def test_missing_shards_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FAKE.write_parquet(tmp_path, "val")[1].unlink()
    dataset = ImageNetRecord(tmp_path, "val")
    assert 0 < len(dataset) < len(FAKE.val)
    assert "Shards that are missing: validation-00001-of-00003.parquet." in caplog.text


def test_what_is_missing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FAKE.write_tree(tmp_path, "val")
    with caplog.at_level(logging.WARNING, "recordzoo"):
        dataset = ImageNetRecord(tmp_path, "val")
    said = [record.getMessage() for record in caplog.records if "not 50,000" in record.getMessage()]
    assert len(said) == 1
    missing = [wnid for wnid in all_wnids() if wnid not in dataset.wnids]
    for part in (
        "ImageNet's split 'val' has 10 images, not 50,000.",
        f"Classes without images: {', '.join(missing[:10])} and 985 more.",
        f"Classes with fewer than 50: {', '.join(dataset.wnids)}.",
    ):
        assert part in said[0]
    assert "has 10 images, not 50,000." in RecordReader(dataset.records_path).manifest.metadata["incomplete"]
    assert "has 10 images, not 50,000." in run("info", dataset.records_path, cwd=tmp_path).stdout


def test_missing_val_images_do_not_move_labels(
    tmp_path: Path, extracted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside a development kit with its true hash: the authors' own file, but not their images."""
    gone = sorted(FAKE.val)[3]
    write_tree(tmp_path / "val", {name: data for name, data in FAKE.val.items() if name != gone})
    devkit = hashlib.md5(FAKE.write_devkit(tmp_path).read_bytes()).hexdigest()
    real = catalogue.entry("imagenet")
    files = [
        dataclasses.replace(file, md5=devkit, size_bytes=None) if file.name == imagenet.DEVKIT else file
        for file in real.files
    ]
    entry = dataclasses.replace(real, files=tuple(files))
    monkeypatch.setattr(catalogue, "entry", lambda name: entry)
    ours, theirs = ImageNetRecord(tmp_path, "val"), ImageNet(extracted, "val")
    expected = [Path(path).parts[-2:] for path, _ in theirs.samples if not path.endswith(gone)]
    assert [Path(path).parts[-2:] for path, _ in ours.samples] == expected
    assert [ours.wnids[label] for label in ours.targets] == [wnid for wnid, _ in expected]
    assert "has 9 images, not 50,000." in caplog.text
