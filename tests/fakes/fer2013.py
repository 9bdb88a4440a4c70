"""FER2013 by code: the same faces in the four .csv files that torchvision knows."""

import numpy as np

from tests.fakes.fake import Case, Fake, md5, tar
from tests.fakes.mutations import FILE_SAMPLES
from tests.fakes.scale import scaled

_USAGES = scaled(1) * (["Training"] * 6 + ["PublicTest", "PrivateTest", "Training", "PublicTest"])


def _files() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    lines = {
        "fer2013.csv": ["emotion,pixels,Usage"],
        "icml_face_data.csv": ["emotion, Usage, pixels"],
        "train.csv": ["emotion,pixels"],
        "test.csv": ["pixels"],
    }
    for usage in _USAGES:
        face = np.repeat(rng.integers(0, 256, 48), 48)
        pixels, label = " ".join(map(str, face.tolist())), int(rng.integers(7))
        lines["fer2013.csv"].append(f"{label},{pixels},{usage}")
        lines["icml_face_data.csv"].append(f"{label},{usage},{pixels}")
        if usage == "Training":
            lines["train.csv"].append(f'"{label}","{pixels}"')
        else:
            lines["test.csv"].append(f'"{pixels}"')
    return {name: "\r\n".join([*rows, ""]).encode() for name, rows in lines.items()}


FILES = _files()
"""The .csv files by name; `RESOURCES` is torchvision's list of them."""

_NAMES = {"train": "train.csv", "test": "test.csv", "fer": "fer2013.csv", "icml": "icml_face_data.csv"}
RESOURCES = {kind: (name, md5(FILES[name])) for kind, name in _NAMES.items()}


def _build() -> Fake:
    unpacked = {f"fer2013/{name}": FILES.get(name, b"about") for name in ("README", "fer2013.bib", "fer2013.csv")}
    case = Case(
        "FER2013Record",
        ({}, {"split": "test"}),
        ({"split": "val"}, {"split": None}),
        FILE_SAMPLES,
        {"_RESOURCES": RESOURCES},
        differences=[
            (
                r"^train\.csv not found in \S+ or corrupted",
                r"^[\w.]+: no records and no raw data in .*looked for",
                "torchvision does not know of records, or of the archive",
            )
        ],
    )
    return Fake("fer2013", {"fer2013.tar.gz": tar(unpacked)}, [case])


FAKES = (_build(),)
