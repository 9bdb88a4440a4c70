"""`RecordLoader` in Hugging Face's Trainer, by way of `get_train_dataloader`; training, evaluation and resuming."""

from pathlib import Path
from typing import Any

import pytest
import torch

from recordzoo import RecordLoader
from tests.frameworks.samples import BATCH, COUNT, DRAWN, Numbers, are_all, as_dict, drawn

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


# Any: a dataset and arguments.
def samples(kind: str) -> tuple[Any, dict[str, Any]]:
    return drawn(kind) if kind else (Numbers(), {"shuffle": True})


class Trainer(transformers.Trainer):
    """With loaders as users put them there, prepared or not."""

    prepares = False
    kind = ""

    def get_train_dataloader(self) -> Any:
        dataset, options = samples(self.kind)
        loader = RecordLoader(dataset, BATCH, seed=4, num_workers=1, collate_fn=as_dict, **options)
        return self.accelerator.prepare(loader) if self.prepares else loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return RecordLoader(Numbers(), 7, collate_fn=as_dict)


def train(folder: Path, steps: int, prepares: bool = False, kind: str = "", **options: Any) -> list[list[int]]:
    """Train, and return the labels of all batches."""
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=steps, save_steps=1, use_cpu=True, disable_tqdm=True, report_to=[], logging_steps=1000
    )
    trainer = Trainer(Model(), arguments)
    trainer.prepares, trainer.kind = prepares, kind
    trainer.train(**options)
    return trainer.model.seen


def right(epochs: int, kind: str = "") -> list[list[int]]:
    dataset, options = samples(kind)
    loader = RecordLoader(dataset, BATCH, seed=4, **options)
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


@pytest.mark.parametrize("kind", DRAWN)
def test_resume_with_drawn_samples(tmp_path: Path, kind: str) -> None:
    train(tmp_path, 3, kind=kind)
    assert train(tmp_path, 2 * STEPS, kind=kind, resume_from_checkpoint=True) == right(2, kind)[3:]


def test_evaluate(tmp_path: Path) -> None:
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, disable_tqdm=True, report_to=[])
    found: list[int] = []
    trainer = Trainer(Model(), arguments, compute_metrics=lambda each: found.extend(each.label_ids.tolist()) or {})
    trainer.evaluate()
    assert found == list(range(COUNT))
