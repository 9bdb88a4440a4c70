"""ImageNetRecord: every form of the raw data gives torchvision's dataset; names of classes, what is missing, terms."""

import contextlib
import dataclasses
import logging
import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow
import pytest
import torch
from pyarrow import parquet
from torchvision.datasets import ImageNet
from torchvision.models._meta import _IMAGENET_CATEGORIES

from recordzoo import catalogue
from recordzoo.datasets.imagenet import ImageNetRecord
from recordzoo.datasets.imagenet_recipe import all_wnids, parse_meta, read_meta
from recordzoo.errors import NotPreparedError, SourceError, TermsError
from recordzoo.records.reader import RecordReader
from tests.contract import ImageNetRecord as Faked
from tests.fakes import imagenet
from tests.fakes.archives import tar, zipped
from tests.fakes.catalogued import facts_of
from tests.fakes.folder import write_tree
from tests.fakes.server import FileServer
from tests.running import run

FAKE = imagenet.build(broken_exif=False)
ARCHIVES = imagenet.imagenet.files
SPLITS = ("train", "val")


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root as torchvision leaves it, which torchvision itself then opens without archives."""
    folder = tmp_path_factory.mktemp("extracted")
    for split in SPLITS:
        FAKE.write_tree(folder, split)
    FAKE.write_meta_bin(folder)
    return folder


def write_archives(root: Path, *names: str) -> None:
    write_tree(root, {name: ARCHIVES[name] for name in names or ARCHIVES})


def test_a_broken_devkit_does_not_stop_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_archives(tmp_path, imagenet.TRAIN_ARCHIVE)
    Faked(tmp_path)
    (tmp_path / "meta.bin").write_bytes(b"not what torch saves")
    assert Faked(tmp_path).classes[0] == ("n01440764",)
    assert "meta.bin is not what torchvision's ImageNet writes" in caplog.text


def test_names_stay_with_the_record_set(tmp_path: Path, extracted: Path) -> None:
    write_archives(tmp_path)
    expected = Faked(tmp_path).classes
    (tmp_path / imagenet.DEVKIT).unlink()
    assert Faked(tmp_path).classes == expected == ImageNet(extracted, "train").classes


def test_a_thousand_classes_have_torchvisions_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the development kit; what is said of it is said once."""
    imagenet.build(1000, 1, size=(8, 8)).write_tree(tmp_path, "train")
    datasets = [ImageNetRecord(tmp_path), ImageNetRecord(tmp_path)]
    said = [record.levelname for record in caplog.records if "one name" in record.getMessage()]
    assert said == ["WARNING"]
    dataset = datasets[1]
    assert len(pickle.dumps(dataset)) < 2048
    assert dataset.classes == [(name,) for name in _IMAGENET_CATEGORIES]
    assert dataset.class_to_idx == {name: label for label, (name,) in enumerate(dataset.classes)}
    assert len(pickle.dumps(dataset)) < 2048
    twin = pickle.loads(pickle.dumps(dataset))
    assert (twin.classes, twin.class_to_idx) == (dataset.classes, dataset.class_to_idx)
    dataset.classes[0] = ("fish",)
    assert pickle.loads(pickle.dumps(dataset)).classes[0] == ("fish",)
    assert [record.levelname for record in caplog.records if "one name" in record.getMessage()] == said


@pytest.mark.parametrize("name", [imagenet.DEVKIT, "meta.bin"])
def test_a_late_devkit_is_read(name: str, extracted: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_archives(tmp_path, imagenet.TRAIN_ARCHIVE)
    with caplog.at_level(logging.INFO, "recordzoo"):
        without = Faked(tmp_path)
    (said,) = [record.getMessage() for record in caplog.records if "one name" in record.getMessage()]
    assert imagenet.DEVKIT in said
    assert without.classes == [(wnid,) for wnid in sorted(FAKE.train)]
    assert without.class_to_idx == without.wnid_to_idx
    (tmp_path / name).write_bytes(ARCHIVES.get(name) or (extracted / name).read_bytes())
    expected = Faked(tmp_path).classes
    assert expected == ImageNet(extracted, "train").classes
    assert Faked(tmp_path).class_to_idx["crane"] == 4
    assert pickle.loads(pickle.dumps(Faked(tmp_path).classes)) == expected


def test_val_archive_without_devkit(tmp_path: Path) -> None:
    write_archives(tmp_path, imagenet.VAL_ARCHIVE)
    said = rf"img_val\.tar.*{imagenet.DEVKIT}.*meta\.bin.*only they say which class.*image-net\.org"
    with pytest.raises(NotPreparedError, match=f"(?s){said}"):
        ImageNetRecord(tmp_path, "val")


def test_what_an_interrupted_torchvision_leaves_is_not_taken(tmp_path: Path) -> None:
    train = FAKE.write_tree(tmp_path, "train")
    (train / "n01443537.tar").write_bytes(tar(FAKE.train["n01443537"]))
    with pytest.raises(NotPreparedError, match=r"n01443537\.tar is still in train/"):
        ImageNetRecord(tmp_path, "train")
    val = FAKE.write_tree(tmp_path, "val")
    (val / "ILSVRC2012_val_00009999.JPEG").write_bytes(b"x")
    with pytest.raises(NotPreparedError, match=r"ILSVRC2012_val_00009999\.JPEG is still in val/"):
        ImageNetRecord(tmp_path, "val")
    write_archives(tmp_path)
    for split in SPLITS:  # the archives are whole
        assert len(Faked(tmp_path, split)) == len(FAKE.split(split))
        assert RecordReader(Faked(tmp_path, split).records_path).manifest.source == "archive"


def test_too_few_val_images_without_numbers(tmp_path: Path) -> None:
    names = sorted(FAKE.val)[1:]
    write_tree(tmp_path / "val", {name.replace("ILSVRC2012_val", "image"): FAKE.val[name] for name in names})
    write_archives(tmp_path, imagenet.DEVKIT)
    with pytest.raises(SourceError, match=r"there are 9 validation images, but the ground truth .* 10 lines"):
        Faked(tmp_path, "val")


def test_a_skipped_val_image_does_not_move_the_labels(tmp_path: Path, extracted: Path) -> None:
    broken = sorted(FAKE.val)[4]
    write_tree(tmp_path / "val", {**FAKE.val, broken: b"broken"})
    write_archives(tmp_path, imagenet.DEVKIT)
    dataset = Faked(tmp_path, "val", on_error="skip", allow_empty=True)
    expected = [sample for sample in ImageNet(extracted, "val").samples if not sample[0].endswith(broken)]
    assert [(Path(path).name, dataset.wnids[label]) for path, label in dataset.samples] == [
        (Path(path).name, Path(path).parts[-2]) for path, _ in expected
    ]


META = "ILSVRC2012_devkit_t12/data/meta.mat"
TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"


@pytest.mark.parametrize(
    ("sidecars", "message"),
    [
        ({"meta.bin": b"\x80\x04."}, "meta.bin is not what"),
        ({META: b""}, f"has no {TRUTH}"),
        ({**imagenet.devkit_files(FAKE), META: b"no mat"}, "not ImageNet's list"),
        # 6 is there, but an inner node.
        ({**imagenet.devkit_files(FAKE), TRUTH: b"1\n6\n"}, "names a class that .* does not have: 6"),
    ],
)
def test_a_broken_devkit_is_said(sidecars: dict[str, bytes], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        parse_meta(sidecars)


def test_meta_bin_with_something_else_in_it(tmp_path: Path) -> None:
    for content in ([1, 2, 3], ({"n1": 5}, []), ({"n1": ("a",)}, [1]), "text"):
        torch.save(content, tmp_path / "meta.bin")
        with pytest.raises(SourceError, match=r"meta\.bin is not what"):
            read_meta(tmp_path)


def test_cut_meta_mat_at_every_place() -> None:
    """Whatever scipy makes of a damaged file is one error, never another exception or a hang."""
    sidecars = imagenet.devkit_files(FAKE)
    for length in range(0, len(sidecars[META]), 7):
        with contextlib.suppress(SourceError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_meta({**sidecars, META: sidecars[META][:length]})


@pytest.mark.parametrize("split", SPLITS)
def test_the_terms_error_is_the_recipe(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECORDZOO_MIRROR", raising=False)
    with pytest.raises(TermsError) as caught:
        ImageNetRecord(tmp_path / "data", split, download=True)
    for part in (
        "1. ",
        "https://image-net.org/challenges/LSVRC/2012/2012-downloads.php",
        "ILSVRC2012_img_train.tar (147,897,477,120 bytes",
        f"recordzoo prepare imagenet --root {tmp_path}/data",
        "--accept-terms",
        "RECORDZOO_MIRROR",
    ):
        assert part in str(caught.value)
    assert "{" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["mirror", "terms"])
def test_download(way: str, tmp_path: Path) -> None:
    with FileServer({f"imagenet/{name}": data for name, data in ARCHIVES.items()}) as server:
        files = imagenet.imagenet.remote_files(lambda name: f"{server.url}/imagenet/{name}")

        class Record(ImageNetRecord):
            raw_files = tuple(dataclasses.replace(file, needs_terms=True) for file in files)

        options = {"mirror": server.url} if way == "mirror" else {"accept_terms": True}
        assert len(Record(tmp_path, "train", download=True, **options)) == 20
        assert {request.path.lstrip("/") for request in server.log} == {f"imagenet/{imagenet.TRAIN_ARCHIVE}"}
        val = Record(tmp_path, "val", download=True, **options)
        assert {request.path.lstrip("/") for request in server.log} == {f"imagenet/{name}" for name in ARCHIVES}
        assert val.classes[0] == ("tench", "Tinca tinca")
        assert Record(tmp_path, "train").classes[0] == ("tench", "Tinca tinca")  # the development kit came since


DEVKIT = {imagenet.DEVKIT: imagenet.imagenet.files[imagenet.DEVKIT]}
KAGGLE = FAKE.kaggle_files()
SOLUTION = {"LOC_val_solution.csv": KAGGLE["LOC_val_solution.csv"]}


def without(*names: str) -> dict[str, bytes]:
    """Return Kaggle's files but some, by what their names begin with."""
    return {name: data for name, data in KAGGLE.items() if not name.startswith(names)}


def write_trees(root: Path) -> None:
    for split in SPLITS:
        FAKE.write_tree(root, split)


def write_kaggle_with_sorted_val(root: Path) -> None:
    images = imagenet.KAGGLE_IMAGES
    write_tree(root, without(f"{images}val/", "LOC_val_solution.csv"))
    FAKE.write_tree(root / images, "val")


def write_flat_val(root: Path, more: Mapping[str, bytes]) -> None:
    """Write the training images in their folders, the others in one, and what says the labels of these."""
    FAKE.write_tree(root, "train")
    write_tree(root / "val", FAKE.val)
    write_tree(root, more)
    if not more:
        FAKE.write_meta_bin(root)


def write_shards(root: Path) -> None:
    for split in SPLITS:
        FAKE.write_parquet(root, split)


FORMS: dict[str, Callable[[Path], object]] = {
    "official archives": lambda root: write_tree(root, imagenet.imagenet.files),
    "sorted trees alone": write_trees,
    "Kaggle's zip": lambda root: write_tree(root, {imagenet.KAGGLE_ARCHIVE: zipped(KAGGLE)}),
    "Kaggle's folder": lambda root: write_tree(root, KAGGLE),
    "Kaggle's folder, val sorted": write_kaggle_with_sorted_val,
    "flat val with solutions": lambda root: write_flat_val(root, SOLUTION),
    "flat val with the development kit": lambda root: write_flat_val(root, DEVKIT),
    "flat val with meta.bin": lambda root: write_flat_val(root, {}),
    "parquet": write_shards,
}

HAS_SYNONYMS = (
    *("official archives", "flat val with the development kit", "flat val with meta.bin"),
    *(form for form in FORMS if form.startswith("Kaggle")),
)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_torchvisions_tree(form: str, extracted: Path, tmp_path: Path) -> None:
    FORMS[form](tmp_path)
    kind = Faked if form == "official archives" else ImageNetRecord
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


def test_a_partly_downloaded_form_gives_its_split_only(tmp_path: Path) -> None:
    FAKE.write_parquet(tmp_path / "data", "val")
    assert len(ImageNetRecord(tmp_path, "val")) == len(FAKE.val)
    with pytest.raises(NotPreparedError, match=r"ILSVRC/Data/CLS-LOC/train/, imagenet-obj.*\.zip, train-\*\.parquet"):
        ImageNetRecord(tmp_path, "train")


HEAD = b"ImageId,PredictionString\n"
CUT = KAGGLE["LOC_val_solution.csv"].rpartition(b"ILSVRC")[0]


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        (HEAD, "nothing that says which class each image has"),
        (CUT, "do not say the class of 1 image: ILSVRC2012_val_0"),
        (HEAD + b"ILSVRC2012_val_00000001,7 1 2 3 4\n", r"solution\.csv, line 2: not an image"),
        (b"\xff\xfe\0\n", r"LOC_val_solution\.csv, line 1"),
    ],
)
def test_a_broken_list_of_solutions_is_said(solution: bytes, message: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {**KAGGLE, "LOC_val_solution.csv": solution})
    with pytest.raises(SourceError, match=message):
        ImageNetRecord(tmp_path, "val")


def test_flat_val_of_kaggle_without_lists(tmp_path: Path) -> None:
    write_tree(tmp_path, without("LOC_"))
    with pytest.raises(NotPreparedError, match=r"Kaggle's LOC_val_solution\.csv \(only they say which class"):
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
        (lambda path: parquet.write_table(pyarrow.table({"text": ["a"]}), path), "is no whole shard"),
        (lambda path: rewrite(path, lambda rows: [row.update(image=b"bytes") for row in rows]), "is no whole shard"),
        (lambda path: rewrite(path, lambda rows: rows[1].update(label=17)), "with the label 17 is not called as in"),
        (lambda path: rewrite(path, lambda rows: rows[1].update(label=-1)), "with the label -1 is not called as in"),
        (lambda path: rewrite(path, lambda rows: rows[1]["image"].update(path=None)), "the image None with the label"),
        (lambda path: rewrite(path, lambda rows: rows[1]["image"].update(bytes=None)), "is no whole shard"),
    ],
)
def test_a_broken_shard_is_said(damage: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    damage(FAKE.write_parquet(tmp_path, "val")[1])
    with pytest.raises(SourceError, match=f"validation-00001-of-00003.parquet.*{message}|{message}"):
        ImageNetRecord(tmp_path, "val")


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
    assert f"Classes without images: {', '.join(missing[:10])} and 985 more." in said[0]
    assert "has 10 images, not 50,000." in RecordReader(dataset.records_path).manifest.metadata["incomplete"]
    assert "has 10 images, not 50,000." in run("info", dataset.records_path, cwd=tmp_path).stdout


def test_missing_val_images_do_not_move_labels(
    tmp_path: Path, extracted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside a development kit with its true hash: the authors' own file, but not their images."""
    gone = sorted(FAKE.val)[3]
    write_tree(tmp_path / "val", {name: data for name, data in FAKE.val.items() if name != gone})
    write_tree(tmp_path, DEVKIT)
    entry = facts_of(imagenet.imagenet)
    monkeypatch.setattr(catalogue, "entry", lambda name: entry)
    ours, theirs = ImageNetRecord(tmp_path, "val"), ImageNet(extracted, "val")
    expected = [Path(path).parts[-2:] for path, _ in theirs.samples if not path.endswith(gone)]
    assert [Path(path).parts[-2:] for path, _ in ours.samples] == expected
    assert [ours.wnids[label] for label in ours.targets] == [wnid for wnid, _ in expected]
    assert "has 9 images, not 50,000." in caplog.text
