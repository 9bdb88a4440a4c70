"""What a loader says of itself: what is fused, what is not and why, which decoders, and what runs where."""

import multiprocessing
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, Subset
from torchvision import transforms as v1
from torchvision.datasets import CIFAR10, ImageFolder

from recordzoo import ImageFolderRecord, MultiView, RecordLoader
from tests.batching import FIXED, JITTER, UINT8
from tests.fakes.samples import Samples

# Any: of transforms of all kinds.


def lines(dataset: Any, **options: Any) -> list[str]:
    """Return what is said behind the first line, but for what this machine lacks."""
    first, *others = RecordLoader(dataset, 8, **options).explain().split("\n  ")
    assert first.startswith(f"RecordLoader({type(dataset).__name__} of {len(dataset):,} samples, batch_size=8, ")
    return [line for line in others if not line.startswith("slower than it could be")]


def test_all_is_fused(tree: Path) -> None:
    loader = RecordLoader(ImageFolderRecord(tree, transform=FIXED), 8)
    assert str(loader) == loader.explain()
    assert "\n" not in repr(loader)
    assert lines(loader.dataset)[-5:] == [
        "fused: Resize(size=30, interpolation=bilinear, max_size=None, antialias=True)",
        "fused: CenterCrop(size=(24, 24))",
        "fused: ToTensor()",
        "fused: Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))",
        "workers: threads: all is fused",
    ]
    assert lines(loader.dataset, workers="processes")[-1] == "workers: processes: as asked"


def test_many_small_images_are_made_by_forked_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "photos" / "red"
    folder.mkdir(parents=True)
    for number in range(8):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
    forked = "workers: processes: the images are small: threads would wait for each other's turn with the GIL"
    for kind in (ImageFolder, ImageFolderRecord):
        dataset = kind(tmp_path / "photos", transform=FIXED)
        many: Any = ConcatDataset([dataset] * 1250)
        fork = {"num_workers": 2, "multiprocessing_context": "fork"}
        assert lines(many, **fork)[-1] == forked
        for options in (fork | {"num_workers": 1}, fork | {"multiprocessing_context": "spawn"}):
            assert lines(many, **options)[-1] == "workers: threads: all is fused"
        assert lines(many, workers="threads", **fork)[-1] == "workers: threads: all is fused"
        assert lines(Subset(many, range(9_999)), **fork)[-1] == "workers: threads: all is fused"
    odd = ImageFolder(tmp_path / "photos", transform=FIXED)
    odd.samples = [("\0", 0)] * 10_000
    assert lines(odd, **fork)[-1] == "workers: threads: all is fused"  # reading a sample raises the error
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert lines(many, **fork)[-1] == "workers: threads: all is fused"


def test_small_images_of_an_array() -> None:
    """Whole batches are made by threads; images that are changed one by one, by processes."""
    for transforms, where in (([], "threads"), ([v1.RandomRotation(9)], "processes")):
        dataset: Any = object.__new__(CIFAR10)
        dataset.data, dataset.targets = np.zeros((10_000, 32, 32, 3), np.uint8), [0] * 10_000
        dataset.transform = v1.Compose([v1.RandomCrop(32, 4), *transforms, v1.ToTensor()])
        dataset.target_transform = None
        assert lines(dataset, num_workers=2, multiprocessing_context="fork")[-1].startswith(f"workers: {where}: ")


def test_what_is_not_fused_and_why(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=v1.Compose([v1.Resize(30), v1.Grayscale(1), v1.CenterCrop(24)]))
    fused, *said, draws, _ = lines(dataset)[2:]
    assert fused.startswith("fused: Resize(size=30")
    assert said == [
        "not fused: Grayscale(num_output_channels=1): it makes images of one channel; runs for each sample, as written",
        "not fused: CenterCrop(size=(24, 24)): it comes behind one that is not fused; runs for each sample, as written",
    ]
    assert draws.startswith("what is not fused draws random numbers from the generators of its process")
    assert lines(dataset, collate_fn=list)[-1] == (
        "workers: threads: of your own code there is only collate_fn list, which one more thread runs"
    )
    chain = [v1.Resize((30, 30)), v1.Lambda(lambda image: image), v1.CenterCrop(24), v1.ToTensor()]
    said = lines(ImageFolderRecord(tree, transform=v1.Compose(chain)))
    assert [line.partition(":")[0] for line in said[2:-2]] == ["fused", "not fused", *["fused at the end"] * 2]


def test_several_datasets_views_and_what_else_is_said(tree: Path) -> None:
    one = ImageFolderRecord(tree, transform=FIXED)
    other = ImageFolderRecord(tree, transform=MultiView([FIXED, v1.Compose([UINT8, v1.Lambda(id)])]))
    said = lines(ConcatDataset([one, other]))
    assert said[2] == "dataset 0: ImageFolderRecord"
    assert said.index("dataset 1: ImageFolderRecord") == 7
    assert sum(line.startswith("view ") for line in said) == 2
    whole = ImageFolderRecord(tree, transform=v1.ToTensor(), target_transform=float)
    assert any(line.startswith("not fused: target_transform <class 'float'>") for line in lines(whole))
    assert lines(Samples("small"))[0] == (
        "not fused: Samples makes its samples itself; each sample is taken from Samples, as it gives it"
    )


def test_printing_changes_nothing(tree: Path) -> None:
    """Neither the process's random numbers nor the epoch."""
    loader = RecordLoader(ImageFolderRecord(tree, transform=JITTER), 8, seed=1)
    before = torch.get_rng_state(), random.getstate(), loader.state_dict()
    str(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), loader.state_dict()) == before[1:]
    assert loader.state_dict()["epoch"] == 0
