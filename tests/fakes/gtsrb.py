"""GTSRB by code: .ppm photographs in class folders with a list each, and a test set whose labels are in another zip."""

import numpy as np

from recordzoo.cli.demo.birds import picture  # as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import FILE_SAMPLES
from tests.fakes.pictures import encoded
from tests.fakes.scale import scaled

_COLUMNS = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2"


def _row(name: str, width: int, height: int, *more: int) -> str:
    return ";".join(map(str, (name, width, height, 5, 5, width - 5, height - 5, *more))) + "\r\n"


def _build() -> Fake:
    rng = np.random.default_rng(0)
    training = {"GTSRB/Readme-Images.txt": b"signs"}
    for label in (14, 0, 42):
        folder, rows = f"GTSRB/Training/{label:05d}", f"{_COLUMNS};ClassId\r\n"
        for track in range(scaled(2)):
            for frame in (1, 0):
                name, width, height = f"{track:05d}_{frame:05d}.ppm", 15 + 3 * frame + label, 16 + track % 20
                training[f"{folder}/{name}"] = encoded(picture(rng, width, height), "ppm")
                rows += _row(name, width, height, label)
        training[f"{folder}/GT-{label:05d}.csv"] = rows.encode()
    folder = "GTSRB/Final_Test/Images"
    test = {"GTSRB/Readme-Images-Final-test.txt": b"signs without labels"}
    unlabelled, labelled = f"{_COLUMNS}\r\n", f"{_COLUMNS};ClassId\r\n"
    for number in (0, 1, 3, 2, *range(4, scaled(5))):  # the list is the order, whatever the files are called
        name, width, height = f"{number:05d}.ppm", 20 + number % 20, 22
        test[f"{folder}/{name}"] = encoded(picture(rng, width, height), "ppm")
        unlabelled += _row(name, width, height)
        labelled += _row(name, width, height, int(rng.integers(43)))
    test[f"{folder}/GT-final_test.test.csv"] = unlabelled.encode()  # it has no labels
    test[f"{folder}/unlisted.ppm"] = encoded(picture(rng, 20, 20), "ppm")
    files = {
        "GTSRB-Training_fixed.zip": zipped(training),
        "GTSRB_Final_Test_Images.zip": zipped(test),
        "GTSRB_Final_Test_GT.zip": zipped({"GT-final_test.csv": labelled.encode()}),
    }
    bad = ({"split": "val"}, {"split": None})
    a_slice = (r"^'tuple' object has no attribute 'read'", "^expected str, bytes or os.PathLike object, not tuple")
    case = Case(
        "GTSRBRecord",
        ({}, {"split": "test"}),
        bad,
        FILE_SAMPLES,
        differences=[(*a_slice, "a slice of two samples is taken for a path, by Pillow or by Python's open")],
    )
    return Fake("gtsrb", files, [case])


FAKES = (_build(),)
