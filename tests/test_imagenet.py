import contextlib
import functools
import logging
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torchvision.datasets import ImageNet
from torchvision.models._meta import _IMAGENET_CATEGORIES

from recordzoo.datasets.imagenet import ImageNetRecord
from recordzoo.datasets.imagenet_forms import parse_meta, read_meta
from recordzoo.errors import NotPreparedError, SourceError, TermsError
from recordzoo.records.reader import RecordReader
from tests.fakes import imagenet
from tests.fakes.fake import tar
from tests.fakes.server import FileServer

FAKE = imagenet.build()
SPLITS = ("train", "val")


def record_class(folder: Path) -> type[ImageNetRecord]:
    """Make a class whose raw files are the fake archives in a folder."""

    class Record(ImageNetRecord):
        raw_files = (*imagenet.remote_files(folder, "train"), *imagenet.remote_files(folder, "val"))

    return Record


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    FAKE.write_train_archive(folder)
    FAKE.write_val_archive(folder)
    FAKE.write_devkit(folder)
    return folder


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root as torchvision leaves it, which torchvision itself then opens without archives."""
    folder = tmp_path_factory.mktemp("extracted")
    for split in SPLITS:
        FAKE.write_tree(folder, split)
    FAKE.write_meta_bin(folder)
    return folder


def link_archives(archives: Path, root: Path, *names: str) -> None:
    for name in names or (imagenet.TRAIN_ARCHIVE, imagenet.VAL_ARCHIVE, imagenet.DEVKIT):
        os.link(archives / name, root / name)


_opened: list[str] = []
_watching: list[bool] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook (it cannot be removed): note files that are opened for writing, or made in other ways."""
    if _watching and event in ("open", "os.rename", "os.link", "os.symlink", "shutil.copyfile"):
        path, *more = arguments
        is_write = event != "open" or (
            len(more) > 1 and isinstance(more[1], int) and more[1] & (os.O_WRONLY | os.O_RDWR)
        )
        if is_write and isinstance(path, str | os.PathLike):
            _opened.append(os.fspath(path))


def test_the_tar_of_tars_makes_no_image_file(archives: Path, tmp_path: Path) -> None:
    link_archives(archives, tmp_path, imagenet.TRAIN_ARCHIVE)
    sys.addaudithook(_watch)
    _watching.append(True)
    try:
        record_class(archives)(tmp_path, workers=1)
    finally:
        _watching.clear()
    assert _opened
    assert not [path for path in _opened if path.lower().endswith((".jpeg", ".jpg", ".png"))]
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert not [name for name in made if name.lower().endswith((".jpeg", ".tar.tmp"))]
    assert {name.partition("/")[0] for name in made} <= {
        imagenet.TRAIN_ARCHIVE,
        "imagenet.train.records",
        "imagenet.train.records.lock",
    }


def test_a_broken_devkit_does_not_stop_training(
    archives: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    link_archives(archives, tmp_path, imagenet.TRAIN_ARCHIVE)
    kind = record_class(archives)
    kind(tmp_path)
    (tmp_path / "meta.bin").write_bytes(b"not what torch saves")
    assert kind(tmp_path).classes[0] == ("n01440764",)
    assert "meta.bin is not what torchvision's ImageNet writes" in caplog.text


def test_names_stay_with_the_record_set(archives: Path, tmp_path: Path, extracted: Path) -> None:
    link_archives(archives, tmp_path)
    kind = record_class(archives)
    expected = kind(tmp_path).classes
    (tmp_path / imagenet.DEVKIT).unlink()
    assert kind(tmp_path).classes == expected == ImageNet(extracted, "train").classes


@functools.cache
def thousand() -> imagenet.FakeImageNet:
    """All classes, with a small picture each."""
    return imagenet.build(1000, 1, size=(8, 8))


def test_a_thousand_classes_have_torchvisions_names(tmp_path: Path) -> None:
    fake = thousand()
    fake.write_train_archive(tmp_path)
    fake.write_val_archive(tmp_path)
    fake.write_devkit(tmp_path)
    (tmp_path / "alone").mkdir()
    os.link(tmp_path / imagenet.TRAIN_ARCHIVE, tmp_path / "alone" / imagenet.TRAIN_ARCHIVE)
    dataset = record_class(tmp_path)(tmp_path / "alone")
    assert dataset.classes == [(name,) for name in _IMAGENET_CATEGORIES]
    assert dataset.class_to_idx["tench"] == 0
    last = {name: label for label, (name,) in enumerate(dataset.classes)}
    assert dataset.class_to_idx == last


def test_a_thousand_classes_without_devkit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = thousand()
    fake.write_tree(tmp_path, "train")
    datasets = [ImageNetRecord(tmp_path), ImageNetRecord(tmp_path)]
    said = [record.levelname for record in caplog.records if "one name" in record.getMessage()]
    assert said == ["WARNING"]
    dataset = datasets[1]
    assert len(pickle.dumps(dataset)) < 2048
    assert dataset.classes == [(name,) for name in _IMAGENET_CATEGORIES]
    assert len(dataset.class_to_idx) == len(set(_IMAGENET_CATEGORIES))
    assert len(pickle.dumps(dataset)) < 2048
    twin = pickle.loads(pickle.dumps(dataset))
    assert (twin.classes, twin.class_to_idx) == (dataset.classes, dataset.class_to_idx)
    dataset.classes[0] = ("fish",)
    assert pickle.loads(pickle.dumps(dataset)).classes[0] == ("fish",)
    assert [record.levelname for record in caplog.records if "one name" in record.getMessage()] == said


@pytest.mark.parametrize("name", [imagenet.DEVKIT, "meta.bin"])
def test_a_late_devkit_is_read_once(
    name: str,
    archives: Path,
    extracted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    link_archives(archives, tmp_path, imagenet.TRAIN_ARCHIVE)
    kind = record_class(archives)
    with caplog.at_level(logging.INFO, "recordzoo"):
        without = kind(tmp_path)
    (said,) = [record.getMessage() for record in caplog.records if "one name" in record.getMessage()]
    assert imagenet.DEVKIT in said
    assert without.classes == [(wnid,) for wnid in sorted(FAKE.train)]
    assert without.class_to_idx == without.wnid_to_idx
    os.link((archives if name == imagenet.DEVKIT else extracted) / name, tmp_path / name)
    expected = kind(tmp_path).classes
    assert expected == ImageNet(extracted, "train").classes
    assert kind(tmp_path).class_to_idx["crane"] == 4
    monkeypatch.setattr("recordzoo.datasets.imagenet_forms.parse_meta", None)  # any parsing fails
    assert kind(tmp_path).classes == expected
    assert pickle.loads(pickle.dumps(kind(tmp_path).classes)) == expected


def test_val_archive_without_devkit(archives: Path, tmp_path: Path) -> None:
    link_archives(archives, tmp_path, imagenet.VAL_ARCHIVE)
    with pytest.raises(NotPreparedError) as caught:
        ImageNetRecord(tmp_path, "val")
    for part in (
        "ILSVRC2012_img_val.tar (the images are there)",
        imagenet.DEVKIT,
        "meta.bin",
        "missing",
        "image-net.org",
    ):
        assert part in str(caught.value)


def test_what_an_interrupted_torchvision_leaves_is_not_taken(archives: Path, tmp_path: Path) -> None:
    train = FAKE.write_tree(tmp_path, "train")
    (train / "n01443537.tar").write_bytes(tar(FAKE.train["n01443537"], compress=False))
    with pytest.raises(NotPreparedError, match=r"n01443537\.tar is still in train/"):
        ImageNetRecord(tmp_path, "train")
    val = FAKE.write_tree(tmp_path, "val")
    (val / "ILSVRC2012_val_00009999.JPEG").write_bytes(b"x")
    with pytest.raises(NotPreparedError, match=r"ILSVRC2012_val_00009999\.JPEG is still in val/"):
        ImageNetRecord(tmp_path, "val")
    link_archives(archives, tmp_path)
    kind = record_class(archives)
    for split in SPLITS:  # the archives are whole
        assert len(kind(tmp_path, split)) == len(FAKE.split(split))
        assert RecordReader(kind(tmp_path, split).records_path).manifest.source == "archive"


def test_too_few_val_images_without_numbers(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    for name in sorted(FAKE.val)[1:]:
        (tmp_path / "val" / name.replace("ILSVRC2012_val", "image")).write_bytes(FAKE.val[name])
    FAKE.write_devkit(tmp_path)
    with pytest.raises(SourceError, match=r"there are 9 validation images, but the ground truth .* 10 lines"):
        record_class(archives)(tmp_path, "val")


def test_a_skipped_val_image_does_not_move_the_labels(archives: Path, tmp_path: Path, extracted: Path) -> None:
    (tmp_path / "val").mkdir()
    broken = sorted(FAKE.val)[4]
    for name, data in FAKE.val.items():
        (tmp_path / "val" / name).write_bytes(b"broken" if name == broken else data)
    FAKE.write_devkit(tmp_path)
    dataset = record_class(archives)(tmp_path, "val", on_error="skip", allow_empty=True)
    expected = [sample for sample in ImageNet(extracted, "val").samples if not sample[0].endswith(broken)]
    assert [(Path(path).name, dataset.wnids[label]) for path, label in dataset.samples] == [
        (Path(path).name, Path(path).parts[-2]) for path, _ in expected
    ]


@pytest.mark.parametrize(
    ("sidecars", "message"),
    [
        ({"meta.bin": b"\x80\x04."}, "meta.bin is not what"),
        ({"meta.bin": b""}, "meta.bin is not what"),
        ({"ILSVRC2012_devkit_t12/data/meta.mat": b""}, "has no ILSVRC2012_devkit_t12/data/ILSVRC2012_validation"),
        ({**imagenet.devkit_files(FAKE), "ILSVRC2012_devkit_t12/data/meta.mat": b"no mat"}, "not ImageNet's list"),
        (
            {
                **imagenet.devkit_files(FAKE),
                "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt": b"1\n6\n",
            },
            "names a class that .* does not have: 6",  # 6 is there, but an inner node
        ),
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
    name = "ILSVRC2012_devkit_t12/data/meta.mat"
    for length in range(0, len(sidecars[name]), 7):
        with contextlib.suppress(SourceError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_meta({**sidecars, name: sidecars[name][:length]})


@pytest.mark.parametrize("split", SPLITS)
def test_the_terms_error_is_the_recipe(split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECORDZOO_MIRROR", raising=False)
    with pytest.raises(TermsError) as caught:
        ImageNetRecord(tmp_path / "data", split, download=True)
    text = str(caught.value)
    for part in (
        "1. ",
        "https://image-net.org/challenges/LSVRC/2012/2012-downloads.php",
        "ILSVRC2012_img_train.tar (147,897,477,120 bytes",
        "ILSVRC2012_img_val.tar (6,744,924,160 bytes",
        "ILSVRC2012_devkit_t12.tar.gz",
        f"into {tmp_path}/data\n",
        f"recordzoo prepare imagenet --root {tmp_path}/data",
        "accept_terms=True",
        "--accept-terms",
        "RECORDZOO_MIRROR",
    ):
        assert part in text
    assert "{" not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["mirror", "terms"])
def test_download(way: str, archives: Path, tmp_path: Path) -> None:
    names = (imagenet.TRAIN_ARCHIVE, imagenet.VAL_ARCHIVE, imagenet.DEVKIT)
    contents = {f"imagenet/{name}": (archives / name).read_bytes() for name in names}
    with FileServer(contents) as server:
        url = server.url

        class Record(ImageNetRecord):
            raw_files = (
                *imagenet.remote_files(archives, "train", lambda name: f"{url}/imagenet/{name}", needs_terms=True),
                *imagenet.remote_files(archives, "val", lambda name: f"{url}/imagenet/{name}", needs_terms=True),
            )

        options = {"mirror": url} if way == "mirror" else {"accept_terms": True}
        assert len(Record(tmp_path, "train", download=True, **options)) == 20
        assert {request.path.lstrip("/") for request in server.log} == {f"imagenet/{imagenet.TRAIN_ARCHIVE}"}
        val = Record(tmp_path, "val", download=True, **options)
        assert {request.path.lstrip("/") for request in server.log} == set(contents)
        assert val.classes[0] == ("tench", "Tinca tinca")
        assert Record(tmp_path, "train").classes[0] == ("tench", "Tinca tinca")  # the development kit came since


def test_preparing_from_archives_imports_no_torch(archives: Path, tmp_path: Path) -> None:
    link_archives(archives, tmp_path)
    code = (
        "import sys\nfrom pathlib import Path\nfrom recordzoo.recipes.declared import dataset_recipe\n"
        "from recordzoo.preparing.preparation import ensure\n"
        "if __name__ == '__main__':\n"
        "    for part in ('train', 'val'):\n"
        "        ensure(dataset_recipe('imagenet', part), Path(sys.argv[1]), check_hash=False, workers=1)\n"
        "    assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert len(ImageNetRecord(tmp_path, "val")) == 10
