"""Food-101 by code: class folders, and for each split a JSON file that names the images of each class, unsorted."""

import json

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

CLASSES = ("waffles", "apple_pie", "french_fries", "cup_cakes")  # the real files have an order of their own, too


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {"food-101/README.txt": b"not read", "food-101/images/.DS_Store": b"not an image"}
    listed: dict[str, dict[str, list[str]]] = {"train": {}, "test": {}}
    for name in CLASSES:
        stems = [f"{name}/{number}" for number in rng.permutation(4_000_000)[: scaled(6)].tolist()]
        for stem in stems:
            files[f"food-101/images/{stem}.jpg"] = jpeg(picture(rng, 26, 20))
        listed["train"][name], listed["test"][name] = stems[: scaled(4)], stems[scaled(4) :]
    stem = listed["train"]["apple_pie"][1]
    files[f"food-101/images/{stem}.jpg"] = encoded(picture(rng, 20, 20).convert("L"), "JPEG")
    files[f"food-101/images/apple_pie/._{stem.partition('/')[2]}.jpg"] = b"what macOS leaves"
    files["food-101/meta/classes.txt"] = "".join(f"{name}\n" for name in sorted(CLASSES)).encode()
    for split, stems_of in listed.items():
        files[f"food-101/meta/{split}.json"] = json.dumps(stems_of).encode()
        lines = [f"{stem}\n" for stems in stems_of.values() for stem in stems]
        files[f"food-101/meta/{split}.txt"] = "".join(lines).encode()
    bad = ({"split": "val"}, {"split": None})
    case = Case("Food101Record", ({}, {"split": "test"}), bad, FILES)
    return Fake("food101", {"food-101.tar.gz": tar(files)}, [case])


FAKES = (_build(),)
