"""Samples that say which they are, and what the frameworks' tests say of them."""

from collections.abc import Iterable
from typing import Any

import torch

COUNT, BATCH = 40, 4


class Numbers:
    """0, 1, 2, ... as inputs of a model, each with its number as the label."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(index)]), index


def as_dict(samples: list[Any]) -> dict[str, torch.Tensor]:
    """Collate as Hugging Face's models want it."""
    return {"x": torch.stack([x for x, _ in samples]), "labels": torch.tensor([label for _, label in samples])}


def are_all(epoch: Iterable[Iterable[int]]) -> bool:
    """Whether batches hold each sample once."""
    return sorted(label for batch in epoch for label in batch) == list(range(COUNT))
