"""Memory of batches: used again when nobody holds the batch, and never before."""

import gc
import threading
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
from tests.batching import FIXED, RANDOM, UINT8, assert_same, image_file
from tests.fakes.folder import bad_image, write_tree

# Any: of what is kept of a batch.


pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=RANDOM)


def filled(buffers: Buffers, count: int, value: int) -> torch.Tensor:
    return buffers.take(count).fill_(value)


def make_buffers(limit: int = 4, **options: Any) -> Buffers:
    given = {"dtype": torch.uint8, "memory_format": torch.contiguous_format, "pinned": False, **options}
    return Buffers((3, 8, 9), limit=limit, **given)


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
        lambda images: images.untyped_storage(),
        lambda images: torch.utils.dlpack.from_dlpack(images),
        lambda images: images.detach(),
        lambda images: images.view(torch.int8),
    ],
)
def test_what_is_kept_of_a_batch_is_never_overwritten(keep: Callable[[torch.Tensor], Any]) -> None:
    for memory_format in (torch.contiguous_format, torch.channels_last):
        if memory_format is torch.channels_last:
            buffers = make_buffers(memory_format=memory_format)
            kept = [filled(buffers, 4, value)[2] for value in range(20)]
        else:
            buffers = make_buffers()
            kept = [keep(filled(buffers, 4, value)) for value in range(20)]
        for value, each in enumerate(kept):
            numbers = torch.tensor(each.tolist())
            assert bool((numbers == value).all())
            assert numbers.numel()


def test_memory_is_used_again() -> None:
    buffers = make_buffers(limit=2)
    first = buffers.take(4)
    address, other = first.data_ptr(), buffers.take(3).data_ptr()
    del first
    again = [buffers.take(4), buffers.take(4)]
    assert again[0].data_ptr() == address
    assert again[1].data_ptr() != address
    assert buffers.take(3).data_ptr() == other
    kept = {each.data_ptr() for each in (*again, *(buffers.take(4) for _ in range(5)))}
    del again
    gc.collect()
    assert len({each.data_ptr() for each in [buffers.take(4), buffers.take(4)]} & kept) == 2


def test_no_more_is_kept_than_the_limit() -> None:
    buffers = make_buffers(limit=3)
    held = [buffers.take(4) for _ in range(10)]
    held.clear()
    assert sum(map(len, buffers._free.values())) == 3


def test_memory_may_come_back_in_any_thread() -> None:
    buffers = make_buffers(limit=10)
    wrong: list[int] = []

    def work(value: int) -> None:
        for _ in range(300):
            images = filled(buffers, 2, value)
            if not bool((images == value).all()):
                wrong.append(value)

    workers = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


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


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("transform", [RANDOM, FIXED])
def test_a_loader_does_not_overwrite_what_is_kept(dataset: Any, transform: Any, persistent: bool) -> None:
    dataset.transform = transform
    loader = RecordLoader(dataset, 4, num_workers=3, seed=1, prefetch_factor=4, persistent_workers=persistent)
    kept = [batch for _ in range(3) for batch in loader]
    copies = [
        [each.clone() for each in batch] for epoch in range(3) for _ in [loader.set_epoch(epoch)] for batch in loader
    ]
    assert_same(kept, copies)


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
def test_pinned_memory_is_torchs() -> None:
    """It must not be written to while a copy to the device is under way that nobody waits for."""
    buffers = make_buffers(pinned=True)
    assert buffers.take(4).is_pinned()
