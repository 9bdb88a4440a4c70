"""Trees that lack a list, or whose lists contradict them: what is there opens, and errors say what is wrong."""

import json
from pathlib import Path

import pytest
import torchvision

import recordzoo
from tests.contract import FAKES


def write_tree(dataset: str, root: Path) -> Path:
    (fake,) = [each for each in FAKES if each.dataset == dataset]
    return fake.write_tree(root)


@pytest.mark.parametrize(
    ("dataset", "kind", "missing", "split"),
    [
        ("dtd", "DTDRecord", "dtd/dtd/labels/val1.txt", "val"),
        ("food101", "Food101Record", "food-101/meta/test.json", "test"),
        ("clevr", "CLEVRClassificationRecord", "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json", "val"),
    ],
)
def test_a_split_whose_list_was_missing(dataset: str, kind: str, missing: str, split: str, tmp_path: Path) -> None:
    write_tree(dataset, tmp_path)
    (tmp_path / missing).unlink()
    assert len(getattr(recordzoo, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.NotPreparedError, match=rf"{dataset}\.records has no split '{split}.*refresh"):
        getattr(recordzoo, kind)(tmp_path, split)


def test_a_scene_that_is_not_described(tmp_path: Path) -> None:
    path = write_tree("clevr", tmp_path) / "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json"
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, "scenes": content["scenes"][1:]}))
    with pytest.raises(recordzoo.errors.SourceError, match=r"CLEVR_val_scenes\.json has no scene for CLEVR_val_"):
        recordzoo.CLEVRClassificationRecord(tmp_path)
    path.write_text('{"questions": []}')
    with pytest.raises(recordzoo.errors.SourceError, match=r"CLEVR_val_scenes\.json is not a file of CLEVR's scenes"):
        recordzoo.CLEVRClassificationRecord(tmp_path)


def test_a_scene_whose_class_is_not_listed(tmp_path: Path) -> None:
    path = write_tree("sun397", tmp_path) / "SUN397/ClassName.txt"
    path.write_text(path.read_text().replace("/b/bakery-hall\n", ""))
    with pytest.raises(
        recordzoo.errors.SourceError, match=r"sun_\w+\.jpg lies in a folder that SUN397/ClassName.txt does not"
    ):
        recordzoo.SUN397Record(tmp_path)


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
    ],
)
def test_a_listed_image_that_is_missing(dataset: str, kind: str, image: str, tmp_path: Path) -> None:
    """torchvision opens such a tree; `differences` says so."""
    next(path for path in write_tree(dataset, tmp_path).rglob("*.jpg") if path.match(image)).unlink()
    assert len(getattr(torchvision.datasets, kind)(tmp_path)) > 0
    with pytest.raises(recordzoo.errors.SourceError, match=rf"1 images that the lists name are missing .*{image}"):
        getattr(recordzoo, f"{kind}Record")(tmp_path)
    assert "A tree without an image that a list names is refused." in " ".join(recordzoo.info(dataset).differences)
