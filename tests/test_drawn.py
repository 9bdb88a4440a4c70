"""Boxes and masks are drawn on the thumbnails of any record set."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recordzoo import RecordReader, RecordWriter
from recordzoo.preview import Thumbnail, make_thumbnail


def shown(path: Path, **fields: object) -> Thumbnail:
    with RecordWriter(path) as writer:
        writer.write({"image": Image.new("RGB", (90, 90), "#808080"), **fields})
    return make_thumbnail(RecordReader(path), "image", 0, (180, 180))


def test_boxes_are_drawn_where_they_are(tmp_path: Path) -> None:
    boxes, labels = np.array([[10, 20, 40, 60], [-50, 5, 500, 80]], np.float32), np.array([3, 3])
    found = shown(tmp_path / "b.records", boxes=boxes, labels=labels)
    assert found.image is not None
    blue = np.argwhere((np.array(found.image) == (0x43, 0x63, 0xD8)).all(-1))
    assert {(40, 20), (120, 80), (10, 90)} <= set(map(tuple, blue.tolist()))  # row, column: twice as large
    assert (80, 50) not in set(map(tuple, blue.tolist()))


def test_a_mask_covers_its_classes(tmp_path: Path) -> None:
    mask = np.zeros((90, 90), np.uint8)
    mask[:45] = 1
    found = shown(tmp_path / "m.records", mask=Image.fromarray(mask))
    assert found.image is not None
    assert found.image.getpixel((90, 150)) == (0x80, 0x80, 0x80)
    assert found.image.getpixel((90, 30)) != (0x80, 0x80, 0x80)


@pytest.mark.parametrize("boxes", [np.zeros((0, 4), np.float32), np.zeros((2, 3), np.float32), np.full((1, 4), np.nan)])
def test_what_cannot_be_drawn_leaves_the_image(tmp_path: Path, boxes: np.ndarray) -> None:
    found = shown(tmp_path / "w.records", boxes=boxes)
    assert found.image is not None
    assert not found.problem
    assert np.array_equal(np.array(found.image), np.full((180, 180, 3), 0x80))
