"""What each rank gets under Lightning: run by `test_lightning` on one and on two ranks.

Loaders are made before the process group, as in most Lightning scripts, and with another random seed on each rank.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning import Fabric
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.warnings import PossibleUserWarning
from torch.utils.data import DataLoader, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from recordzoo import RecordLoader, RecordSampler
from tests.frameworks.ranks import answer_file, new_group
from tests.frameworks.samples import DRAWN, Indices, drawn

EPOCHS = 3
LENGTH = 60
VALIDATED = 24
RANKS = int(os.environ["WORLD_SIZE"])
RESUMED = ("step=4", "step=10", "step=12", "step=15", "epoch=0")
"""What training is resumed from, saved after a step or an epoch; on two ranks an epoch has 6 steps, on one 12."""

# Lightning's advice on speed and on its own options; and what Lightning 2.6 does not know of torch 2.15 yet.
warnings.filterwarnings("ignore", category=PossibleUserWarning)
warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
warnings.filterwarnings("ignore", "'set_vital' is deprecated", UserWarning)  # torchdata 0.11 with torch 2.10
warnings.filterwarnings("ignore", "Be aware that when using `ckpt_path`", UserWarning)  # what is resumed saves nothing


class Recording(LightningModule):
    """Trains nothing to speak of, and keeps what it was given, epoch by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.trained: dict[int, list[list[int]]] = {}
        self.validated: list[list[int]] = []

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.trained.setdefault(self.current_epoch, []).append(batch.tolist())
        return (self.weight * batch.float()).sum()

    def on_validation_epoch_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        self.validated[-1].extend(batch.tolist())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1e-6)


# Any, also above: loaders have no common type.
def make_loader(kind: str, length: int, *, shuffle: bool = True) -> Any:
    data = Indices(length)
    if kind in DRAWN:
        mixed, options = drawn(kind, data)
        return RecordLoader(mixed, 5, num_workers=1, **options)
    if kind == "other":
        torch.manual_seed(0)  # it draws on each rank
        return RecordLoader(data, 5, num_workers=1, sampler=RandomSampler(data))
    if kind == "record":
        # One process draws another seed each time, and Lightning keeps no loader's state at the end of an epoch.
        return RecordLoader(data, 5, shuffle=shuffle, num_workers=1, seed=1 if RANKS == 1 else None)
    loader = {"stock": DataLoader, "stateful": StatefulDataLoader}[kind]
    return loader(data, 5, sampler=RecordSampler(data, shuffle=shuffle))


def fit(kind: str, folder: Path, resumed: str = "") -> dict[str, Any]:
    """Train; from the beginning, and save after each step and epoch, or from one of those checkpoints."""
    saving = [
        ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1, save_on_train_epoch_end=False),
        ModelCheckpoint(folder, "{epoch}", every_n_epochs=1, save_top_k=-1, save_on_train_epoch_end=True),
    ]
    trainer = Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp" if RANKS > 1 else "auto",
        max_epochs=EPOCHS,
        logger=False,
        callbacks=None if resumed else saving,
        enable_checkpointing=not resumed,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=1,
    )
    model = Recording()
    validated = make_loader("record" if kind in ("other", *DRAWN) else kind, VALIDATED, shuffle=False)
    loaders = make_loader(kind, LENGTH), validated
    trainer.fit(model, *loaders, ckpt_path=folder / f"{resumed}.ckpt" if resumed else None)
    new_group()  # the next loader is made without one
    trained = [model.trained.get(epoch, []) for epoch in range(EPOCHS)]
    return {"trained": trained, "validated": model.validated, "used": kinds(trainer.train_dataloader)}


def kinds(loader: Any) -> list[str]:
    return [type(loader).__name__, type(loader.sampler).__name__]


def by_fabric(kind: str) -> dict[str, Any]:
    fabric = Fabric(accelerator="cpu", devices=RANKS, strategy="ddp" if RANKS > 1 else "auto")
    fabric.launch()
    prepared = fabric.setup_dataloaders(make_loader(kind, LENGTH))
    trained = [[batch.tolist() for batch in prepared] for _ in range(EPOCHS)]
    new_group()
    return {"trained": trained, "used": kinds(prepared._dataloader)}


def main() -> None:
    torch.manual_seed(int(os.environ["RANK"]))
    found: dict[str, Any] = {}
    for kind in ("stock", "stateful", "record", "other", *DRAWN):
        folder = Path(kind).absolute()
        found[kind] = {"whole": fit(kind, folder)}
        if kind in ("stateful", "record"):  # others have no state
            found[kind]["resumed"] = {name: fit(kind, folder, name) for name in RESUMED}
    for kind in ("record", "other", *DRAWN):
        found[f"fabric {kind}"] = {"whole": by_fabric(kind)}
    answer_file().write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
