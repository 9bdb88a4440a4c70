"""Samples that say which they are, and what the frameworks' tests say of them."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import Dataset

from recordzoo import RecordSampler, mix

COUNT, BATCH = 40, 4


class Indices(Dataset[torch.Tensor]):
    """0, 1, 2, ..., each as a tensor."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)


class Numbers:
    """0, 1, 2, ... as inputs of a model, each with its number as the label."""

    targets = range(COUNT)

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


# Any: a dataset, and arguments of `RecordLoader`.
def drawn(kind: str, data: Any = None) -> tuple[Any, dict[str, Any]]:
    """A dataset and arguments with which samples are drawn, in some kind of way, each once an epoch."""
    data = Numbers() if data is None else data
    if kind == "mix":
        return mix([data], weights=[1]), {}
    return data, {"sampler": RecordSampler(data, weights=[1] * len(data), replacement=False, seed=1)}


DRAWN = ("weights", "mix")
