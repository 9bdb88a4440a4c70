"""What each rank gets under accelerate: run by `test_accelerate` on two ranks.

Loaders are made before the `Accelerator`, with another random seed on each rank, and then passed to `prepare` or not.
"""

import json
import os
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate.state import AcceleratorState, GradientState, PartialState
from torch.utils.data import DataLoader, RandomSampler

from recordzoo import RecordLoader, RecordSampler
from recordzoo.errors import ArgumentError
from tests.frameworks.ranks import answer_file, new_group
from tests.frameworks.samples import DRAWN, Indices, drawn

EPOCHS = 3
LENGTH = 44
"""Not of whole batches on both ranks: the rest is taken by one of them, or repeated."""

# Any, here and below: loaders of several kinds.
Make = Callable[[], Any]


def stock(**options: Any) -> DataLoader[torch.Tensor]:
    data = Indices(LENGTH)
    return DataLoader(data, 4, sampler=RecordSampler(data, seed=3, **options))


def record(kind: str = "") -> RecordLoader:
    data: Any = Indices(LENGTH)
    if kind == "of another sampler":
        torch.manual_seed(0)  # it draws on each rank
        options: dict[str, Any] = {"sampler": RandomSampler(data)}
    elif kind == "of one rank":
        options = {"sampler": RecordSampler(data, num_replicas=1, rank=0)}
    else:
        data, options = drawn(kind, data) if kind in DRAWN else (data, {"shuffle": True})
    return RecordLoader(data, 4, num_workers=1, **options)


def prepared(loader: Any, **options: Any) -> Any:
    """Pass a loader to accelerate, which has not been started before."""
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    new_group()
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
    return accelerator.prepare(loader)


def batches(loader: Any, count: int | None = None) -> list[list[int]]:
    return [batch.tolist() for batch in islice(loader, count)]


def epochs(loader: Any) -> dict[str, Any]:
    return {"type": type(loader).__name__, "len": len(loader), "epochs": [batches(loader) for _ in range(EPOCHS)]}


def refused(**options: Any) -> str:
    loader = prepared(stock(), **options)
    try:
        batches(loader)
    except ArgumentError as err:
        return str(err)
    return ""


def resumed_by_skipping() -> list[list[int]]:
    """In the second epoch, behind three batches, as accelerate's own examples do."""
    loader = prepared(stock(num_replicas=1, rank=0))
    loader.set_epoch(1)
    rest = batches(skip_first_batches(loader, 3))
    loader.set_epoch(2)
    return rest + batches(loader)


def resumed_record() -> dict[str, Any]:
    loader = prepared(record())
    whole = [batches(loader) for _ in range(EPOCHS)]
    loader = prepared(record())
    batches(loader)
    batches(loader, 3)
    again = record()
    again.load_state_dict(loader.state_dict())
    ready = prepared(again)
    return {"whole": whole, "resumed": batches(ready) + batches(ready)}


def main() -> None:
    torch.manual_seed(int(os.environ["RANK"]))
    alone: dict[str, Any] = {"num_replicas": 1, "rank": 0}
    found = {
        "dealt by accelerate": epochs(prepared(stock(**alone))),
        "uneven": epochs(prepared(stock(**alone), even_batches=False)),
        "batches split": epochs(prepared(stock(**alone), split_batches=True)),
        "dispatched": epochs(prepared(stock(**alone), dispatch_batches=True)),
        "RecordLoader": epochs(prepared(record())),
        **{kind: epochs(prepared(record(kind))) for kind in (*DRAWN, "of one rank", "of another sampler")},
        "refused": [refused(), refused(use_seedable_sampler=True), refused(split_batches=True)],
        "resumed": resumed_by_skipping(),
        "resumed RecordLoader": resumed_record(),
    }
    loader = stock()
    prepared(torch.nn.Linear(1, 1))  # starts the process group
    found["not prepared"] = epochs(loader)
    answer_file().write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
