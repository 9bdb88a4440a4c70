"""Lightning: each sample once an epoch over all ranks, other ones each epoch, and the same rest after a resume."""

from itertools import chain, pairwise
from typing import Any

import pytest

from tests.frameworks.ranks import on_ranks
from tests.frameworks.samples import DRAWN

pytest.importorskip("lightning", reason="needs the extra `frameworks`: make frameworks")

LENGTH, VALIDATED, BATCH_SIZE = 60, 24, 5
KINDS = ("stock", "stateful", "record")
RECORD_LOADERS = [f"{who}{kind}" for who in ("", "fabric ") for kind in ("record", "other", *DRAWN)]


# Any: what `lightning_ranks` found, by kind of loader.
@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two ranks"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return on_ranks("lightning_ranks", tmp_path_factory.mktemp("lightning"), ranks=request.param)


@pytest.mark.parametrize("kind", [*KINDS[:2], *RECORD_LOADERS])
def test_each_sample_once_an_epoch_over_all_ranks(ranks: list[Any], kind: str) -> None:
    trained = [rank[kind]["whole"]["trained"] for rank in ranks]
    for epoch in zip(*trained, strict=True):
        assert [len(batches) for batches in epoch] == [LENGTH // BATCH_SIZE // len(ranks)] * len(ranks)
        assert sorted(chain(*chain(*epoch))) == list(range(LENGTH))
    for mine in trained:
        for one, two in pairwise(mine):  # two epochs alike was Lightning's `iter(loader)` before `set_epoch(0)`
            assert [set(batch) for batch in one] != [set(batch) for batch in two]


@pytest.mark.parametrize("kind", RECORD_LOADERS)
def test_a_record_loader_stays_one(ranks: list[Any], kind: str) -> None:
    """With another sampler, it makes a loader with torch's `DistributedSampler` on two ranks."""
    sampler = "RecordSampler"
    if kind.endswith("other"):
        sampler = "DistributedSampler" if len(ranks) > 1 else "RandomSampler"
    assert [rank[kind]["whole"]["used"] for rank in ranks] == [["RecordLoader", sampler]] * len(ranks)


@pytest.mark.parametrize("kind", KINDS)
def test_validation_sees_each_sample_once(ranks: list[Any], kind: str) -> None:
    """The sanity check, of one batch, comes first, and is not taken off the validation."""
    validated = list(zip(*(rank[kind]["whole"]["validated"] for rank in ranks), strict=True))
    assert [sorted(chain(*each)) for each in validated[1:]] == [list(range(VALIDATED))] * 3


@pytest.mark.parametrize("kind", ["stateful", "record"])
def test_resumed(ranks: list[Any], kind: str) -> None:
    """From within each of the first epochs, and from their ends."""
    per_epoch = LENGTH // BATCH_SIZE // len(ranks)
    for rank in ranks:
        whole = list(chain(*rank[kind]["whole"]["trained"]))
        for name, found in rank[kind]["resumed"].items():
            unit, number = name.split("=")
            step = int(number) if unit == "step" else per_epoch * (int(number) + 1)
            if kind == "stateful" and unit == "step" and step % per_epoch == 0:
                continue  # torchdata goes on with nothing at the end of an epoch, and Lightning takes that for an epoch
            assert list(chain(*found["trained"])) == whole[step:], name
