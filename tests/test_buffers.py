"""Memory of batches: used again when nobody holds the batch, and never before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.loader.loader import batch_options
from recordzoo.loader.samples import RowMaker, maker_of
from tests.batching import FIXED, RANDOM

# Any: of what is kept of a batch.


pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=RANDOM)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "keep",
    [
        lambda images: images,
        lambda images: images[:, :1, 2:, 3:5],
        lambda images: images.numpy(),
        lambda images: images.permute(0, 2, 3, 1)[1:, 3],
        lambda images: memoryview(images.numpy()),
        lambda images: images.untyped_storage()[:999],
        lambda images: torch.utils.dlpack.from_dlpack(images),
        lambda images: (images if images.stride(-1) == 1 else images.permute(0, 2, 3, 1)).view(torch.int8),
    ],
)
@pytest.mark.parametrize("transform", [RANDOM, FIXED])
def test_what_is_kept_of_a_batch_is_never_overwritten(
    dataset: Any, transform: Any, keep: Callable[[torch.Tensor], Any], layout: torch.memory_format
) -> None:
    dataset.transform = transform
    options: dict[str, Any] = {"seed": 1, "memory_format": layout, "drop_last": True}
    loader = RecordLoader(dataset, 8, num_workers=3, prefetch_factor=4, **options)
    kept = [keep(images) for _ in range(2) for images, _ in loader]
    again = RecordLoader(dataset, 8, num_workers=1, **options)
    right = [keep(images.clone(memory_format=torch.preserve_format)) for _ in range(2) for images, _ in again]
    assert [each.tolist() for each in kept] == [each.tolist() for each in right]


def test_a_loader_takes_its_memory_again(dataset: Any) -> None:
    loader = RecordLoader(dataset, 2, num_workers=2, seed=1)
    assert isinstance(maker_of(batch_options(loader)), RowMaker)
    addresses = {images.data_ptr() for images, _ in loader}
    assert len(addresses) <= 5 < len(loader)  # one at the user, one that is dropped, three in the making
    dataset.transform = FIXED  # batches of other numbers: the memory is of no use
    assert {images.dtype for images, _ in loader} == {torch.float32}
