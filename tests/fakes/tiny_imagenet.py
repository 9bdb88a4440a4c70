"""Tiny ImageNet by code: class folders with boxes, one folder to validate, one without labels; grey images."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg

from recordzoo.cli.demo.birds import picture  # as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, Fake, zipped
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg
from tests.fakes.plain import Plain
from tests.fakes.scale import scaled

WNIDS = ("n02124075", "n04067472", "n01443537")  # in the order of wnids.txt, which is nobody's
WORDS = {"n01443537": "goldfish, Carassius auratus", "n02124075": "Egyptian cat", "n04067472": "reel"}


class TinyImageNet(Plain):
    """What people write: ImageFolder's order and labels, also for the folder to validate."""

    _kinds = ("category", "bbox")

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
        self.split = verify_str_arg(split, "split", ("train", "val", "test"))
        self._begin(root, transform, target_transform, loader, target_type)
        if split == "test" and "bbox" in target_type:
            raise ValueError("The authors published no boxes for split='test'. Take target_type='category'.")
        top = Path(root, "tiny-imagenet-200")
        wnids = sorted((top / "wnids.txt").read_text().split())
        words = dict(line.split("\t") for line in (top / "words.txt").read_text().splitlines())
        self.class_names = [words[wnid] for wnid in wnids]
        lists = sorted((top / "train").glob("*/*_boxes.txt")) if split == "train" else []
        rows = [line.split("\t") for path in lists for line in path.read_text().splitlines()]
        if split == "val":
            rows = [line.split("\t") for line in (top / "val" / "val_annotations.txt").read_text().splitlines()]
        self._rows = {row[0]: row[1:] for row in rows}
        paths = sorted(map(str, (top / split).rglob("*.JPEG")))
        self._show([(path, self._label(path, wnids)) for path in paths], wnids)

    def _label(self, path: str, wnids: list[str]) -> int:
        name = os.path.basename(path)
        if self.split == "test":
            return -1
        return wnids.index(self._rows[name][0] if self.split == "val" else name.partition("_")[0])

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        return torch.tensor([float(side) for side in self._rows[os.path.basename(path)][-4:]])


def _build() -> Fake:
    rng = np.random.default_rng(0)
    top = "tiny-imagenet-200"
    files: dict[str, bytes] = {f"{top}/wnids.txt": "\n".join(WNIDS).encode()}
    others = {"n00001740": "entity", **WORDS, "n15300051": "Walpurgis Night"}
    files[f"{top}/words.txt"] = "".join(f"{wnid}\t{words}\n" for wnid, words in others.items()).encode()

    def image(number: int) -> bytes:
        made = picture(rng, 64, 64)
        return encoded(made.convert("L"), "JPEG") if number % 5 == 2 else jpeg(made)

    def box() -> str:
        left, top = (int(side) for side in rng.integers(0, 30, 2))
        return f"{left}\t{top}\t{left + 30}\t{top + 25}"

    lines = ""
    for number in (10, 2, 0, 9, 1, *range(11, 6 + scaled(5))):
        files[f"{top}/test/images/test_{number}.JPEG"] = image(number)
        files[f"{top}/val/images/val_{number}.JPEG"] = image(number)
        lines += f"val_{number}.JPEG\t{WNIDS[number % 3]}\t{box()}\n"
    files[f"{top}/val/val_annotations.txt"] = lines.encode()
    for wnid in WNIDS:
        names = [f"{wnid}_{number}.JPEG" for number in (0, 10, 2, *range(11, 8 + scaled(3)))]
        files.update({f"{top}/train/{wnid}/images/{name}": image(place) for place, name in enumerate(names)})
        files[f"{top}/train/{wnid}/{wnid}_boxes.txt"] = "".join(f"{name}\t{box()}\n" for name in names).encode()
    arguments = (
        {},
        {"split": "val"},
        {"split": "test"},
        {"target_type": "bbox"},
        {"split": "val", "target_type": ["bbox", "category"]},
    )
    bad = ({"split": "valid"}, {"target_type": "boxes"}, {"split": "test", "target_type": "bbox"})
    case = Case("TinyImageNetRecord", arguments, bad, SAMPLES, theirs=TinyImageNet)
    return Fake("tiny_imagenet", {"tiny-imagenet-200.zip": zipped(files)}, [case])


FAKES = (_build(),)
