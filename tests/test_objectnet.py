"""ObjectNet: the zip is refused with the command that extracts it; half a tree is noticed; labels of ImageNet."""

import shutil
from pathlib import Path

import pytest
from PIL import Image

from recordzoo import ObjectNetRecord
from recordzoo.errors import DownloadError, NotPreparedError, SourceError
from tests.fakes.objectnet import IMAGENET_LABELS, TOP
from tests.fakes.objectnet import objectnet as FAKE


@pytest.mark.parametrize("download", [False, True])
def test_the_zip_alone_is_refused_with_the_command_that_extracts_it(tmp_path: Path, download: bool) -> None:
    FAKE.write_archive(tmp_path)
    shutil.rmtree(tmp_path / TOP)
    with pytest.raises(SourceError, match=r"is encrypted; extract it first: .* unzip -P objectnetisatestset"):
        ObjectNetRecord(tmp_path, download=download)


def test_what_cannot_be_downloaded_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match=r"looked for .*objectnet-1\.0/images/"):
        ObjectNetRecord(tmp_path)
    with pytest.raises(DownloadError, match=r"(?s)https://objectnet\.dev/.*unzip -P .*prepare objectnet --root"):
        ObjectNetRecord(tmp_path, download=True)


def test_half_a_tree_is_noticed(tmp_path: Path) -> None:
    FAKE.write_archive(tmp_path)
    shutil.rmtree(tmp_path / TOP / "images" / "tie")
    with pytest.raises(SourceError, match="1 of 4 folders have no image, the first is tie"):
        ObjectNetRecord(tmp_path)


def test_labels_of_imagenet_and_the_border(tmp_path: Path) -> None:
    FAKE.write_archive(tmp_path)
    dataset = ObjectNetRecord(tmp_path, "imagenet")
    assert {dataset.classes[label] for label in dataset.targets} == set(IMAGENET_LABELS)
    for label in set(dataset.targets):
        assert dataset.imagenet_labels[label] == IMAGENET_LABELS[dataset.classes[label]]
    image: Image.Image = dataset[0][0]
    assert image.getpixel((0, 5)) == (255, 0, 0)
    inner = ObjectNetRecord.without_border(image)
    assert inner.size == (image.width - 2, image.height - 2)
    assert inner.getpixel((0, 5)) == image.getpixel((1, 6))
