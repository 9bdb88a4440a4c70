"""Where a `DataLoader` is expected: class, attributes, what is made of these, single samples, keys of all kinds."""

import inspect
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    default_convert,
)
from torchvision import transforms as v1

from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from tests.batching import FIXED, UINT8, assert_same

# Any, here and below: of loaders, samples and batches of all kinds.

ARGUMENTS = [name for name in inspect.signature(DataLoader).parameters if name != "shuffle"]


pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=FIXED)


class Named:
    """A dataset whose keys are names; without a length, if that is wanted."""

    def __init__(self, names: str = "abcdefg") -> None:
        self.names = names

    def __getitem__(self, name: Any) -> Any:
        return {"name": name, "number": dict(zip(self.names, range(99), strict=False))[name]}


class Counted(Named):
    def __len__(self) -> int:
        return len(self.names)


# Its class and attributes


def test_it_is_a_dataloader(dataset: ImageFolderRecord) -> None:
    loader = RecordLoader(dataset, 4)
    stock = DataLoader(dataset, 4, num_workers=1)
    assert isinstance(loader, DataLoader)
    for name in vars(stock):
        assert name.startswith("_") or hasattr(loader, name), name
    of_workers = ("worker_init_fn", "multiprocessing_context", "prefetch_factor", "timeout", "persistent_workers")
    for name in ("batch_size", "collate_fn", "drop_last", "generator", "pin_memory", "in_order", *of_workers):
        assert getattr(loader, name) == getattr(stock, name), name
    assert (type(loader.batch_sampler), loader.batch_sampler.sampler) == (BatchSampler, loader.sampler)
    assert RecordLoader(dataset, 4, in_order=False, multiprocessing_context="spawn").in_order is False


def test_its_arguments_are_in_dataloaders_order() -> None:
    ours, stock = (list(inspect.signature(kind).parameters.values()) for kind in (RecordLoader, DataLoader))
    positional = [each.name for each in stock if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert [each.name for each in ours if each.kind is each.POSITIONAL_OR_KEYWORD] == positional
    own = {each.name for each in ours} - {each.name for each in stock}
    assert len(own) == len(ours) - len(stock) == 10


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True, "drop_last": True, "generator": torch.Generator()},
        {"shuffle": "block", "drop_cache": True, "prefetch_factor": 0},
        {"batch_sampler": [[1, 2], [3]]},
        {"batch_size": None},
        {"sampler": [5, 6]},
        {"device": "meta", "memory_format": torch.channels_last, "precision": "fast"},
        {"weights": range(41), "batch_size": 4, "drop_last": True},
    ],
)
def test_a_loader_is_made_again_of_its_attributes(dataset: ImageFolderRecord, options: dict[str, Any]) -> None:
    """As Lightning does it, which exchanges the sampler."""
    loader = RecordLoader(dataset, **{"seed": 3, **options})
    names = [name for name in inspect.signature(RecordLoader).parameters if name in vars(loader)]
    given = {name: getattr(loader, name) for name in names}
    of_the_sampler = {"shuffle", "weights"}
    missing = set(inspect.signature(RecordLoader).parameters) - {*names, *of_the_sampler, "worker_init_fn"}
    assert missing == {"multiprocessing_context"}  # a property of DataLoader
    own = {"batch_sampler": None} if "batch_sampler" not in options else {"sampler": None, "batch_size": 1}
    again = RecordLoader(**{**given, **own})
    for name in names:
        if name not in ("batch_sampler", "sampler"):
            assert getattr(again, name) == getattr(loader, name), name
    if options.get("device") is None:
        loader.set_epoch(1)
        found = list(again)  # of the same sampler, which begins epoch 1
        loader.set_epoch(1)
        assert_same(found, list(loader))
    if "batch_sampler" not in options:
        again = RecordLoader(**{**given, **own, "sampler": SequentialSampler(dataset)})
        assert type(again.sampler) is SequentialSampler
        assert (again.batch_size, again.drop_last) == (loader.batch_size, loader.drop_last)


# Single samples


@pytest.mark.parametrize("transform", [FIXED, None, v1.Compose([UINT8, v1.Lambda(torch.neg)])])
@pytest.mark.parametrize("options", [{}, {"sampler": [3, 1, 40]}, {"collate_fn": lambda sample: {"image": sample[0]}}])
def test_single_samples(tree: Path, transform: Any, options: dict[str, Any]) -> None:
    dataset = ImageFolderRecord(tree, transform=transform)
    for source, workers in ((dataset, "processes"), (ConcatDataset([dataset, dataset]), "threads")):
        loader = RecordLoader(source, batch_size=None, num_workers=3, workers=workers, **options)  # type: ignore[arg-type]
        assert_same(found := list(loader), list(DataLoader(source, batch_size=None, **options)))
        assert (len(loader), loader.batch_size, loader.batch_sampler) == (len(found), None, None)
        assert "collate_fn" in options or loader.collate_fn is default_convert


def test_batches_that_a_dataset_makes() -> None:
    """A sampler of batches instead of one of samples, as `DataLoader`'s documentation has it for bulk reading."""

    class Bulk:
        def __getitem__(self, keys: list[int]) -> torch.Tensor:
            return torch.tensor(keys) * 10

        def __getitems__(self, keys: list[Any]) -> Any:
            raise AssertionError("DataLoader does not call it for single samples")

    options: dict[str, Any] = {"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(7)), 3, False)}
    assert_same(list(RecordLoader(Bulk(), **options)), list(DataLoader(Bulk(), **options)))


# Keys


@pytest.mark.parametrize(
    "options", [{"sampler": list("gab")}, {"batch_sampler": ["ab", ["c"]]}, {"sampler": ["c", "a"], "batch_size": None}]
)
@pytest.mark.parametrize("kind", [Named, Counted])
def test_names(kind: type, options: dict[str, Any]) -> None:
    assert_same(list(RecordLoader(kind(), num_workers=2, **options)), list(DataLoader(kind(), **options)))


class Feedback:
    """A sampler whose keys depend on what the loop did before: on the number of batches that it has seen."""

    def __init__(self, size: int | None) -> None:
        self.size, self.num_seen = size, 0

    def __iter__(self) -> Any:
        for number in range(6):
            key = 10 * self.num_seen + number
            yield key if self.size is None else [key] * self.size


class SizedFeedback(Feedback):
    def __len__(self) -> int:
        return 6


@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("kind", [Feedback, SizedFeedback])
def test_without_workers_keys_are_drawn_when_their_batch_is_taken(kind: type[Feedback], size: int | None) -> None:
    found = []
    for loader in (DataLoader, RecordLoader):
        sampler, batches = kind(size), []
        options: Any = {"sampler": sampler, "batch_size": 2} if size is None else {"batch_sampler": sampler}
        for batch in loader(range(100), num_workers=0, **options):
            batches.append(batch.tolist())
            sampler.num_seen += 1
        found.append(batches)
    assert found[0] == found[1]


class Backwards(RecordSampler):
    """Our sampler with an order of its own."""

    def __iter__(self) -> Any:  # type: ignore[override]  # an iterator of another type
        return reversed(list(super().__iter__()))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_subclass_of_our_sampler_keeps_its_order(num_workers: int) -> None:
    sampler = Backwards(range(7), shuffle=False)
    loader = RecordLoader(range(7), 3, sampler=sampler, num_workers=num_workers)
    assert ([batch.tolist() for batch in loader], len(loader)) == ([[6, 5, 4], [3, 2, 1], [0]], 3)


class KindsOfKeys:
    """A dataset whose samples are the classes of their keys."""

    def __getitem__(self, key: Any) -> tuple[str, int]:
        return type(key).__name__, int(key)


@pytest.mark.parametrize(
    "keys",
    [range(4), np.arange(4), torch.arange(4), list(np.arange(4)), [True, 2], SubsetRandomSampler(np.ones(3, int))],
)
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("in_batches", [False, True])
def test_a_dataset_gets_the_keys_that_a_sampler_gives(keys: Any, num_workers: int, in_batches: bool) -> None:
    options: dict[str, Any] = {"batch_sampler": [keys]} if in_batches else {"sampler": keys, "batch_size": 3}
    ours, stock = (
        list(loader(KindsOfKeys(), num_workers=num_workers, collate_fn=list, **options))  # type: ignore[operator]
        for loader in (RecordLoader, DataLoader)
    )
    assert ours == stock


@pytest.mark.parametrize("wrong", [1.7, "1", None, (1, 2), np.float64(2), torch.tensor(1.0), [1]])
def test_only_integers_are_indices_of_records(dataset: ImageFolderRecord, wrong: Any) -> None:
    """A float would be cut off, a text read: another sample than anybody asked for."""
    options: Any = {"sampler": [0, wrong]}, {"batch_sampler": [[0, wrong]]}, {"sampler": [wrong], "batch_size": None}
    for loader in (RecordLoader(Subset(dataset, [0, wrong])), *(RecordLoader(dataset, **each) for each in options)):
        with pytest.raises(TypeError, match="is no index of ImageFolderRecord"):
            list(loader)


@pytest.mark.parametrize(
    "right",
    [[2, 1], (2, 1), np.array([2, 1], np.uint8), torch.tensor([2, 1]), [np.int16(2), torch.tensor(1)], [2, True]],
)
def test_all_integers_are_indices_of_records(dataset: ImageFolderRecord, right: Any) -> None:
    found = list(RecordLoader(dataset, 2, sampler=right))
    assert_same(found, list(DataLoader(dataset, 2, sampler=[2, 1])))
    assert_same(list(RecordLoader(Subset(dataset, right), 2)), found)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("changed", ["transform", "target_transform"])
def test_images_without_a_transform_are_a_type_error_that_says_what_to_add(
    dataset: ImageFolderRecord, changed: str, workers: Any
) -> None:
    masks = {"transform": None, "target_transform": lambda target: Image.new("L", (24, 24), target)}
    setattr(dataset, changed, masks[changed])
    with pytest.raises(TypeError, match="found <class 'PIL"):
        list(DataLoader(dataset, 3))
    with pytest.raises(TypeError, match=r"have PIL images.*: give the dataset a transform .* or pass a collate_fn"):
        list(RecordLoader(dataset, 3, workers=workers, num_workers=1))
    first = next(iter(RecordLoader(dataset, 3, collate_fn=list, num_workers=1)))[0]
    assert_same(first, dataset[0])


def test_a_batch_sampler_that_is_changed_or_replaced_counts(dataset: ImageFolderRecord) -> None:
    found: Any = []
    for loader in (DataLoader(dataset, 16), *(RecordLoader(dataset, 16, num_workers=number) for number in (0, 2))):
        batch_sampler: Any = loader.batch_sampler
        found.append([len(loader), len(iter(loader))])
        batch_sampler.batch_size, batch_sampler.drop_last = 9, True
        found[-1] += [len(loader), *loader]
        object.__setattr__(loader, "batch_sampler", cycle(batch_sampler))  # as timm and YOLO, to keep the workers
        found[-1] += [batch for batch, _ in zip(loader, range(6), strict=False)]
    assert_same(found[1:], 2 * found[:1])


def test_a_batch_sampler_without_a_length(dataset: ImageFolderRecord) -> None:
    loader = RecordLoader(dataset, batch_sampler=([index] for index in (3, 4)))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        len(loader)
    assert [labels.tolist() for _, labels in loader] == [[dataset.targets[3]], [dataset.targets[4]]]
