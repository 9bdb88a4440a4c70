"""How a batch leaves a worker process."""

import multiprocessing.reduction
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torchvision import tv_tensors

from recordzoo.loader.workers import Sent

BOXES = tv_tensors.BoundingBoxes(torch.rand(3, 4), format="XYWH", canvas_size=(5, 6))


def sent(batch: Any) -> Any:
    """Send a batch, as torch's queue between processes does."""
    return pickle.loads(ForkingPickler.dumps(Sent(batch)))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The file descriptors of memory that was shared."""
    given: list[int] = []
    real = multiprocessing.reduction.DupFd
    monkeypatch.setattr(multiprocessing.reduction, "DupFd", lambda fd: given.append(fd) or real(fd))
    return given


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12).reshape(3, 4).t(),
        torch.empty(0, 4),
        torch.tensor([1 + 2j]).conj(),
        torch.nn.Parameter(torch.ones(2)),
        torch.tensor([[0.0, 1.0]]).to_sparse(),
        torch.zeros(300, 300)[:, ::2],
        BOXES,
        tv_tensors.Mask(torch.ones(2, 2, dtype=torch.bool)),
    ],
    ids=lambda tensor: f"{type(tensor).__name__} {tensor.dtype} {list(tensor.shape)}",
)
def test_a_tensor_is_the_same(tensor: torch.Tensor) -> None:
    got = sent({"of": [tensor]})["of"][0]
    assert type(got) is type(tensor)
    assert (got.dtype, got.shape, got.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    assert got.layout == tensor.layout
    assert torch.equal(got.to_dense(), tensor.to_dense())
    assert getattr(got, "__dict__", None) == getattr(tensor, "__dict__", None)


def test_small_tensors_are_not_shared_and_large_memory_is_once(shared: list[int]) -> None:
    images, few = torch.rand(8, 3, 64, 64), torch.arange(6)
    got_images, got_few, boxes = sent((list(images), [few[:3], few[3:]], [BOXES] * 8))
    assert len(shared) == 1
    assert torch.equal(torch.stack(got_images), images)
    assert len({image.untyped_storage().data_ptr() for image in got_images}) == 1
    assert got_images[0].is_shared()
    got_few[0][0] = 9
    assert got_few[1].tolist() == [3, 4, 5]
    assert got_few[0].untyped_storage().data_ptr() == got_few[1].untyped_storage().data_ptr()
    assert boxes[7].canvas_size == (5, 6)
