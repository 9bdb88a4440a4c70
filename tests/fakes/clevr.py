"""CLEVR by code: RGBA images in a folder for each split, and JSON files of scenes for two of them, not in order."""

import functools
import json

import numpy as np

from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import FILES
from tests.fakes.pictures import encoded, picture
from tests.fakes.scale import scaled

COUNTS = {"train": scaled(1) * (3, 10, 4, 7, 3, 6), "val": (5, 3, 8), "test": (4, 9, 3, 5)}


@functools.cache
def _image(rng: np.random.Generator, split: str, number: int) -> bytes:
    return encoded(picture(rng, 24, 16).convert("RGBA"), "PNG")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {
        "CLEVR_v1.0/README.txt": b"not read",
        "CLEVR_v1.0/questions/CLEVR_val_questions.json": b'{"questions": []}',
    }
    for split, counts in COUNTS.items():
        scenes = []
        for number, count in reversed(list(enumerate(counts))):
            name = f"CLEVR_{split}_{number:06d}.png"
            files[f"CLEVR_v1.0/images/{split}/{name}"] = _image(rng, split, number % 20)
            things = [{"shape": "cube", "3d_coords": [1.0, 2.0, 0.7], "pixel_coords": [9, 9, 11.5]}] * count
            relations = {"left": [[] for _ in things], "behind": [[] for _ in things]}
            directions = {"left": [-0.6, -0.7, 0.0]}
            scene = {"image_index": number, "objects": things, "relationships": relations, "image_filename": name}
            scenes.append({**scene, "split": split, "directions": directions})
        if split != "test":
            data = json.dumps({"info": {"split": split, "version": "1.0"}, "scenes": scenes[::2] + scenes[1::2]})
            files[f"CLEVR_v1.0/scenes/CLEVR_{split}_scenes.json"] = data.encode()
    bad = ({"split": "all"}, {"split": None})
    case = Case("CLEVRClassificationRecord", ({}, {"split": "val"}, {"split": "test"}), bad, FILES)
    return Fake("clevr", {"CLEVR_v1.0.zip": zipped(files)}, [case])


FAKES = (_build(),)
