"""`RecordLoader` in what timm's training script does with a loader."""

from pathlib import Path

import pytest
import torch
from torchvision import transforms

from recordzoo import ImageFolderRecord, RecordLoader

timm_loader = pytest.importorskip("timm.data.loader")

CPU = torch.device("cpu")
BYTES = transforms.Compose([transforms.RandomResizedCrop(24), transforms.PILToTensor()])


def test_prefetch_loader(tree: Path) -> None:
    """It normalises bytes, and passes on what the script asks of a loader."""
    dataset = ImageFolderRecord(tree, transform=BYTES)
    loader = RecordLoader(dataset, 8, shuffle=True, seed=1, drop_last=True)
    prefetched = timm_loader.PrefetchLoader(loader, mean=(0.5,) * 3, std=(0.25,) * 3, device=CPU)
    right = RecordLoader(dataset, 8, shuffle=True, seed=1, drop_last=True)
    for epoch in (0, 1):
        prefetched.sampler.set_epoch(epoch)  # as the script does with several ranks
        batches = list(prefetched)
        assert len(batches) == len(prefetched) == 5
        for (images, labels), (pixels, right_labels) in zip(batches, right, strict=True):
            assert torch.equal(labels, right_labels)
            assert torch.equal(images, (pixels.float() - 0.5 * 255) / (0.25 * 255))
    assert prefetched.dataset is dataset
    assert prefetched.mixup_enabled is False
