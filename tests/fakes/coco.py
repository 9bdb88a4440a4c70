"""COCO's val2017 by code: photographs, one of them grey, and annotation files that list them in another order."""

import copy
import json
from typing import Any

import numpy as np
from numpy.random import Generator

from tests.fakes.fake import Case, OtherFile, fake, zipped
from tests.fakes.mutations import IDS, change
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import SIDE, scaled

_SIZE = (30, 24)
_CATEGORIES = ((1, "person"), (18, "dog"), (90, "toothbrush"))  # ids have gaps
_IDS = (785, 139, 632, 285, 724, *range(1001, 996 + scaled(5)))


def _images() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    files = {f"val2017/{id:012d}.jpg": jpeg(picture(rng, *_SIZE)) for id in sorted(_IDS)}
    files["val2017/000000000632.jpg"] = jpeg(picture(rng, *_SIZE).convert("L"))
    files["val2017/000000999999.jpg"] = jpeg(picture(rng, 9, 9))  # in no annotation file
    files["__MACOSX/val2017/._000000000139.jpg"] = b"what macOS leaves"
    return files


def document(annotations: list[dict[str, Any]], ids: tuple[int, ...] = _IDS) -> dict[str, Any]:
    width, height = (side * SIDE for side in _SIZE)
    return {
        "info": {"year": 2017},
        "licenses": [{"id": 1, "name": "a license"}],
        "images": [{"id": id, "file_name": f"{id:012d}.jpg", "width": width, "height": height} for id in ids],
        "annotations": annotations,
    }


def _instances(ids: tuple[int, ...] = _IDS) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    annotations: list[dict[str, Any]] = []
    for number, id in enumerate([*ids[:-1], *ids[:2]]):  # the last image has none, the first two have two
        x, y, width, height = (float(value) for value in rng.integers(1, 10, 4))
        corners = [x, y, x + width, y, x + width, y + height]
        crowd = {"counts": [100, 20, 600], "size": [24, 30]}
        annotations.append(
            {
                "id": 900 - number,
                "image_id": id,
                "category_id": _CATEGORIES[number % 3][0],
                "bbox": [x, y, width, height],
                "area": width * height / 2,
                "iscrowd": int(number == 2),
                "segmentation": crowd if number == 2 else [corners],
            }
        )
    return document(annotations, ids) | {"categories": [{"id": id, "name": name} for id, name in _CATEGORIES]}


def _captions() -> dict[str, Any]:
    numbered = [(id, number) for number in range(2) for id in _IDS]
    return document(
        [{"id": 10 + place, "image_id": id, "caption": f"Über {id}, {n}."} for place, (id, n) in enumerate(numbered)]
    )


def _keypoints() -> dict[str, Any]:
    found = _instances()
    people = [each | {"keypoints": [3, 4, 2], "num_keypoints": 1} for each in found["annotations"][::3]]
    return found | {"annotations": people}


def _file(name: str, found: dict[str, Any]) -> OtherFile:
    return OtherFile(name, json.dumps(found).encode())


INSTANCES = _file("instances_val2017.json", _instances())
CAPTIONS = _file("captions_val2017.json", _captions())
KEYPOINTS = _file("person_keypoints_val2017.json", _keypoints())
FEW = _file("mine.json", _instances((724, 139)))


def _with_other_labels(coco: Any) -> Any:
    changed = copy.deepcopy(coco)
    for each in changed.dataset["annotations"]:
        each["category_id"], each["caption"] = 1, "changed"
    changed.createIndex()
    return changed


_MUTATIONS = {**IDS, "coco assigned": change("coco", _with_other_labels)}
_BAD = ({"annFile": "/nowhere/instances_val2018.json"}, {"transforms": print, "transform": print})
_DIFFERENCES = (
    (
        r"^\[Errno 2\] No such file",
        r": the directory cannot be listed",
        "torchvision looks for an image when it is read, ours for the folder when the dataset is opened",
    ),
)


def _case(name: str, *files: OtherFile) -> Case:
    return Case(
        name,
        [{"annFile": file} for file in files],
        _BAD,
        _MUTATIONS,
        differences=_DIFFERENCES,
        folder="val2017",
        optional=("annFile",),
    )


_CASES = (_case("CocoDetectionRecord", INSTANCES, KEYPOINTS, FEW), _case("CocoCaptionsRecord", CAPTIONS))


@fake("coco", *_CASES)
def coco(_: Generator) -> dict[str, bytes]:
    """Photographs, and a zip of annotation files."""
    annotations = {f"annotations/{file.name}": file.data for file in (INSTANCES, KEYPOINTS, CAPTIONS)}
    annotations = {"annotations/instances_train2017.json": b"of another part", **annotations}
    return {"val2017.zip": zipped(_images()), "annotations_trainval2017.zip": zipped(annotations)}
