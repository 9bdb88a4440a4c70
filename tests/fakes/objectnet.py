"""ObjectNet by code: the extracted tree, with the mappings to ImageNet, beside a zip that is not read."""

import functools
import itertools
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torchvision.datasets import ImageFolder

from tests.fakes import reading
from tests.fakes.fake import Case, Fake
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, picture
from tests.fakes.scale import scaled

TOP = "objectnet-1.0"
NAMES = {"tie": "Tie", "air_freshener": "Air freshener", "alarm_clock": "Alarm clock", "t-shirt": "T-shirt"}
TO_IMAGENET = {"Alarm clock": "digital clock; analog clock", "Tie": "bow tie, bow-tie, bowtie"}
LINES = ("tench, Tinca tinca", "digital clock", "bow tie, bow-tie, bowtie", "analog clock", "goldfish")
LABEL_OF_LINE = {0: 0, 1: 530, 2: 457, 3: 409, 4: 1}
IMAGENET_LABELS = {"tie": [457], "alarm_clock": [530, 409]}


class ObjectNet(reading.Files, split=("test", "imagenet")):
    """What people write over the mappings, as the authors' template has it."""

    def read(self, root: Path, split: str = "test") -> list[str]:
        folders = ImageFolder(root / TOP / "images")
        mappings = root / TOP / "mappings"
        names = json.loads((mappings / "folder_to_objectnet_label.json").read_text())
        to_imagenet = json.loads((mappings / "objectnet_to_imagenet_1k.json").read_text())
        to_line = json.loads((mappings / "pytorch_to_imagenet_2012_id.json").read_text())
        to_label = {line: int(label) for label, line in to_line.items()}
        lines = (mappings / "imagenet_to_label_2012_v2").read_text().splitlines()
        self.class_names = [names[folder] for folder in folders.classes]
        self.imagenet_labels = [
            [to_label[lines.index(each)] for each in to_imagenet[name].split("; ")] if name in to_imagenet else []
            for name in self.class_names
        ]
        wanted = [split == "test" or bool(self.imagenet_labels[label]) for label in folders.targets]
        self.samples = list(itertools.compress(folders.samples, wanted))
        return list(folders.classes)


@functools.cache
def _image(rng: np.random.Generator, folder: str, number: int) -> bytes:
    made = ImageOps.expand(picture(rng, 30, 24), 1, (255, 0, 0))
    odd: Image.Image = made.convert("RGBA") if folder == "tie" else made
    return encoded(odd, "PNG")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    for folder in NAMES:
        for number in range(scaled(3)):
            files[f"{TOP}/images/{folder}/{rng.bytes(8).hex()}.png"] = _image(rng, folder, number % 20)
    mappings = {
        "folder_to_objectnet_label.json": json.dumps(NAMES),
        "objectnet_to_imagenet_1k.json": json.dumps(TO_IMAGENET),
        "pytorch_to_imagenet_2012_id.json": json.dumps({str(label): line for line, label in LABEL_OF_LINE.items()}),
        "imagenet_to_label_2012_v2": "".join(f"{line}\n" for line in LINES),
    }
    files.update({f"{TOP}/mappings/{name}": text.encode() for name, text in mappings.items()})
    files[f"{TOP}/README.md"] = b"not read"
    bad = ({"split": "train"}, {"split": None})
    no_folder = (r"No such file", r"^[\w.]+: no records and no raw data in .*looked for", "the folder of the images")
    case = Case(
        "ObjectNetRecord",
        ({}, {"split": "imagenet"}),
        bad,
        SAMPLES,
        sources=("archive",),
        differences=(no_folder,),
        theirs=ObjectNet,
    )
    return Fake("objectnet", {f"{TOP}.zip": b"PK\x03\x04 and 187 GB that are not read"}, [case], tree=files)


objectnet = _build()
