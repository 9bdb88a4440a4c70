"""Memory of batches: used again when nobody holds the batch, and never before."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.errors import ImageError
from recordzoo.loader import samples
from recordzoo.loader.loader import batch_options
from recordzoo.loader.samples import Buffers, RowMaker, maker_of
from tests.batching import FIXED, RANDOM, UINT8, image_file
from tests.fakes.folder import bad_image, write_tree

# Any: of what is kept of a batch.


pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=RANDOM)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "keep",
    [
        lambda images: images,
        lambda images: images[1],
        lambda images: images[:, :1, 2:, 3:5],
        lambda images: images.numpy(),
        lambda images: images.numpy()[0, 0],
        lambda images: images.permute(0, 2, 3, 1)[1:, 3],
        lambda images: memoryview(images.numpy()),
        lambda images: images.untyped_storage()[:999],
        lambda images: torch.utils.dlpack.from_dlpack(images),
        lambda images: images.detach(),
        lambda images: (images if images.stride(-1) == 1 else images.permute(0, 2, 3, 1)).view(torch.int8),
    ],
)
@pytest.mark.parametrize("transform", [RANDOM, FIXED])
def test_what_is_kept_of_a_batch_is_never_overwritten(
    dataset: Any, transform: Any, keep: Callable[[torch.Tensor], Any], layout: torch.memory_format, persistent: bool
) -> None:
    dataset.transform = transform
    options: dict[str, Any] = {"seed": 1, "memory_format": layout, "drop_last": True}
    loader = RecordLoader(dataset, 8, num_workers=3, prefetch_factor=4, persistent_workers=persistent, **options)
    kept = [keep(images) for _ in range(2) for images, _ in loader]
    again = RecordLoader(dataset, 8, num_workers=1, **options)
    right = [keep(images.clone(memory_format=torch.preserve_format)) for _ in range(2) for images, _ in again]
    assert [each.tolist() for each in kept] == [each.tolist() for each in right]


def test_a_loader_takes_its_memory_again(dataset: Any) -> None:
    loader = RecordLoader(dataset, 2, num_workers=2, seed=1)
    assert isinstance(maker_of(batch_options(loader)), RowMaker)
    addresses = {images.data_ptr() for images, _ in loader}
    assert len(addresses) <= 5 < len(loader)  # one at the user, one that is dropped, three in the making


@pytest.mark.parametrize("persistent", [False, True])
def test_memory_is_kept_between_epochs_if_that_is_asked_for(
    dataset: Any, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    new = samples.allocate
    monkeypatch.setattr(
        samples, "allocate", lambda shape, *how, **given: made.append(shape[0]) or new(shape, *how, **given)
    )
    loader = RecordLoader(dataset, 2, seed=1, persistent_workers=persistent)
    for epoch in range(3):
        made.clear()
        assert [images.dtype for images, _ in loader] == [torch.uint8] * len(loader)
        assert bool(made) == (epoch == 0 or not persistent)
    dataset.transform = FIXED  # batches of other numbers: the memory is of no use
    assert {images.dtype for images, _ in loader} == {torch.float32}


@pytest.mark.parametrize("num_workers", [1, 3])
def test_no_memory_before_the_first_sample(tmp_path: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = Buffers.take
    monkeypatch.setattr(Buffers, "take", lambda self, count: taken.append(count) or take(self, count))
    write_tree(tmp_path, {"a/0.jpg": bad_image(), "a/1.jpg": image_file(1)})
    dataset = ImageFolderRecord(tmp_path, transform=UINT8)
    with pytest.raises(ImageError):
        list(RecordLoader(dataset, 100, sampler=[0] * 100, num_workers=num_workers, prefetch_factor=0))
    assert taken == []
    assert len(list(RecordLoader(dataset, 100, sampler=[1] * 200, num_workers=num_workers, prefetch_factor=0))) == 2
    assert taken == [100, 100]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_pinned_memory_is_torchs(dataset: Any) -> None:
    """It must not be written to while a copy to the device is under way that nobody waits for."""
    assert all(images.is_pinned() for images, _ in RecordLoader(dataset, 4, pin_memory=True))
