"""`RecordLoader` gives the batches of DataLoader, whatever the number of threads, and goes on where it was left."""

import json
import random
from collections import Counter, namedtuple
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    random_split,
)
from torchvision import transforms as v1
from torchvision.transforms import v2

from recordzoo import ImageFolderRecord, MultiView, RecordLoader, RecordReader, RecordSampler, convert
from recordzoo.errors import ArgumentError, CorruptRecordError, ImageError, SampleIndexError
from recordzoo.loader.loader import batch_options
from recordzoo.loader.samples import RowMaker, SampleMaker, maker_of
from recordzoo.loader.source import Source
from tests.batching import FIXED, JITTER, RANDOM, UINT8, assert_same, image_file
from tests.fakes.folder import bad_image, cut_image, write_tree
from tests.fakes.records import flip_byte, place_of
from tests.fakes.samples import Samples
from tests.sampling import loader_of_rank

# Any, here and below: of loaders, datasets and batches of all kinds.


pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=RANDOM)


def compare(dataset: Any, **options: Any) -> list[Any]:
    """Compare with DataLoader's batches."""
    found = list(RecordLoader(dataset, **options))
    assert_same(found, list(DataLoader(dataset, **{**options, "num_workers": 0})))
    return found


def maker_type(loader: RecordLoader) -> type:
    return type(maker_of(batch_options(loader)))


# As DataLoader


@pytest.mark.parametrize("transform", [FIXED, UINT8, v1.Compose([UINT8, v1.ConvertImageDtype(torch.float32)])])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"batch_size": 7, "drop_last": True}, {"batch_size": 100}])
def test_batches(tree: Path, transform: Any, options: dict[str, Any]) -> None:
    dataset = ImageFolderRecord(tree, transform=transform)
    for num_workers in (1, 3):
        loader = RecordLoader(dataset, num_workers=num_workers, **options)
        assert maker_type(loader) is RowMaker
        assert len(loader) == len(DataLoader(dataset, **options))
        batches = compare(dataset, num_workers=num_workers, **options)
        assert len(batches) == len(loader)
        assert all(type(batch) is list and batch[1].dtype is torch.int64 for batch in batches)


NOT_ROWS = {
    "no transform": (None, lambda samples: samples),
    "pictures": (v1.CenterCrop(20), lambda samples: samples),
    "of all sizes": (v1.ToTensor(), lambda samples: samples),
    "unknown": (v1.Compose([UINT8, v1.Lambda(lambda image: image.float().mean((1, 2)))]), None),
    "unknown first": (v1.Compose([v1.Pad(2, padding_mode="edge"), FIXED]), None),
    "tv_tensors": (v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)]), lambda samples: samples),
    "a dict": (v1.Compose([FIXED, lambda image: {"image": image, "size": (1, 2.5)}]), None),
    "NumPy": (np.asarray, lambda samples: samples),
}


@pytest.mark.parametrize("name", NOT_ROWS)
def test_samples(tree: Path, name: str) -> None:
    transform, collate = NOT_ROWS[name]
    dataset = ImageFolderRecord(tree, transform=transform)
    for num_workers in (1, 3):
        options = {"batch_size": 1 if collate is None and name.startswith("of all") else 6, "collate_fn": collate}
        loader = RecordLoader(dataset, num_workers=num_workers, **options)
        assert maker_type(loader) is SampleMaker
        found = [list(each) for each in loader]
        right = [list(each) for each in DataLoader(dataset, **options)]
        assert_same(found, right)


@pytest.mark.parametrize(
    "target_transform",
    [
        str,
        lambda label: {"label": label, "boxes": np.full((2, 4), label), "name": "x"},
        lambda label: (label, [label, 0.5]),
        lambda label: torch.tensor([label, 1]),
        lambda label: np.float32(label),
        namedtuple("Target", "label").__call__,
    ],
)
def test_targets(tree: Path, target_transform: Callable[[int], Any]) -> None:
    for transform in (FIXED, v1.Compose([FIXED, torch.neg])):
        dataset = ImageFolderRecord(tree, transform=transform, target_transform=target_transform)
        compare(dataset, batch_size=8, num_workers=2)
        both = ConcatDataset([dataset, Subset(dataset, [3, 4])])
        compare(both, batch_size=8, num_workers=2)


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": [3, 1, 40, 0, 3]},
        {"sampler": range(0, 41, 3), "batch_size": 4, "drop_last": True},
        {"sampler": torch.arange(5)},
        {"sampler": [-1, -41]},
        {"batch_sampler": [[1], [2, 3, 4], [0] * 9]},
        {"batch_sampler": BatchSampler(SequentialSampler(range(41)), 9, drop_last=True)},
    ],
)
def test_samplers(tree: Path, options: dict[str, Any]) -> None:
    dataset = ImageFolderRecord(tree, transform=FIXED)
    compare(dataset, **options)
    assert len(RecordLoader(dataset, **options)) == len(DataLoader(dataset, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None"),
        ({"worker_init_fn": print, "workers": "threads"}, "worker_init_fn=.*Leave one of them out"),
        ({"batch_transform": 3}, "batch_transform=3 is no function"),
        ({"workers": "fibers"}, "workers=.fibers. is not one of"),
        ({"drop_cache": True, "sampler": RecordSampler(range(9))}, "drop_cache"),
        ({"deterministic": "no"}, "deterministic='no' must be True or False"),
        ({"sampler": [1], "shuffle": True}, "sampler"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler"),
        ({"precision": "best"}, "precision='best' is not one of 'exact', 'fast'"),
        ({"memory_format": torch.preserve_format}, "memory_format"),
        ({"shuffle": "blocks"}, "shuffle='blocks'"),
        ({"dataset": [], "shuffle": True}, "list has no samples"),
        ({"num_workers": -1}, "num_workers=-1"),
        ({"timeout": -1}, "timeout=-1"),
        ({"prefetch_factor": -1}, "prefetch_factor=-1"),
        ({"drop_cache": True}, "drop_cache"),
        ({"seed": "a"}, "seed='a' must be a whole number"),
        ({"prefetch_factor": 1.5}, "prefetch_factor=1.5 must be a whole number"),
        ({"on_error": "skp"}, "on_error='skp' is not one of 'raise', 'skip'"),
        ({"device": "gpu"}, "device='gpu' is not a torch device"),
        ({"device": "cuda:99"}, r"device=.*99.*: this process sees \d CUDA devices .* Leave device out"),
    ],
)
def test_bad_arguments(dataset: ImageFolderRecord, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RecordLoader(**{"dataset": dataset, **options})


@pytest.mark.parametrize("kind", [np.int64, torch.tensor, float])
def test_numbers_of_other_types_are_converted(kind: Any) -> None:  # shuffle=1 is not the order of the dataset
    found = RecordLoader(range(41), kind(4), kind(1), drop_last=kind(1), seed=kind(3), num_workers=1)
    assert_same(list(found), list(RecordLoader(range(41), 4, True, drop_last=True, seed=3, num_workers=1)))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def test_a_stream_is_refused() -> None:
    with pytest.raises(ArgumentError, match="Stream has no samples by number"):
        RecordLoader(Stream())


def test_memory_format(tree: Path) -> None:
    for transform in (RANDOM, FIXED):
        dataset = ImageFolderRecord(tree, transform=transform)
        right = list(RecordLoader(dataset, 8, seed=1))
        found = list(RecordLoader(dataset, 8, seed=1, memory_format=torch.channels_last))
        assert_same(found, right)
        assert all(images.is_contiguous(memory_format=torch.channels_last) for images, _ in found)
        assert all(images.is_contiguous() for images, _ in right)


# Datasets


def test_subsets_and_concatenations(tree: Path) -> None:
    one, other = ImageFolderRecord(tree, transform=FIXED), ImageFolderRecord(tree, transform=v1.Compose([FIXED]))
    parts = random_split(one, [20, 21], torch.Generator().manual_seed(1))
    nested = Subset(ConcatDataset([parts[1], other, Subset(one, range(3)), parts[0]]), [60, 0, -1, 22, 64, 21, 20, 61])
    for dataset in (*parts, ConcatDataset([one, other]), nested, Subset(one, torch.arange(4)), Subset(one, [])):
        loader = RecordLoader(dataset, batch_size=3, num_workers=2)
        if len(dataset):
            assert Source(dataset).leaves
            assert maker_type(loader) is RowMaker
        compare(dataset, batch_size=3)


def test_parts_with_other_transforms(tree: Path) -> None:
    one, other = ImageFolderRecord(tree, transform=UINT8), ImageFolderRecord(tree, transform=FIXED)
    sized = ImageFolderRecord(tree, transform=v1.Compose([v1.Resize((24, 20)), v1.ToTensor()]))
    compare(ConcatDataset([one, other]), batch_size=5, collate_fn=list)
    compare(ConcatDataset([sized, one]), batch_size=41)
    compare(ConcatDataset([other, TensorDataset(torch.ones(4, 3, 24, 24), torch.arange(4))]), batch_size=5)


@pytest.mark.parametrize(
    "kind", ["bytes", "pil-sizes", "small", "gray", "rgba", "chw", "boxes", "text", "float-target"]
)
def test_own_datasets(tmp_path: Path, kind: str) -> None:
    path = convert(Samples(kind, 20), tmp_path / "my.records", workers=1)
    for transform in (v1.Compose([v1.CenterCrop(16), v1.ToTensor()]), None):
        dataset = ImageFolderRecord(path, transform=None if kind == "chw" else transform)
        compare(dataset, batch_size=4, num_workers=2, collate_fn=lambda samples: samples)


@pytest.mark.parametrize("kind", ["half", "numbers", "three", "named", "dict"])
def test_anybodys_datasets(kind: str) -> None:
    compare(Samples(kind, 20), batch_size=6, collate_fn=list if kind in ("three", "named", "dict") else None)
    compare(TensorDataset(torch.arange(9), torch.ones(9, 2)), batch_size=4, num_workers=2)


# The same whoever makes them


def epochs(loader: Iterable[Any], count: int) -> list[Any]:
    return [list(loader) for _ in range(count)]


@pytest.mark.parametrize("shuffle", [False, True, "block"])
def test_any_number_of_threads(dataset: ImageFolderRecord, shuffle: Any) -> None:
    right = epochs(RecordLoader(dataset, 8, shuffle, seed=3, num_workers=1), 3)
    for num_workers, prefetch_factor in ((2, 1), (5, 4), (3, 0)):
        loader = RecordLoader(dataset, 8, shuffle, seed=3, num_workers=num_workers, prefetch_factor=prefetch_factor)
        assert_same(epochs(loader, 3), right)
    images = [torch.cat([images[labels.argsort(stable=True)] for images, labels in epoch]) for epoch in right]
    assert not torch.equal(images[0], images[1])


@given(
    st.sampled_from([False, True, "block"]),
    st.integers(0, 3),
    st.sampled_from([(1, 1), (1, 2), (2, 1), (4, 2), (3, 1), (2, 4), (6, 4)]),
    st.integers(0, 11),
    st.integers(0, 2),
)
@settings(max_examples=15)
def test_resumed_on_other_ranks(
    resumable: Subset[Any], shuffle: Any, steps: int, ranks: tuple[int, int], seed: int, epoch: int
) -> None:
    """The same samples, with the same crops, in each global batch; and then the next epoch."""

    def loaders(ranks: int, seed: int) -> list[RecordLoader]:
        made = []
        for rank in range(ranks):
            one = loader_of_rank(resumable, 12 // ranks, rank, ranks, shuffle=shuffle, seed=seed, num_workers=1)
            one.set_epoch(epoch)
            made.append(one)
        return made

    def batches(loaders: list[RecordLoader]) -> list[Counter[tuple[int, bytes]]]:
        found = []
        for parts in zip(*loaders, strict=True):
            samples = [each for images, labels in parts for each in zip(images, labels, strict=True)]
            found.append(Counter((int(label), image.numpy().tobytes()) for image, label in samples))
        return found

    right = batches(loaders(ranks[0], seed))
    states = []
    for loader in loaders(ranks[0], seed):
        assert len(list(islice(loader, steps))) == steps
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert all(state == states[0] for state in states)
    after = loaders(ranks[1], seed + 1)
    for loader in after:
        loader.load_state_dict(states[0])
    found = batches(after)
    if steps == len(right):
        assert after[0].state_dict()["epoch"] == epoch + 1
    else:
        assert found == right[steps:]


@pytest.fixture(scope="module")
def resumable(tree: Path) -> Subset[Any]:
    """36 samples: any number of ranks takes equally many."""
    transform = v1.Compose([v1.RandomCrop(9), v1.RandomHorizontalFlip(), v1.PILToTensor()])
    return Subset(ImageFolderRecord(tree, transform=transform), range(2, 38))


@pytest.mark.parametrize("kind", ["shuffled", "sampler", "batch_sampler"])
@pytest.mark.parametrize("steps", [0, 3, 6])
def test_resumed(dataset: ImageFolderRecord, kind: str, steps: int) -> None:
    """In the middle of an epoch the rest is the same; at its end, or before its beginning, a whole one."""

    def make(seed: int) -> RecordLoader:
        options: dict[str, Any] = {
            "shuffled": {"batch_size": 7, "shuffle": True},
            "sampler": {"batch_size": 7, "sampler": DistributedSampler(dataset, 1, 0, seed=5)},
            "batch_sampler": {"batch_sampler": [list(range(first, min(41, first + 7))) for first in range(0, 41, 7)]},
        }[kind]
        return RecordLoader(dataset, seed=seed, **options)

    loader = make(1)
    list(loader)
    loader.set_epoch(1)
    iterator = iter(loader)
    list(islice(iterator, steps))
    state = json.loads(json.dumps(loader.state_dict()))
    rest = list(iterator)
    loader.set_epoch(2)
    following = list(loader)
    resumed = make(2)
    resumed.load_state_dict(state)
    if steps < 6:
        assert_same(list(resumed), rest)
        resumed.set_epoch(2)
    assert_same(list(resumed), following)


def test_a_state_is_where_the_user_is(dataset: ImageFolderRecord) -> None:
    loader = RecordLoader(dataset, 4, prefetch_factor=5)
    for number, _ in enumerate(loader, 1):
        assert loader.state_dict()["consumed"] == min(41, 4 * number)
    assert len(json.dumps(loader.state_dict())) < 200


def noisy(label: int) -> tuple[int, float, float, float]:
    return label, random.random(), float(np.random.random()), float(torch.rand(()))


@pytest.mark.slow
@pytest.mark.parametrize("transform", [JITTER, RANDOM], ids=["not fused", "fused"])
def test_deterministic(tree: Path, transform: Any) -> None:
    dataset = ImageFolderRecord(tree, transform=transform, target_transform=noisy)

    def make(num_workers: int) -> RecordLoader:
        return RecordLoader(dataset, 8, True, seed=6, num_workers=num_workers, deterministic=True)

    def state() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()

    before = state()
    right = epochs(make(1), 2)
    assert state() == before
    torch.manual_seed(999)
    for num_workers in (2, 5):
        assert_same(epochs(make(num_workers), 2), right)
    loader, resumed = make(3), make(2)
    list(islice(iter(loader), 2))
    resumed.load_state_dict(loader.state_dict())
    assert_same([list(resumed), list(resumed)], [right[0][2:], right[1]])
    numbers = torch.cat([torch.stack(list(labels[1:]), 1) for _, labels in chain(*right)])
    assert len(numbers.unique(dim=0)) == 82
    assert len(numbers.unique()) == 3 * 82


def test_deterministic_for_any_dataset() -> None:
    class Noise(Samples):
        def __getitem__(self, index: int) -> Any:
            return torch.rand(4) + random.random()

    batches = [epochs(RecordLoader(Noise("small"), 8, seed=1, num_workers=n, deterministic=True), 2) for n in (1, 4)]
    assert_same(batches[0], batches[1])
    assert len(torch.cat(batches[0][0] + batches[0][1]).unique()) > 900


# Errors


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    files = {f"{number % 2}/{number:02d}.jpg": image_file(number) for number in range(30)}
    write_tree(tmp_path, {**files, "0/20.jpg": cut_image(), "1/27.jpg": bad_image()})
    ImageFolderRecord(tmp_path)
    return tmp_path


@pytest.mark.parametrize("transform", [RANDOM, JITTER, v1.Compose([]), None])
@pytest.mark.parametrize("num_workers", [1, 4])
def test_a_bad_record_is_named(broken: Path, transform: Any, num_workers: int) -> None:
    dataset = ImageFolderRecord(broken, transform=transform)
    names = [Path(path).name for path, _ in dataset.samples]
    loader = RecordLoader(
        dataset, 4, num_workers=num_workers, collate_fn=None if transform in (RANDOM, JITTER) else list
    )
    for _ in range(2):
        iterator = iter(loader)
        good = list(islice(iterator, names.index("20.jpg") // 4))
        assert len(good) == names.index("20.jpg") // 4
        with pytest.raises(ImageError, match=rf"sample {names.index('20.jpg')} \(0/20\.jpg\).*truncated") as raised:
            next(iterator)
        assert raised.value.details["path"].endswith(".records")
        assert len(list(islice(iterator, 4))) == 4
        with pytest.raises(ImageError, match=r"1/27\.jpg"):
            next(iterator)
        assert list(iterator) == []
    order = [index for index in range(30) if names[index] not in ("20.jpg", "27.jpg")]
    assert len(list(RecordLoader(Subset(dataset, order), 4, collate_fn=list))) == 7


def test_an_image_that_fails_while_it_is_decoded_is_named(tmp_path: Path) -> None:
    """Its header is right; behind that another image begins."""
    good = image_file(0)
    write_tree(tmp_path, {"0/0.jpg": good, "0/1.jpg": good[: len(good) // 2] + b"\xff\xd8\xff\xd9"})
    with pytest.raises(ImageError, match=r"sample 1 \(0/1\.jpg\).*broken data stream"):
        list(RecordLoader(ImageFolderRecord(tmp_path, FIXED), 2))


def test_a_flipped_bit_is_named(broken: Path) -> None:
    dataset = ImageFolderRecord(broken, transform=RANDOM)
    shard, start = place_of(dataset.records_path, 4)
    flip_byte(shard, start + 100)  # what is read is an image all the same
    with pytest.raises(CorruptRecordError, match=RecordReader(dataset.records_path).names[4]):
        list(RecordLoader(dataset, 4))


@pytest.mark.parametrize("where", ["transform", "target_transform"])
@pytest.mark.parametrize("rest", [v1.Compose([]), v1.Grayscale(3)])
def test_what_the_users_functions_raise(tree: Path, where: str, rest: Any) -> None:
    def fail(value: Any) -> Any:
        raise LookupError("no such thing")

    options = {"transform": v1.Compose([UINT8, rest]), where: fail}
    loader = RecordLoader(ImageFolderRecord(tree, **options), 4)
    with pytest.raises(LookupError, match="no such thing") as raised:
        list(loader)
    assert any("sample 0 (0/00.jpg)" in note for note in raised.value.__notes__)


@pytest.mark.parametrize("wrong", [41, -42])
def test_samples_that_do_not_exist_are_named(dataset: ImageFolderRecord, wrong: int) -> None:
    subset = Subset(dataset, [0, 1, wrong, 2])
    for workers in ("threads", "processes"):
        iterator = iter(RecordLoader(subset, 2, workers=workers, prefetch_factor=0))  # type: ignore[arg-type]
        assert len(next(iterator)[1]) == 2
        message = rf"^Subset\.indices: there is no sample {wrong} in ImageFolderRecord, which has 41 samples"
        with pytest.raises(SampleIndexError, match=message):
            next(iterator)
    for one, named in (
        (dataset, "ImageFolderRecord, which has 41"),
        (dataset + dataset, "ConcatDataset, which has 82"),
    ):
        with pytest.raises(SampleIndexError, match=f"^there is no sample 99 in {named} samples"):
            list(RecordLoader(one, sampler=[99]))


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("transform", [v1.ToTensor(), v1.Compose([v1.Lambda(lambda image: image), v1.PILToTensor()])])
def test_images_of_several_sizes_are_named(tree: Path, workers: Any, transform: Any) -> None:
    dataset = ImageFolderRecord(tree, transform=transform)
    with pytest.raises(ArgumentError, match=r"in shape: .*0/00\.jpg.* is 3 x 104 x 90; .*0/05\.jpg.* is 3 x 99 x"):
        list(RecordLoader(dataset, 4, workers=workers, num_workers=2))
    views = ImageFolderRecord(tree, transform=MultiView([FIXED, v1.ToTensor()]))
    with pytest.raises(ArgumentError, match=r"is 3 x 24 x 24, 3 x 104 x 90; .* is 3 x 24 x 24, 3 x"):
        list(RecordLoader(views, 4, workers=workers))


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("target", [0, 1, 3])
def test_a_sampler_that_raises(dataset: ImageFolderRecord, target: int, workers: Any) -> None:
    def batches() -> Iterator[list[int]]:
        yield from ([number] for number in range(target))
        raise LookupError("no more")

    iterator = iter(RecordLoader(dataset, batch_sampler=batches(), workers=workers, num_workers=2))  # type: ignore[arg-type]
    assert len(list(islice(iterator, target))) == target
    with pytest.raises(LookupError, match="no more"):
        next(iterator)


def test_no_two_places_have_the_same_crop(dataset: ImageFolderRecord) -> None:
    """Whoever says the order, and on whichever rank."""
    same = Subset(dataset, [3] * 40)
    of_samplers = [
        [RecordLoader(dataset, 4, sampler=[3] * 40, seed=1)],
        [RecordLoader(same, 4, sampler=DistributedSampler(same, 2, rank), seed=1) for rank in range(2)],
        [RecordLoader(same, 4, seed=1)],
        [loader_of_rank(same, 4, rank, 2, seed=1) for rank in range(2)],
    ]
    for loaders in of_samplers:
        images = [image.numpy().tobytes() for loader in loaders for images, _ in loader for image in images]
        assert len(set(images)) == len(images) == 40
