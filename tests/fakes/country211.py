"""Country211 by code: a folder for each split, in it one for each country, of large and small photographs."""

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled

COUNTRIES = ("AD", "AE", "DE", "ZW")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {}
    for split, count in (("train", 3), ("valid", 1), ("test", 2)):
        for country in reversed(COUNTRIES):  # not in the order of labels
            for number in rng.permutation(scaled(900))[: scaled(count)].tolist():
                width, height = 24 + number % 7, 20 + number % 11
                files[f"country211/{split}/{country}/{number}.jpg"] = jpeg(picture(rng, width, height))
    arguments = ({}, {"split": "valid"}, {"split": "test"})
    bad = ({"split": "val"}, {"split": None})
    return Fake("country211", {"country211.tgz": tar(files)}, [Case("Country211Record", arguments, bad, SAMPLES)])


FAKES = (_build(),)
