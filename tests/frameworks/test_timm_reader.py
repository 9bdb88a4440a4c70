"""Records in timm's `ImageDataset`, by its own function with our names; damage is an error, not another sample."""

from pathlib import Path
from typing import Any

import pytest
from torchvision.datasets import FakeData

from recordzoo import ImageFolderRecord
from recordzoo.errors import ArgumentError
from recordzoo.frameworks.timm import RecordsReader, create_dataset
from tests.fakes.coloured import write_trees
from tests.fakes.imagenet import build

timm_data = pytest.importorskip("timm.data", reason="needs the extra `frameworks`: make frameworks")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trees(tmp_path_factory.mktemp("data"), 8, 4)


# Any: images and labels.
def samples(dataset: Any) -> list[tuple[bytes, int]]:
    return [(image.tobytes(), label) for image, label in dataset]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # timm's reader closes no file
@pytest.mark.parametrize("split", ["train", "validation", "val", "eval"])
def test_the_same_samples_as_from_the_folder(data: Path, split: str) -> None:
    right = timm_data.create_dataset("", root=str(data), split=split)
    found = create_dataset("recordzoo/folder", root=str(data), split=split, class_map="", seed=3, repeats=0)
    assert type(found) is type(right)
    assert sorted(samples(found)) == sorted(samples(right))  # timm sorts numbers within names as numbers
    assert found.filenames(basename=True) == right.filenames(basename=True)
    assert found.filename(1) == right.filename(1)
    assert found.filename(1, absolute=True).endswith(f".records/{right.filename(1)}")


def test_options_of_timm(data: Path) -> None:
    found = create_dataset("recordzoo/folder", str(data), "train", load_bytes=True, target_transform=str)
    right = sorted((data / "train").rglob("*.jpg"))
    assert [found[index] for index in range(8)] == [(path.read_bytes(), path.parent.name) for path in right]
    assert create_dataset("recordzoo/folder", str(data), "train", input_img_mode="L")[0][0].mode == "L"


def test_a_dataset_of_the_catalogue(tmp_path: Path) -> None:
    fake = build(broken_exif=False)
    for split in ("train", "val"):
        fake.write_tree(tmp_path, split)
    for split, name in (("training", "train"), ("validation", "val")):
        found = create_dataset("recordzoo/imagenet", root=str(tmp_path), split=split)
        assert sorted(found.filenames()) == sorted(fake.split(name))
        assert (tmp_path / f"imagenet.{name}.records").is_dir()


def test_names_of_timm_are_left_to_it(data: Path) -> None:
    found = create_dataset("torch/folder", root=str(data), split="train")
    assert type(found) is timm_data.dataset_factory.ImageFolder
    assert len(create_dataset("", root=str(data), split="val")) == 4


def test_damage_is_no_other_sample(tmp_path: Path) -> None:
    """timm would take the next sample for one that raises an OSError."""
    records = ImageFolderRecord(write_trees(tmp_path, 8, 1) / "train").records_path
    shard = next(records.glob("*.lmdb"))
    content = bytearray(shard.read_bytes())
    place = content.index((tmp_path / "train" / "0" / "02.jpg").read_bytes()) + 50
    content[place] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(content)
    found = create_dataset("recordzoo/folder", root=str(tmp_path), split="train")
    with pytest.raises(RuntimeError, match=r"0/02\.jpg") as caught:
        found[1]
    assert not isinstance(caught.value, OSError)
    assert found[0][1] == 0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("folder", {"split": "tets"}, "has no split 'tets'; it has train, val"),
        ("imagnet", {}, "Did you mean imagenet"),
        ("imagenet", {"split": "all"}, "imagenet has no split 'all'; it has train, val"),
        ("cifar10", {}, "CIFAR10Record has no argument split"),
        ("folder", {"class_map": "classes.txt"}, "has the labels of its records; leave it out"),
    ],
)
def test_what_cannot_be_says_so(data: Path, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        create_dataset(f"recordzoo/{name}", root=str(data), **options)


def test_what_has_no_files_says_so(data: Path) -> None:
    changed = ImageFolderRecord(data / "train")
    changed.samples.pop()
    for dataset, reason in ((FakeData(), "makes its samples itself"), (changed, "were changed")):
        with pytest.raises(ArgumentError, match=f"{reason}.* Pass the dataset itself to timm.data.create_loader"):
            RecordsReader(dataset)
