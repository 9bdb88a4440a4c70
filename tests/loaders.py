"""Take a batch from each loader that a page's code makes."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader


# Any: what a page's code makes.
def take_batches(names: Mapping[str, Any], taken: list[Any]) -> None:
    """Take a batch from each loader among these names; `taken` has those of earlier blocks."""
    for loader in [each for each in names.values() if isinstance(each, DataLoader)]:
        if not any(loader is each for each in taken):
            taken.append(loader)
            next(iter(loader))
