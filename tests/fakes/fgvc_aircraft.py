"""FGVC-Aircraft by code: numbered photographs, and for each split three lists of `<number> <class with spaces>`."""

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled

LEVELS = {
    "variant": ("707-320", "737-200", "A300B4", "Spitfire", "Tu-134"),
    "family": ("Boeing 707", "Boeing 737", "A300", "Spitfire", "Tu-134"),
    "manufacturer": ("Boeing", "Boeing", "Airbus", "Supermarine", "Tupolev"),
}
FILE_OF = {"variant": "variants", "family": "families", "manufacturer": "manufacturers"}
FOLDER = "fgvc-aircraft-2013b"


def _build() -> Fake:
    rng = np.random.default_rng(0)
    stems = [f"{number:07d}" for number in rng.permutation(2_000_000)[: scaled(15)].tolist()]
    files = {f"{FOLDER}/data/images/{stem}.jpg": jpeg(picture(rng, 40, 30)) for stem in stems}
    sets = {"train": stems[: scaled(5)], "val": stems[scaled(5) : scaled(9)], "test": stems[scaled(9) :]}
    sets["trainval"] = stems[: scaled(9)][::-1]
    for level, classes in LEVELS.items():
        names = sorted(dict.fromkeys(classes))
        files[f"{FOLDER}/data/{FILE_OF[level]}.txt"] = "".join(f"{name}\n" for name in names).encode()
        for split, listed in sets.items():
            lines = [f"{stem} {classes[int(stem) % len(classes)]}\n" for stem in listed]
            files[f"{FOLDER}/data/images_{level}_{split}.txt"] = "".join(lines).encode()
    for split, listed in sets.items():
        files[f"{FOLDER}/data/images_{split}.txt"] = "".join(f"{stem}\n" for stem in listed).encode()
    files[f"{FOLDER}/data/images_box.txt"] = "".join(f"{stem} 1 2 30 20\n" for stem in stems).encode()
    arguments = [{}, *({"split": split, "annotation_level": level} for split in sets for level in LEVELS)]
    bad = ({"split": "all"}, {"annotation_level": "model"}, {"annotation_level": None})
    return Fake("fgvc_aircraft", {f"{FOLDER}.tar.gz": tar(files)}, [Case("FGVCAircraftRecord", arguments, bad, FILES)])


FAKES = (_build(),)
