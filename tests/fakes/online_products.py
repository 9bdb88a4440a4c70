"""Stanford Online Products by code: lists with a header and numbers from 1, products in one split only, .JPG."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.plain import Plain
from tests.fakes.scale import scaled

TOP = "Stanford_Online_Products"
KINDS = ("bicycle", "cabinet", "chair")


class OnlineProducts(Plain):
    """What people write over the lists."""

    _kinds = ("category", "super_category")

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
        top = os.path.join(root, TOP)
        lists = {name: Path(top, f"Ebay_{name}.txt").read_text().splitlines()[1:] for name in ("train", "test")}
        rows = [line.split() for line in lists[split]]
        self._kind_of = {os.path.join(top, name): int(kind) - 1 for _, _, kind, name in rows}
        num_products = max(int(line.split()[1]) for listed in lists.values() for line in listed)
        self._show(
            [(os.path.join(top, name), int(product) - 1) for _, product, _, name in rows],
            [str(number) for number in range(1, num_products + 1)],
        )
        self.super_classes = [
            name.removesuffix("_final") for name in sorted(os.listdir(top)) if name.endswith("_final")
        ]

    def read_target(self, kind: str, path: str) -> int:
        return self._kind_of[path]


def _build() -> Fake:
    rng = np.random.default_rng(0)
    header = "image_id class_id super_class_id path\n"
    lists, files, image_id, product = {"train": header, "test": header}, {}, 0, 0
    for split in lists:
        for kind, kind_name in enumerate(KINDS, 1):
            for _ in range(scaled(2)):
                product += 1
                item = int(rng.integers(11 * 10**10, 41 * 10**10))
                for number in range(2 + product % 2):
                    image_id += 1
                    name = f"{kind_name}_final/{item}_{number}.JPG"
                    made = picture(rng, 30 + number, 24)
                    files[f"{TOP}/{name}"] = encoded(made.convert("L"), "JPEG") if image_id == 4 else jpeg(made)
                    lists[split] += f"{image_id} {product} {kind} {name}\n"
    files.update({f"{TOP}/{kind}.txt": b"not read" for kind in KINDS})
    files.update({f"{TOP}/Ebay_{split}.txt": text.encode() for split, text in lists.items()})
    files[f"{TOP}/Ebay_info.txt"] = (lists["train"] + lists["test"].removeprefix(header)).encode()
    files["__MACOSX/._Stanford_Online_Products"] = b"what macOS leaves"
    arguments = (
        {},
        {"split": "test"},
        {"target_type": "super_category"},
        {"split": "test", "target_type": ["super_category", "category"]},
    )
    bad = ({"split": "info"}, {"target_type": "class"}, {"target_type": ["category", None]})
    case = Case("OnlineProductsRecord", arguments, bad, SAMPLES, theirs=OnlineProducts)
    return Fake("online_products", {"Stanford_Online_Products.zip": zipped(files)}, [case])


FAKES = (_build(),)
