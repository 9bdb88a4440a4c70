"""NABirds by code: sparse numbers of classes, a hierarchy, UUIDs with dashes in the lists and without in the paths."""

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.plain import Plain
from tests.fakes.scale import scaled

NODES = {
    0: "Birds",
    1: "Ducks, Geese, and Swans",
    82: "Common Eider",
    295: "Common Eider (Adult male)",
    296: "Common Eider (Female/juvenile)",
    1010: "Hawks",
    817: "Oak Titmouse",
}
PARENTS = {1: 0, 1010: 0, 82: 1, 295: 82, 296: 82, 817: 1010}
LEAVES = (817, 295, 296)
PARTS = ("bill", "crown", "nape", "left eye", *(f"part {number}" for number in range(4, 11)))


class NABirds(Plain):
    """What people write from the formats of the authors' lists."""

    _kinds = ("category", "bbox", "parts")

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
        self._folder = Path(root, "nabirds")
        numbers = {image: int(number) for image, number in self._rows("image_class_labels")}
        leaves = sorted(set(numbers.values()))
        is_train = dict(self._rows("train_test_split"))
        images = os.path.join(root, "nabirds", "images")
        self._show(
            sorted(
                (os.path.join(images, name), leaves.index(numbers[image]))
                for image, name in self._rows("images")
                if (is_train[image] == "1") == (split == "train")
            ),
            sorted(os.listdir(images)),
        )
        self._image_of = {os.path.join(images, name): image for image, name in self._rows("images")}
        self.node_names = {int(number): " ".join(words) for number, *words in self._rows("classes")}
        self.class_names = [self.node_names[number] for number in leaves]
        self.parents = {int(child): int(parent) for child, parent in self._rows("hierarchy")}
        self.part_names = [" ".join(words) for _, *words in self._rows("parts/parts")]

    def _rows(self, name: str) -> list[list[str]]:
        return [line.split() for line in (self._folder / f"{name}.txt").read_text().splitlines()]

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        image = self._image_of[path]
        if kind == "bbox":
            (box,) = [rest for each, *rest in self._rows("bounding_boxes") if each == image]
            return torch.tensor([float(side) for side in box])
        parts = torch.zeros(len(PARTS), 3)
        for each, part, *where in self._rows("parts/part_locs"):
            if each == image:
                parts[int(part)] = torch.tensor([float(value) for value in where])
        return parts


def _build() -> Fake:
    rng = np.random.default_rng(0)
    lines: dict[str, list[str]] = {
        "classes": [f"{number} {name}" for number, name in NODES.items()],
        "hierarchy": [f"{child} {parent}" for child, parent in PARENTS.items()],
        "parts/parts": [f"{number} {name}" for number, name in enumerate(PARTS)],
    }
    names = ("images", "image_class_labels", "train_test_split", "bounding_boxes", "sizes", "parts/part_locs")
    lines.update({name: [] for name in names})
    files = {"nabirds/README": b"NABirds.", "nabirds/nabirds.py": b"import os\n"}
    for number in range(scaled(15)):
        leaf, image = LEAVES[number % 3], uuid.UUID(bytes=rng.bytes(16))
        made = picture(rng, 30 + number % 20, 24)
        name = f"{leaf:04d}/{image.hex}.jpg"
        files[f"nabirds/images/{name}"] = encoded(made.convert("L"), "JPEG") if number == 4 else jpeg(made)
        lines["images"].append(f"{image} {name}")
        lines["image_class_labels"].append(f"{image} {leaf}")
        lines["train_test_split"].append(f"{image} {int(number % 5 > 1)}")
        lines["bounding_boxes"].append(f"{image} {number % 20} 2 {20 + number % 20} 19")
        lines["sizes"].append(f"{image} {30 + number % 20} 24")
        for part in range(len(PARTS)):
            seen = int(rng.integers(2))
            lines["parts/part_locs"].append(f"{image} {part} {7 * seen} {(3 + part) * seen} {seen}")
    files.update(
        {f"nabirds/{name}.txt": "".join(f"{each}\n" for each in found).encode() for name, found in lines.items()}
    )
    arguments = (
        {},
        {"split": "test"},
        {"target_type": "bbox"},
        {"split": "test", "target_type": "parts"},
        {"target_type": ["parts", "category", "bbox"]},
    )
    bad = ({"split": "all"}, {"target_type": "boxes"}, {"target_type": ["bbox", 0]})
    return Fake(
        "nabirds", {"nabirds.tar.gz": tar(files)}, [Case("NABirdsRecord", arguments, bad, SAMPLES, theirs=NABirds)]
    )


FAKES = (_build(),)
