"""`GTSRBRecord`: torchvision's GTSRB from records."""

from pathlib import Path

from torchvision.datasets import GTSRB
from torchvision.datasets.folder import pil_loader
from typing_extensions import override

from recordzoo.base.text import TrainTest
from recordzoo.datasets.gtsrb_recipe import FOLDERS
from recordzoo.families.folders import Loader, SamplesDataset, SplitDataset
from recordzoo.preparing.options import PrepareOptions


class GTSRBRecord(SplitDataset[TrainTest], SamplesDataset, GTSRB):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `GTSRB`, read from records; each split is a record set of its own."""

    entry = "gtsrb"
    _PATHS = {"_base_folder": "gtsrb"}

    @override
    def _choose_split(self, split: str) -> None:
        super()._choose_split(split)
        self._target_folder = Path(self.root, "gtsrb", FOLDERS[split])

    @override
    def _show_split(
        self, split: str, *, download: bool | None, options: PrepareOptions, loader: Loader = pil_loader
    ) -> None:
        split = "" if split == "train" else split  # class folders have no splits
        super()._show_split(split, download=download, options=options, loader=loader)
