"""CUB-200 of 2010 by code: photographs in class folders, a MATLAB file with a box and a mask for each, lists."""

import os
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.io import loadmat
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.matlab import mat
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.plain import Plain
from tests.fakes.scale import enlarged, scaled

BIRDS = ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross")


class CUB200Of2010(Plain):
    """What people write over the three extracted archives."""

    _kinds = ("category", "bbox", "segmentation")

    # Any: ImageFolder's own arguments.
    def __init__(
        self,
        root: Any,
        split: str = "train",
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = default_loader,
        target_type: Any = "category",
    ) -> None:
        self.split = verify_str_arg(split, "split", ("train", "test"))
        self._begin(root, transform, target_transform, loader, target_type)
        folder = os.path.join(root, "cub200_2010")
        with open(os.path.join(folder, "lists", f"{split}.txt")) as file:
            names = file.read().splitlines()
        samples = [(os.path.join(folder, "images", name), int(name[:3]) - 1) for name in names]
        self._show(samples, sorted(os.listdir(os.path.join(folder, "images"))))

    def read_target(self, kind: str, path: str) -> Any:
        annotation = loadmat(path.replace("/images/", "/annotations-mat/").replace(".jpg", ".mat"))
        if kind == "segmentation":
            return Image.fromarray(annotation["seg"])
        return torch.tensor(
            [float(annotation["bbox"][side][0, 0][0, 0]) for side in ("left", "top", "right", "bottom")]
        )


def _build() -> Fake:
    rng = np.random.default_rng(0)
    images: dict[str, bytes] = {}
    annotations: dict[str, bytes] = {}
    lines: dict[str, list[str]] = {"train": [], "test": []}
    for bird in BIRDS:
        for number in range(1, 1 + scaled(5)):
            stem = f"{bird}/{bird.partition('.')[2]}_{number:04d}_{rng.integers(10**9)}"
            width, height = 30 + number % 20, 24
            image = picture(rng, width, height)
            images[f"images/{stem}.jpg"] = encoded(image.convert("L"), "JPEG") if number == 2 else jpeg(image)
            annotations[f"annotations-mat/{stem}.mat"] = mat(
                bbox={"left": number, "top": 3, "right": 20 + number % 20, "bottom": np.uint16(22)},
                seg=enlarged(rng.integers(0, 3, (height, width), dtype=np.uint8)),
                wikipedia_url="http://en.wikipedia.org/wiki/Albatross",
            )
            lines["test" if number % 5 in (1, 4) else "train"].insert(0, f"{stem}.jpg")
    images[f"images/{BIRDS[0]}/._junk.jpg"] = b"what macOS leaves"
    annotations["annotations-mat/README.txt"] = b"not read"
    lists = {f"lists/{split}.txt": "".join(f"{name}\n" for name in names).encode() for split, names in lines.items()}
    lists["lists/files.txt"] = b"".join(lists.values())
    files = {"images.tgz": tar(images), "annotations.tgz": tar(annotations), "lists.tgz": tar(lists)}
    arguments = (
        {},
        {"split": "test"},
        {"target_type": "bbox"},
        {"split": "test", "target_type": "segmentation"},
        {"target_type": ["segmentation", "category", "bbox"]},
    )
    bad = ({"split": "all"}, {"target_type": "boxes"}, {"target_type": ["bbox", None]})
    return Fake("cub200_2010", files, [Case("CUB200_2010Record", arguments, bad, SAMPLES, theirs=CUB200Of2010)])


FAKES = (_build(),)
