"""What each of three ranks gets under Trainer, accelerate, timm and torchdata: run by `test_many_ranks`."""

import json
import os
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import timm.data
import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch import distributed
from torchdata.stateful_dataloader import StatefulDataLoader

from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from tests.fakes.coloured import numbers_of
from tests.frameworks.ranks import answer_file, new_group
from tests.frameworks.samples import Indices, Numbers, as_dict

EPOCHS, BATCH, LENGTH = 2, 4, 48
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Model(torch.nn.Module):
    """A model that keeps the labels of its training batches, and returns all labels as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.seen += labels.tolist()
        return {"loss": self.layer(x).square().mean(), "logits": labels.float()[:, None]}


class Trainer(transformers.Trainer):
    """With loaders of this package; that of the evaluation is left for the Trainer's accelerator to deal."""

    is_dealt = True

    def get_train_dataloader(self) -> Any:
        return RecordLoader(Numbers(), BATCH, shuffle=True, num_workers=1, collate_fn=as_dict)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        if self.is_dealt:
            return RecordLoader(Numbers(), 7, num_workers=1, collate_fn=as_dict)
        sampler = RecordSampler(Numbers(), shuffle=False, num_replicas=1, rank=0)
        whole = RecordLoader(Numbers(), 7, sampler=sampler, num_workers=1, collate_fn=as_dict)
        return self.accelerator.prepare(whole)


def by_trainer() -> dict[str, Any]:
    found: dict[str, Any] = {}
    arguments = transformers.TrainingArguments(
        "out", num_train_epochs=EPOCHS, save_strategy="no", use_cpu=True, disable_tqdm=True, report_to=[]
    )
    model = Model()
    evaluated: list[list[int]] = []
    trainer = Trainer(model, arguments, compute_metrics=lambda each: evaluated.append(each.label_ids.tolist()) or {})
    trainer.train()
    found["trained"] = model.seen
    for trainer.is_dealt in (True, False):
        trainer.evaluate()
    found["evaluated"] = evaluated
    return found


def by_timm(folder: Path) -> dict[str, Any]:
    """As timm's training script does: loaders that share an epoch because it says ``distributed``."""
    found: dict[str, Any] = {}
    for split, is_training in (("train", True), ("val", False)):
        dataset = ImageFolderRecord(folder / split)
        loader = timm.data.create_loader(
            dataset,
            (3, 32, 32),
            BATCH,
            is_training=is_training,
            distributed=True,
            use_prefetcher=False,
            num_workers=1,
            color_jitter=None,
        )
        found[split] = []
        for epoch in range(EPOCHS):
            if is_training:
                loader.sampler.set_epoch(epoch)
            found[split].append([number for images, _ in loader for number in numbers_of(images)])
    return found


def by_torchdata(folder: Path) -> dict[str, Any]:
    """Two ranks for five batches of an epoch of twelve, then three ranks."""
    data = Indices(LENGTH)
    state_file = folder / "state.pt"

    def make() -> Any:
        return StatefulDataLoader(data, BATCH, sampler=RecordSampler(data), num_workers=1)

    found: dict[str, Any] = {"before": []}
    if RANK < 2:
        distributed.init_process_group("gloo", rank=RANK, world_size=2)
        loader = make()
        found["before"] = [batch.tolist() for batch in islice(loader, 3)]
        if RANK == 0:
            torch.save(loader.state_dict(), state_file)
        distributed.barrier()
    new_group()
    distributed.init_process_group("gloo", rank=RANK, world_size=RANKS)
    distributed.barrier()
    loader = make()
    loader.load_state_dict(torch.load(state_file))
    found["after"] = [[batch.tolist() for batch in loader] for _ in range(2)]
    return found


def by_accelerate(folder: Path) -> dict[str, Any]:
    """Likewise, with accelerate's own saving and loading."""

    def prepared() -> tuple[Accelerator, Any]:
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()
        accelerator = Accelerator(cpu=True)
        return accelerator, accelerator.prepare(RecordLoader(Indices(LENGTH), BATCH, shuffle=True, num_workers=1))

    found: dict[str, Any] = {"before": []}
    if RANK < 2:
        os.environ["WORLD_SIZE"] = "2"
        accelerator, loader = prepared()
        found["before"] = [batch.tolist() for batch in islice(loader, 3)]
        accelerator.save_state(str(folder / "state"))
    new_group()
    os.environ["WORLD_SIZE"] = str(RANKS)
    accelerator, loader = prepared()
    accelerator.load_state(str(folder / "state"))
    found["after"] = [[batch.tolist() for batch in loader] for _ in range(2)]
    new_group()
    return found


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")  # what the frameworks say of torch and of each other
    torch.manual_seed(RANK)
    found = {"torchdata": by_torchdata(folder)}
    found["timm"] = by_timm(folder / "data")
    new_group()
    found["accelerate"] = by_accelerate(folder)
    found["trainer"] = by_trainer()
    answer_file().write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
