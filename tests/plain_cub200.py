"""CUB-200-2011 as people write it themselves over torchvision's ImageFolder: what `CUB200Record` is compared with."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import verify_str_arg


class CUB200(ImageFolder):
    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        split: str = "train",
    ) -> None:
        self.split = verify_str_arg(split, "split", ("train", "test", "all"))
        folder = os.path.join(root, "CUB_200_2011")
        images = os.path.join(folder, "images")
        super().__init__(images, transform, target_transform, loader, is_valid_file, allow_empty)
        self.root = root
        if split != "all":
            name_of = dict(_rows(folder, "images.txt"))
            wanted = {
                name_of[i] for i, flag in _rows(folder, "train_test_split.txt") if (flag == "1") == (split == "train")
            }
            self.samples = self.imgs = [s for s in self.samples if os.path.relpath(s[0], images) in wanted]
            self.targets = [target for _, target in self.samples]

    def extra_repr(self) -> str:
        return f"Split: {self.split}"


def _rows(folder: str, name: str) -> list[list[str]]:
    return [line.split() for line in Path(folder, name).read_text().splitlines()]
