"""The bytes alone: how large each store is, how long it takes to write, and how fast it gives values back."""

import itertools
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.common import drop_caches, median
from benchmarks.peers.stores import STORES, Store
from benchmarks.peers.trees import find_tree
from recordzoo.bench.compare import in_fresh_process

_EPOCHS = 10

NUMBERS = ("write_s", "in_order", "random", "cold", "workers")


def compare_stores(photos: Sequence[bytes], repeats: int) -> dict[str, Any]:
    """Measure all stores in turn; speeds are values a second, medians."""
    tree = find_tree("few", photos)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in STORES}
    problems: dict[str, str] = {}
    for _ in range(repeats):
        for name, found in runs.items():
            if name in problems:
                continue
            try:
                found.append(in_fresh_process(_measure, name, tree))
            except Exception as err:  # noqa: BLE001 - one that cannot be installed or fails is a line of the page
                problems[name] = f"{type(err).__name__}: {err}".splitlines()[0]
            print(f"  {name}: {problems.get(name) or found[-1]}", file=sys.stderr, flush=True)
    documents = {n: {"problem": problems[n]} if n in problems else _medians(found) for n, found in runs.items()}
    return {"repeats": repeats, **documents}


def _medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {"size_bytes": runs[0]["size_bytes"], **{key: median([run[key] for run in runs]) for key in NUMBERS}}


def _measure(name: str, tree: Path) -> dict[str, float]:
    """Write a store and read it: in order, in random order, that cold, and with torch's two worker processes."""
    folder = tree.parent / f"store-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    samples = ImageFolder(tree).samples
    start = time.perf_counter()
    STORES[name](folder).write(samples)
    write_s = time.perf_counter() - start
    order = random.Random(7).sample(range(len(samples)), len(samples))

    def per_s(values: Callable[[Store], Iterable[Any]]) -> float:
        """Open the store anew: LMDB may not be open twice in a process, nor across a fork."""
        start, store = time.perf_counter(), STORES[name](folder)
        for _ in values(store):
            pass
        return len(order) / (time.perf_counter() - start)

    found = {
        "size_bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "write_s": write_s,
        "in_order": per_s(lambda store: store.in_order()),
        "random": per_s(lambda store: store.in_turn(order)),
        "workers": _with_workers(STORES[name](folder), order),
    }
    drop_caches()
    return {**found, "cold": per_s(lambda store: store.in_turn(order))}


def _with_workers(store: Store, order: Sequence[int]) -> float:
    """Return values a second that two workers read; they are started before."""
    # The store itself is the dataset: it has __getitem__ and __len__, and is first read in the workers.
    loader = DataLoader(store, 64, sampler=order, num_workers=2, collate_fn=len, persistent_workers=True)  # type: ignore[arg-type]
    for _ in loader:
        pass
    start = time.perf_counter()
    for _ in itertools.chain.from_iterable(itertools.repeat(loader, _EPOCHS)):
        pass
    return _EPOCHS * len(order) / (time.perf_counter() - start)
