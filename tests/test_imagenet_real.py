"""ImageNet-ReaL: the sorted tree of people who have ImageNet, and lists of labels that are none."""

import json
from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import SourceError
from tests.fakes.imagenet_tests import imagenet_real


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return imagenet_real.write_tree(tmp_path)


def test_images_that_torchvision_sorted_into_classes_have_the_same_labels(tree: Path, tmp_path: Path) -> None:
    flat = recordzoo.ImageNetReaLRecord(tree, records_dir=tmp_path / "flat")
    for number, path in enumerate(sorted((tree / "val").iterdir())):
        wnid = path.parent / flat.wnids[number % 3]
        wnid.mkdir(exist_ok=True)
        path.rename(wnid / path.name)
    in_classes = recordzoo.ImageNetReaLRecord(tree)
    assert in_classes.targets == flat.targets
    assert in_classes.samples == flat.samples
    assert in_classes[0][0].tobytes() == flat[0][0].tobytes()


@pytest.mark.parametrize("labels", ["{", "[[1000]]", "[[true]]", "[3]", "7"])
def test_labels_that_are_none(tree: Path, labels: str) -> None:
    (tree / "real.json").write_text(labels)
    with pytest.raises(SourceError, match=r"real\.json is not a list of lists of labels from 0 to 999"):
        recordzoo.ImageNetReaLRecord(tree)


def test_images_without_labels(tree: Path) -> None:
    lists = json.loads((tree / "real.json").read_text())
    (tree / "real.json").write_text(json.dumps(lists[:3]))
    with pytest.raises(SourceError, match="not all of them have labels"):
        recordzoo.ImageNetReaLRecord(tree)
