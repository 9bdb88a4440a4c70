"""`FakeDataRecord` against torchvision's FakeData. It has no root and no records: the contract does not fit it."""

import copy
import doctest
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.transforms import v2

from recordzoo import FakeDataRecord, RecordLoader
from tests.contract import outcome, plain, same_outcome

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"size": 4, "image_size": (1, 5, 7), "num_classes": 3, "random_offset": 40},
    {"size": 3, "image_size": (3, 8, 8), "transform": np.asarray, "target_transform": lambda target: target + 10},
    {"size": 3, "image_size": (4, 2, 2), "random_offset": -2},
    {"size": 0},
    {"size": 2, "image_size": (5, 2, 2)},  # no PIL image has 5 channels
]
INDICES = [*range(5), -1, -3, 999, 1000, np.int64(1), np.uint8(2), torch.tensor(1), torch.tensor([1]), True, 1.5]
INDICES += [slice(0, 2), None, "a", np.array(1)]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_samples(arguments: dict[str, Any]) -> None:
    theirs, ours = FakeData(**arguments), FakeDataRecord(**arguments)
    assert (len(ours), repr(ours).replace("Record", "")) == (len(theirs), repr(theirs))
    assert vars(ours).keys() == vars(theirs).keys()
    for index in INDICES:
        a, b = (outcome(Path(), lambda ds=ds, index=index: ds[index]) for ds in (theirs, ours))
        if isinstance(b, IndexError):
            assert str(b).replace("Record", "") == str(a)
        else:
            assert same_outcome(a, b), index


def test_signature_and_kind() -> None:
    assert issubclass(FakeDataRecord, FakeData)
    assert inspect.signature(FakeDataRecord) == inspect.signature(FakeData)


def test_copies_and_loaders() -> None:
    arguments: dict[str, Any] = {"size": 40, "image_size": (3, 16, 16), "transform": v2.PILToTensor()}
    theirs, ours = FakeData(**arguments), FakeDataRecord(**arguments)
    expected = plain(list(DataLoader(theirs, 8)), Path())
    for dataset in (ours, copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        assert plain(list(DataLoader(dataset, 8)), Path()) == expected
        assert plain(list(RecordLoader(dataset, 8, num_workers=4)), Path()) == expected  # threads


def test_the_generator_of_the_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "manual_seed", None)  # which seeds those of all devices
    before = torch.get_rng_state()
    FakeDataRecord(2)[1]
    assert torch.equal(torch.get_rng_state(), before)


def test_examples() -> None:
    (found,) = doctest.DocTestFinder(recurse=False).find(FakeDataRecord, globs={"FakeDataRecord": FakeDataRecord})
    assert len(found.examples) == 2
    assert doctest.DocTestRunner().run(found).failed == 0
