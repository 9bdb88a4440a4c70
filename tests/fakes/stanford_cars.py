"""Stanford Cars by code: photographs and MATLAB annotations, in an order that is not that of the names."""

import numpy as np

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.matlab import mat
from tests.fakes.mutations import FILE_SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

CLASSES = ("AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Ram C/V Cargo Van Minivan 2012", "smart fortwo 2012")
FIELDS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")


def _annotations(rng: np.random.Generator, names: list[str]) -> bytes:
    rows = np.zeros((1, len(names)), dtype=[(field, object) for field in FIELDS])
    for number, name in enumerate(names):
        label = np.uint8(rng.integers(1, len(CLASSES) + 1))
        rows[0, number] = (np.uint16(1), np.uint16(2), np.uint16(300), np.uint16(200), label, name)
    return mat(annotations=rows)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    archives, annotations = {}, {}
    for split, count in (("train", scaled(6)), ("test", scaled(5))):
        names = [f"{number:05d}.jpg" for number in range(1, count + 1)]
        images = {f"cars_{split}/{name}": jpeg(picture(rng, 20 + len(name), 24)) for name in names}
        images[f"cars_{split}/00003.jpg"] = encoded(picture(rng, 22, 21).convert("L"), "JPEG")
        images[f"cars_{split}/99999.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
        archives[f"cars_{split}.tgz"] = tar(images)
        annotations[split] = _annotations(rng, rng.permutation(names).tolist())
    devkit = {
        "devkit/README.txt": b"not read",
        "devkit/cars_meta.mat": mat(class_names=np.array([CLASSES], dtype=object)),
        "devkit/cars_train_annos.mat": annotations["train"],
        "devkit/cars_test_annos.mat": b"not read: it has no labels",
    }
    files = {
        **archives,
        "cars_test_annos_withlabels.mat": annotations["test"],
        "car_devkit.tgz": tar(devkit),
    }
    bad = ({"split": "val"}, {"split": 1})
    return Fake(
        "stanford_cars", files, [Case("StanfordCarsRecord", ({}, {"split": "test"}), bad, mutations=FILE_SAMPLES)]
    )


FAKES = (_build(),)
