"""What each rank gets of a `RecordLoader` that is made before the process group: run by `test_loader_lightning`."""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import RandomSampler

from recordzoo import RecordLoader
from tests.frameworks.ranks import answer_file, new_group
from tests.frameworks.samples import BATCH, DRAWN, Numbers, drawn


def main() -> None:
    warnings.simplefilter("ignore")
    found = {}
    for kind in ("own", "other", *DRAWN):
        for train in (by_trainer, by_fabric):
            torch.manual_seed(0 if kind == "other" else int(os.environ["RANK"]))  # RandomSampler draws on each rank
            choices: dict[str, Any] = {"own": {"shuffle": True}, "other": {"sampler": RandomSampler(Numbers())}}
            dataset, options = drawn(kind) if kind in DRAWN else (Numbers(), choices[kind])
            epochs, used = train(RecordLoader(dataset, BATCH, num_workers=1, **options))
            answer = {"epochs": epochs, "loader": type(used).__name__, "sampler": type(used.sampler).__name__}
            found[f"{train.__name__} {kind}"] = answer
            new_group()
    answer_file().write_text(json.dumps(found))


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


if __name__ == "__main__":
    sys.exit(main())
