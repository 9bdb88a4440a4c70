"""EuroSAT by code: a zip with the folder `2750/`, in it one folder for each class."""

import numpy as np

from recordzoo.cli.demo.birds import picture  # as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import jpeg
from tests.fakes.scale import scaled

CLASSES = "AnnualCrop Forest HerbaceousVegetation Highway Industrial Pasture PermanentCrop Residential River SeaLake"


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {
        f"2750/{name}/{name}_{number}.jpg": jpeg(picture(rng, 64, 64))
        for name in CLASSES.split()
        for number in (1, 10, 2, *range(11, 8 + scaled(3)))
    }
    return Fake("eurosat", {"EuroSAT.zip": zipped(files)}, [Case("EuroSATRecord", mutations=SAMPLES)])


FAKES = (_build(),)
