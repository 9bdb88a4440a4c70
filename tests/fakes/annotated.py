"""Directories of images with COCO JSON, YOLO labels or masks, in the layouts of the tools that write them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.fakes.folder import write_tree

CATEGORIES = ((1, "person"), (3, "car"), (18, "dog"))

YAML = """# written by a tool
path: ../datasets/ours
train: images/train
val: images/val
test:  # none

nc: 3
names:
  0: person
  1: no
  2: dog
"""


def coco_document(first: int, count: int) -> dict[str, Any]:
    """Build a JSON of instances: image i has i % 4 objects; ids are not in order, and one object is a crowd."""
    numbers = [first + (number * 7) % count for number in range(count)]
    images = [{"id": n, "file_name": f"{n:012d}.jpg", "height": 60, "width": 80} for n in numbers]
    objects = []
    for n in reversed(numbers):
        for k in range(n % 4):
            x, y, w, h = 1.5 + k, 2.25 + n % 5, 10.123456789 + k, 20.5
            polygons: Any = [[x, y, x + w, y, x + w, y + h, x, y + h]]
            crowd = {"counts": [60 * 80 - 300, 300], "size": [60, 80]}
            objects.append(
                {
                    "id": n * 10 + k,
                    "image_id": n,
                    "category_id": CATEGORIES[(n + k) % 3][0],
                    "bbox": [x, y, w, h],
                    "area": w * h,
                    "segmentation": crowd if k == 2 else polygons,
                    "iscrowd": int(k == 2),
                    "caption": 'é "]} ☃',
                }
            )
    return {
        "info": {"description": "ours", "n": [1, {"annotations": []}]},
        "images": images,
        "annotations": objects,
        "categories": [{"id": n, "name": name, "supercategory": "x"} for n, name in reversed(CATEGORIES)],
    }


def write_json(path: Path, document: Mapping[str, Any], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, **options))


def write_coco(root: Path) -> dict[str, dict[str, Any]]:
    """Write COCO's own layout: `annotations/` beside `train2017/` and `val2017/`; return the documents."""
    documents = {}
    for number, part in enumerate(("train2017", "val2017")):
        documents[part] = coco_document(100 * number + 1, 9 - 4 * number)
        write_json(root / f"annotations/instances_{part}.json", documents[part], ensure_ascii=number == 0)
        write_json(root / f"annotations/captions_{part}.json", {"images": [], "annotations": [{"image_id": 1}]})
        write_images(root, [f"{part}/{image['file_name']}" for image in documents[part]["images"]], (80, 60))
    return documents


def write_images(root: Path, names: Sequence[str], size: tuple[int, int] = (5, 6)) -> None:
    """Write JPEGs of a width and a height."""
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        noise(number, size[1], size[0], 3).save(root / name, "jpeg")


def write_yolo(root: Path, pattern: str = "{kind}/{split}", yaml: str | None = YAML) -> None:
    """Write images and labels; of five images in each split the last has no label file, the fourth an empty one."""
    for split in ("train", "val"):
        images, labels = (pattern.format(kind=kind, split=split) for kind in ("images", "labels"))
        write_images(root, [f"{images}/{n}.jpg" for n in range(5)])
        rows = {
            f"{labels}/{n}.txt": "".join(f"{k} 0.5 0.{n + 1}5 0.25 0.{k + 1}\n" for k in range(n + 1)) for n in range(3)
        }
        write_tree(root, {name: text.encode() for name, text in {**rows, f"{labels}/3.txt": ""}.items()})
    if yaml is not None:
        (root / "data.yaml").write_text(yaml)


def write_masks(root: Path, count: int = 4) -> None:
    for number in range(count):
        write_images(root, [f"images/train/{number}.jpg"])
        mask = np.full((6, 5), number, np.uint8)
        (root / "masks/train").mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(root / f"masks/train/{number}.png")


def write_birds(folder: Path) -> None:
    """Write what docs/guides/boxes-and-masks.md supposes for detection.

    COCO's layout, images of 80x60 with 0 to 3 objects.
    """
    for part, first, count in (("train", 1, 4), ("val", 101, 2)):
        document = coco_document(first, count)
        write_json(folder / f"birds/annotations/instances_{part}.json", document)
        (folder / "birds" / part).mkdir()
        for image in document["images"]:
            noise(image["id"], 60, 80, 3).save(folder / "birds" / part / image["file_name"])


def write_roads(folder: Path) -> None:
    """Write what docs/guides/boxes-and-masks.md supposes for segmentation: two classes and a few pixels without one."""
    for split, count in (("train", 4), ("val", 2)):
        for kind in ("images", "masks"):
            (folder / "roads" / kind / split).mkdir(parents=True)
        for number in range(1, count + 1):
            mask = np.zeros((60, 80), np.uint8)
            mask[10 * number :, 20:35] = 1
            mask[10 * number :, 35:50] = 2
            mask[:2] = 255
            Image.fromarray(mask).save(folder / f"roads/masks/{split}/{number}.png")
            noise(number, 60, 80, 3).save(folder / f"roads/images/{split}/{number}.jpg")


def noise(seed: int, *shape: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))
