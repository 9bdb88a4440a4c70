"""A dataset whose samples say which they are."""

import torch
from torch.utils.data import Dataset


class Numbers(Dataset[torch.Tensor]):
    """0, 1, 2, ..., each as a tensor."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index)
