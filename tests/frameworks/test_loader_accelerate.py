"""`RecordLoader` with accelerate: `prepare`, `save_state` and `load_state`, `skip_first_batches`."""

from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from recordzoo import RecordLoader
from tests.frameworks.ranks import on_ranks
from tests.frameworks.samples import BATCH, DRAWN, Numbers, are_all, drawn

accelerate = pytest.importorskip("accelerate", reason="needs the extra `frameworks`: make frameworks")


@pytest.fixture
def accelerator() -> Any:
    return accelerate.Accelerator(cpu=True)


def numbers(batches: Any) -> list[list[int]]:
    return [labels.tolist() for _, labels in batches]


def test_prepare(accelerator: Any) -> None:
    """It is left as it is: accelerate would make a stock DataLoader of it, and deal its batches once more."""
    loader = RecordLoader(Numbers(), BATCH, shuffle=True)
    for _ in range(2):
        assert accelerator.prepare(loader) is loader
    epochs = [numbers(loader) for _ in range(2)]
    assert all(map(are_all, epochs))
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("kind", ["shuffle", *DRAWN])
def test_save_state_and_load_state(accelerator: Any, tmp_path: Path, kind: str) -> None:
    dataset, options = drawn(kind) if kind in DRAWN else (Numbers(), {"shuffle": True})
    loader = accelerator.prepare(RecordLoader(dataset, BATCH, seed=2, **options))
    numbers(loader)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    accelerator.save_state(str(tmp_path))
    rest, following = numbers(iterator), numbers(loader)
    accelerator.free_memory()
    if kind in DRAWN:
        dataset, options = drawn(kind)
    again = accelerator.prepare(RecordLoader(dataset, BATCH, **options))
    accelerator.load_state(str(tmp_path))
    assert [numbers(again), numbers(again)] == [rest, following]


def test_skip_first_batches(accelerator: Any) -> None:
    """It makes a stock DataLoader, with the right samples; the loader itself goes on with the next epoch."""
    loader = accelerator.prepare(RecordLoader(Numbers(), BATCH, shuffle=True, seed=2, num_workers=1))
    first, second, third = (numbers(loader) for _ in range(3))
    for epoch, right in ((0, first), (1, second)):
        loader.set_epoch(epoch)
        skipped = accelerate.skip_first_batches(loader, 3)
        assert type(skipped) is DataLoader
        assert numbers(skipped) == right[3:]
    assert numbers(loader) == third


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        ("own", "RecordLoader"),
        ("other", "DataLoaderShard"),
        ("undealt", "DataLoaderShard"),
        *((kind, "RecordLoader") for kind in DRAWN),
    ],
)
def test_two_ranks(tmp_path: Path, kind: str, used: str) -> None:
    """What takes no share of its rank is dealt by accelerate, with a stock DataLoader."""
    answers = on_ranks("loader_script", tmp_path, "accelerate", kind)
    for epoch in range(2):
        assert are_all(answers[0]["epochs"][epoch] + answers[1]["epochs"][epoch])
    assert {answer["loader"] for answer in answers} == {used}
