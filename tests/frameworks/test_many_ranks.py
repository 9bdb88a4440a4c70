"""Hugging Face's Trainer, accelerate, timm and torchdata on three ranks: no sample is trained on two of them."""

from itertools import chain
from typing import Any

import pytest

from tests.fakes.coloured import write_trees
from tests.frameworks.ranks import on_ranks
from tests.frameworks.samples import COUNT

for package in ("accelerate", "timm", "transformers"):
    pytest.importorskip(package, reason="needs the extra `frameworks`: make frameworks")

TRAINED, VALIDATED, LENGTH = 36, 13, 48


# Any: what `many_ranks` found.
@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("many")
    write_trees(folder / "data", TRAINED, VALIDATED)
    return on_ranks("many_ranks", folder, str(folder), ranks=3)


def test_trainer(ranks: list[Any]) -> None:
    """40 samples on 3 ranks: the last two ranks repeat one sample each, so that all take equally many."""
    trained = [rank["trainer"]["trained"] for rank in ranks]
    assert [len(each) for each in trained] == [2 * 14] * 3
    for epoch in (slice(0, 14), slice(14, 28)):
        together = list(chain(*(each[epoch] for each in trained)))
        assert (set(together), len(together)) == (set(range(COUNT)), COUNT + 2)


def test_evaluation_of_trainer(ranks: list[Any]) -> None:
    """A loader that deals its samples itself repeats two; accelerate takes out again what it has repeated."""
    for rank in ranks:
        dealt, whole = rank["trainer"]["evaluated"]
        assert (set(dealt), len(dealt)) == (set(range(COUNT)), COUNT + 2)
        assert sorted(whole) == list(range(COUNT))


def test_timm(ranks: list[Any]) -> None:
    """timm repeats samples of the validation, too, until all ranks have equally many."""
    for split, count, repeated in (("train", TRAINED, 0), ("val", VALIDATED, 2)):
        epochs = [list(chain(*(rank["timm"][split][epoch] for rank in ranks))) for epoch in range(2)]
        for epoch in epochs:
            assert (set(epoch), len(epoch)) == (set(range(count)), count + repeated)
        assert (epochs[0] == epochs[1]) == (split == "val")


@pytest.mark.parametrize("who", ["accelerate", "torchdata"])
def test_resumed_on_another_number_of_ranks(ranks: list[Any], who: str) -> None:
    """Two ranks take half of an epoch, three the other half, and the next epoch."""
    before = list(chain(*chain(*(rank[who]["before"] for rank in ranks))))
    assert len(before) == LENGTH // 2
    rest, following = (list(chain(*chain(*(rank[who]["after"][e] for rank in ranks)))) for e in range(2))
    assert sorted(before + rest) == list(range(LENGTH))
    assert sorted(following) == list(range(LENGTH))
    assert following != before + rest
