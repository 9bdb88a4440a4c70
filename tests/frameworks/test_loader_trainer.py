"""`RecordLoader` in Hugging Face's Trainer, by way of `get_train_dataloader`; training, evaluation and resuming."""

from pathlib import Path
from typing import Any

import pytest
import torch

from recordzoo import RecordLoader
from tests.frameworks.samples import BATCH, COUNT, Numbers, are_all, as_dict

transformers = pytest.importorskip("transformers", reason="needs the extra `frameworks`: make frameworks")

STEPS = COUNT // BATCH


class Model(torch.nn.Module):
    """A model that keeps the labels of its training batches, and returns them as logits."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.seen.append(labels.tolist())
        return {"loss": self.layer(x).square().mean(), "logits": labels.float()[:, None]}


class Trainer(transformers.Trainer):
    """With loaders as users put them there, prepared or not."""

    prepares = False

    def get_train_dataloader(self) -> Any:
        loader = RecordLoader(Numbers(), BATCH, shuffle=True, seed=4, num_workers=1, collate_fn=as_dict)
        return self.accelerator.prepare(loader) if self.prepares else loader


def train(folder: Path, steps: int, prepares: bool = False, **options: Any) -> list[list[int]]:
    """Train, and return the labels of all batches."""
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=steps, save_steps=1, use_cpu=True, disable_tqdm=True, report_to=[], logging_steps=1000
    )
    trainer = Trainer(Model(), arguments)
    trainer.prepares = prepares
    trainer.train(**options)
    return trainer.model.seen


def right(epochs: int) -> list[list[int]]:
    loader = RecordLoader(Numbers(), BATCH, shuffle=True, seed=4)
    return [labels.tolist() for _ in range(epochs) for _, labels in loader]


@pytest.mark.parametrize("prepares", [False, True])
def test_train(tmp_path: Path, prepares: bool) -> None:
    seen = train(tmp_path, 2 * STEPS, prepares)
    assert seen == right(2)
    assert are_all(seen[STEPS:])


@pytest.mark.parametrize("at", [3, STEPS, STEPS + 4])
def test_resume(tmp_path: Path, at: int) -> None:
    """In the first epoch, between two, in the second one: the samples are those that were to come."""
    train(tmp_path, at)
    assert train(tmp_path, 3 * STEPS, resume_from_checkpoint=True) == right(3)[at:]
