"""Small stored images: crops and flips of whole batches give the pixels and labels of torchvision's classes."""

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.datasets as tv
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision import transforms as v1
from torchvision.transforms import v2

from recordzoo import MultiView, RecordLoader, RecordReader
from recordzoo.errors import CorruptRecordError
from tests.batching import MEAN, STD, assert_same
from tests.contract import DECLARED, Row

pytestmark = pytest.mark.usefixtures("threads")

RGB = {"CIFAR10", "CIFAR100", "STL10", "SVHN"}
ARRAYS = sorted({"EMNIST", "FashionMNIST", "KMNIST", "MNIST", "QMNIST", "SEMEION", "USPS"} | RGB)

ROWS = [next(row for row in DECLARED if row.name.split()[0] == name) for name in ARRAYS]

RANDOM = v1.Compose([v1.RandomCrop(32, padding=4), v1.RandomHorizontalFlip(), v1.PILToTensor()])


def fixed(name: str) -> dict[str, Any]:
    """Return transforms of one result each, for images of a dataset."""
    mean, std = (MEAN, STD) if name in RGB else ((0.1307,), (0.3081,))
    finish = [v1.ToTensor(), v1.Normalize(mean, std)]
    return {
        "values": v1.Compose(finish),
        "padded": v1.Compose([v1.CenterCrop((40, 45)), v1.RandomHorizontalFlip(1.0), *finish]),
        "upended": v2.Compose([v2.Pad([1, 2, 3, 4]), v2.RandomVerticalFlip(1.0), v2.CenterCrop(30), *finish]),
        "cut": v1.Compose([v1.RandomHorizontalFlip(1.0), v1.CenterCrop((13, 9)), v1.PILToTensor()]),
        "v2": v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(1.0), v2.ToDtype(torch.float32, scale=True)]),
    }


# Any: datasets and transforms of all kinds.
def of_random(name: str = "CIFAR10", count: int = 50) -> Any:
    """Return a dataset of torchvision's class with random images."""
    kind = getattr(tv, name)
    made, rng = object.__new__(kind), np.random.default_rng(0)
    made.root, made.transform, made.target_transform, made.transforms = "nowhere", RANDOM, None, None
    shape = (32, 32, 3) if name in RGB else (32, 32)
    made.data, made.targets = rng.integers(0, 256, (count, *shape), np.uint8), rng.integers(0, 9, count).tolist()
    if name == "MNIST":
        made.data, made.targets = torch.from_numpy(made.data), torch.tensor(made.targets)
    return made


def is_compiled(dataset: Any) -> bool:
    return "not fused" not in str(RecordLoader(dataset, 8))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("row", ROWS, ids=ARRAYS)
def test_batches_are_torchvisions(tmp_path: Path, row: Row, memory_format: torch.memory_format) -> None:
    name = row.name.split()[0]
    theirs, ours = row.build(tmp_path, "archive").both(**row.arguments)
    for transform in fixed(name).values():
        theirs.transform = ours.transform = transform
        right = list(DataLoader(theirs, 5))
        for dataset in (theirs, ours):
            if name != "QMNIST":  # its labels have eight numbers
                assert is_compiled(dataset)
            assert_same(list(RecordLoader(dataset, 5, num_workers=2, memory_format=memory_format)), right)


def test_images_that_were_read_stay_in_memory_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (RecordReader.kept_bytes, 100):
        monkeypatch.setattr(RecordReader, "kept_bytes", limit)
        fake = ROWS[ARRAYS.index("CIFAR10")].build(tmp_path / str(limit), "archive")
        dataset = fake.both(transform=v1.PILToTensor())[1]
        first = list(RecordLoader(dataset, 5))
        os.truncate(dataset.records_path / "shard-00000.lmdb", 0)
        with contextlib.nullcontext() if limit > 100 else pytest.raises(CorruptRecordError):
            assert_same(list(RecordLoader(dataset, 5)), first)


@pytest.mark.parametrize("name", ["CIFAR10", "MNIST"])
def test_random_crops_and_flips_are_some_of_torchvisions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result is a crop of the padded image, maybe flipped; of 50 images nearly all are in other places."""
    dataset = of_random(name)
    ((images, _),) = RecordLoader(dataset, 50, seed=3)
    places = set()
    for image, stored in zip(images, dataset.data, strict=True):
        pixels = torch.as_tensor(stored).reshape(32, 32, -1).permute(2, 0, 1)
        padded = torch.nn.functional.pad(pixels, (4, 4, 4, 4))
        crops = {(y, x): padded[:, y : y + 32, x : x + 32] for y in range(9) for x in range(9)}
        found = [
            (*place, is_flipped)
            for place, crop in crops.items()
            for is_flipped in (False, True)
            if torch.equal(crop.flip(2) if is_flipped else crop, image)
        ]
        assert len(found) == 1
        places.add(found[0])
    assert len(places) > 40
    assert {y for y, _, _ in places} == {x for _, x, _ in places} == set(range(9))
    monkeypatch.setenv("RECORDZOO_COMPILE", "off")
    assert_same(list(RecordLoader(dataset, 50, seed=3)), [[images, torch.as_tensor(dataset.targets)]])


def test_subsets_concatenations_and_views() -> None:
    first, second = of_random(), of_random(count=20)
    both = ConcatDataset([Subset(first, range(9, 40)), second])
    padded, cut = fixed("CIFAR10")["padded"], fixed("CIFAR10")["cut"]
    for transform in (padded, MultiView([padded, cut])):
        first.transform = second.transform = transform
        assert is_compiled(both)
        assert_same(list(RecordLoader(both, 8, num_workers=2)), list(DataLoader(both, 8)))


def test_what_was_changed_counts_from_the_next_epoch() -> None:
    for name in ("CIFAR10", "MNIST"):
        dataset = of_random(name)
        dataset.transform = v1.PILToTensor()
        loader = RecordLoader(dataset, 50)
        list(loader)
        dataset.data[3] = 7
        dataset.targets[4] = 99
        dataset.target_transform = lambda label: -label
        assert_same(list(loader), list(DataLoader(dataset, 50)))
        dataset.data, dataset.targets = dataset.data[:9, :20], dataset.targets[:9]  # rows with gaps between them
        assert_same(list(loader), list(DataLoader(dataset, 50)))
        dataset.data, dataset.targets = of_random(name, 12).data, [5] * 12
        assert_same(list(loader), list(DataLoader(dataset, 50)))


class Inverted(tv.CIFAR10):  # type: ignore[misc]  # torchvision is untyped
    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return 255 - image, label


class Mirrored(tv.CIFAR10):  # type: ignore[misc]
    @property
    def data(self) -> Any:
        return vars(self)["data"][:, :, ::-1]


def custom(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples]).sum(), len(samples)


@pytest.mark.parametrize("name", ["CIFAR10", "MNIST"])
def test_what_is_not_known_runs_as_written(name: str) -> None:
    dataset = of_random(name)
    dataset.transform = v1.PILToTensor()
    assert_same(list(RecordLoader(dataset, 9, collate_fn=custom)), list(DataLoader(dataset, 9, collate_fn=custom)))
    for first in ([v1.Lambda(lambda image: image.rotate(90))], [v1.CenterCrop(10), v1.Pad(5), v1.CenterCrop(16)]):
        dataset.transform = v1.Compose([*first, v1.PILToTensor()])
        assert_same(list(RecordLoader(dataset, 9)), list(DataLoader(dataset, 9)))
    for kind in (Inverted, Mirrored) if name == "CIFAR10" else ():
        dataset.__class__ = kind
        dataset.transform = v1.PILToTensor()
        assert not is_compiled(dataset)
        assert_same(list(RecordLoader(dataset, 9)), list(DataLoader(dataset, 9)))


@pytest.mark.parametrize(
    ("name", "transforms", "error", "message"),
    [
        ("MNIST", [v1.ToTensor(), v1.Normalize(MEAN, STD)], RuntimeError, "doesn't match the broadcast shape"),
        ("CIFAR10", [v1.RandomCrop(33), v1.ToTensor()], ValueError, r"size \(33, 33\) is larger than input .* \(32"),
    ],
    ids=["three means for one channel", "a crop that is too large"],
)
def test_errors_are_torchvisions(name: str, transforms: list[Any], error: type[Exception], message: str) -> None:
    dataset = of_random(name)
    dataset.transform = v1.Compose(transforms)
    for kind in (DataLoader, RecordLoader):
        with pytest.raises(error, match=message):
            list(kind(dataset, 9))
