"""Rendered SST2 by code: black text on white, in a folder for each split and in it one for each class."""

import numpy as np
from PIL import Image, ImageDraw

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILE_SAMPLES
from tests.fakes.pictures import encoded
from tests.fakes.scale import SIDE, scaled


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {}
    for split, count in (("train", 3), ("valid", 1), ("test", 2)):
        for name in ("positive", "negative"):  # not in the order of labels
            for number in rng.permutation(scaled(12))[: scaled(count)].tolist():
                image = Image.new("L" if number % 3 == 0 else "RGB", (SIDE * (44 + number % 20), SIDE * 44), "white")
                ImageDraw.Draw(image).text((2, 2), f"{name[:3]} {number}", fill="black")
                files[f"rendered-sst2/{split}/{name}/{number}.png"] = encoded(image, "png")
    files["rendered-sst2/train/positive/notes.txt"] = b"no image"
    arguments = ({}, {"split": "val"}, {"split": "test"})
    bad = ({"split": "valid"}, {"split": None})
    case = Case("RenderedSST2Record", arguments, bad, FILE_SAMPLES)
    return Fake("rendered_sst2", {"rendered-sst2.tgz": tar(files)}, [case])


FAKES = (_build(),)
