"""One rank of several that train with a `RecordLoader`, which is built before the process group is, without a seed."""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import RandomSampler

from recordzoo import RecordLoader, RecordSampler
from tests.frameworks.ranks import answer_file
from tests.frameworks.samples import BATCH, DRAWN, Numbers, drawn


def main(who: str, kind: str) -> None:
    warnings.simplefilter("ignore")
    if kind != "other":  # whose RandomSampler draws on each rank
        torch.manual_seed(int(os.environ["RANK"]))
    choices: dict[str, dict[str, Any]] = {
        "own": {"shuffle": True},
        "other": {"sampler": RandomSampler(Numbers())},
        "undealt": {"sampler": RecordSampler(Numbers(), num_replicas=1, rank=0)},
    }
    dataset, options = drawn(kind) if kind in DRAWN else (Numbers(), choices[kind])
    loader = RecordLoader(dataset, BATCH, num_workers=1, **options)
    epochs, used = {"trainer": by_trainer, "fabric": by_fabric, "accelerate": by_accelerate}[who](loader)
    answer = {"epochs": epochs, "loader": type(used).__name__, "sampler": type(used.sampler).__name__}
    answer_file().write_text(json.dumps(answer))


def by_trainer(loader: RecordLoader) -> tuple[Any, Any]:
    from tests.frameworks.test_loader_lightning import Model, lightning

    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=Path.cwd(),
    )
    trainer.fit(model, loader)
    return model.epochs, trainer.train_dataloader


def by_fabric(loader: RecordLoader) -> tuple[Any, Any]:
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    prepared = fabric.setup_dataloaders(loader)
    return [[labels.tolist() for _, labels in prepared] for _ in range(2)], prepared._dataloader


def by_accelerate(loader: RecordLoader) -> tuple[Any, Any]:
    from accelerate import Accelerator

    prepared = Accelerator(cpu=True).prepare(loader)
    return [[labels.tolist() for _, labels in prepared] for _ in range(2)], prepared


if __name__ == "__main__":
    main(*sys.argv[1:])
