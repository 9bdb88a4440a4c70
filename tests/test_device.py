"""Batches on a device: one ahead, in order, errors too; on a real one where there is one."""

from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.loader.epochs import Wanted
from recordzoo.loader.iteration import OnDevice, tensors, to_device
from tests.batching import FIXED, JITTER, RANDOM, assert_same

CPU = torch.device("cpu")
NONE = np.empty(0, np.int64)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

# Any, here and below: batches of all kinds.


class Host:
    """Batches 0, 1, 2, ...; some of them are errors, and as many are ready as is said."""

    def __init__(self, batches: list[Any], ready: int) -> None:
        self.batches, self.ready, self.taken, self.is_closed = batches, ready, 0, False
        self.marked: list[int] = []

    def take(self) -> tuple[Any, Wanted]:
        if self.taken == len(self.batches):
            raise StopIteration
        number, self.taken = self.taken, self.taken + 1
        if isinstance(self.batches[number], Exception):
            raise self.batches[number]
        return self.batches[number], Wanted(NONE, NONE, (0, 0), lambda: self.marked.append(number), NONE, NONE)

    def is_ready(self) -> bool:
        return self.taken < min(self.ready, len(self.batches))

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("ready", [0, 1, 3, 9])
def test_in_order_and_one_ahead(ready: int) -> None:
    host = Host([*map(torch.tensor, range(5)), LookupError("mine")], ready)
    moved = OnDevice(host, CPU, lambda batch, wanted: batch + 10)
    for number in range(5):
        assert int(next(moved)) == 10 + number
        assert host.marked == list(range(number + 1))  # what the user has got, not what was moved
        assert host.taken == (number + 2 if number + 2 <= ready else number + 1)
    with pytest.raises(LookupError, match="mine"):
        next(moved)
    assert list(moved) == []


class Pair(NamedTuple):
    left: Any
    right: Any


def test_batches_of_all_kinds_are_moved() -> None:
    batch = {
        "a": [torch.ones(2), "text", 3],
        "b": (torch.zeros(1), None),
        "c": Pair(torch.ones(1), {"d": torch.ones(3)}),
    }
    moved = to_device(batch, torch.device("meta"))
    assert [tensor.device.type for tensor in tensors(moved)] == ["meta"] * 4
    assert moved["a"][1:] == ["text", 3]
    assert type(moved["b"]) is tuple
    assert type(moved["c"]) is Pair
    assert len(list(tensors(batch))) == 4


# The loader


NORMALISED = v2.Compose([RANDOM, v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)])


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("transform", [RANDOM, NORMALISED, FIXED, JITTER], ids=["uint8", "float", "fixed", "unknown"])
def test_to_a_device_that_only_has_shapes(tree: Path, transform: Any, memory_format: torch.memory_format) -> None:
    """The way of a batch to a device, wherever the tests run: torch's "meta" device has all but the values."""
    dataset = ImageFolderRecord(tree, transform=transform)
    right = list(RecordLoader(dataset, 8, memory_format=memory_format))
    loader = RecordLoader(dataset, 8, memory_format=memory_format, device="meta")
    found = list(loader)
    assert len(found) == len(right)
    for (images, labels), (right_images, right_labels) in zip(found, right, strict=True):
        assert {images.device.type, labels.device.type} == {"meta"}
        assert (images.shape, images.dtype) == (right_images.shape, right_images.dtype)
        assert images.stride() == right_images.stride()
        assert (labels.shape, labels.dtype) == (right_labels.shape, right_labels.dtype)
    assert "device='meta'" in repr(loader)


# A real one


@needs_cuda
@pytest.mark.parametrize("transform", [RANDOM, NORMALISED, FIXED, JITTER], ids=["uint8", "float", "fixed", "unknown"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_cuda(tree: Path, transform: Any, memory_format: torch.memory_format) -> None:
    dataset = ImageFolderRecord(tree, transform=transform)
    options: dict[str, Any] = {"seed": 1, "memory_format": memory_format, "deterministic": True, "num_workers": 3}
    right = list(RecordLoader(dataset, 8, **options))
    kept = list(RecordLoader(dataset, 8, device="cuda", **options))
    assert {tensor.device.type for tensor in tensors(kept)} == {"cuda"}
    found = to_device(kept, CPU)
    for (images, labels), (right_images, right_labels) in zip(found, right, strict=True):
        assert_same(labels, right_labels)
        assert images.dtype is right_images.dtype
        assert (images.float() - right_images.float()).abs().max() < 1e-5


@needs_cuda
def test_pinned_memory_is_not_overwritten_while_it_is_copied(tree: Path) -> None:
    """The user copies without waiting, lets go of the batch, and takes the next one."""
    dataset = ImageFolderRecord(tree, transform=RANDOM)
    options: dict[str, Any] = {"seed": 1, "num_workers": 4, "prefetch_factor": 4}
    unpinned = RecordLoader(dataset, 4, **options)
    right = list(chain(unpinned, unpinned, unpinned))
    loader = RecordLoader(dataset, 4, pin_memory=True, **options)
    stream = torch.cuda.Stream()
    found = []
    with torch.cuda.stream(stream):
        for images, _ in chain(loader, loader, loader):
            torch.cuda._sleep(2_000_000)  # the copy waits behind this
            found.append(images.to("cuda", non_blocking=True))
    stream.synchronize()
    assert all(torch.equal(one.cpu(), other) for one, (other, _) in zip(found, right, strict=True))
