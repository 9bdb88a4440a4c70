"""`RecordLoader` in what timm's training script does with a loader."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import transforms

from recordzoo import ImageFolderRecord, RecordLoader

timm_data = pytest.importorskip("timm.data", reason="needs the extra `frameworks`: make frameworks")
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


def test_mixup_in_the_collate_function(tree: Path) -> None:
    """It wants NumPy images; the script switches it off after some epochs, through the loader around ours."""
    mixup = timm_data.FastCollateMixup(mixup_alpha=1.0, num_classes=5)
    to_numpy = transforms.Compose([transforms.Resize((24, 24)), lambda image: np.asarray(image).transpose(2, 0, 1)])
    loader = RecordLoader(ImageFolderRecord(tree, transform=to_numpy), 8, drop_last=True, collate_fn=mixup)
    prefetched = timm_loader.PrefetchLoader(loader, device=CPU)
    assert prefetched.mixup_enabled is True
    batches = list(prefetched)
    assert len(batches) == 5
    for images, targets in batches:
        assert (images.shape, targets.shape) == ((8, 3, 24, 24), (8, 5))
        assert torch.allclose(targets.sum(1), torch.ones(8))
    prefetched.mixup_enabled = False
    labels = torch.cat([targets.argmax(1) for _, targets in prefetched])
    assert labels.tolist() == loader.dataset.targets[:40]


def test_mixup_of_batches(tree: Path) -> None:
    """As with --no-prefetcher."""
    made: Any = transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor()])
    mixup = timm_data.Mixup(mixup_alpha=1.0, num_classes=5)
    batches = list(RecordLoader(ImageFolderRecord(tree, transform=made), 8, drop_last=True))
    assert len(batches) == 5
    for batch in batches:
        kept = batch[0].clone()
        images, targets = mixup(*batch)
        assert (images.shape, targets.shape) == ((8, 3, 24, 24), (8, 5))
        assert not torch.equal(images, kept)
