"""What is measured of one record set, each in a process of its own: ``python -m benchmarks.scale.measures NAME SET``.

Each function returns numbers by name: ``_s`` seconds, ``_cpu_s`` CPU seconds of the process, ``_mb`` megabytes of
private memory that it took, ``_mapped_mb`` of files that it touched, which all processes share. Imports do not count.
"""

import itertools
import json
import multiprocessing
import pickle
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256
LISTED = 10_000_000
"""Of more samples no Python lists are made: they would take more memory than the machine has."""

Numbers = dict[str, float]


def memory(process: int | str = "self") -> tuple[float, float]:
    """Return the private memory and the share of files (PSS) of a process, in MB."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return sizes["Pss_Anon"] / 1000, sizes["Pss_File"] / 1000


class Meter:
    """Time and memory since the last look."""

    def __init__(self) -> None:
        self.found: Numbers = {}
        self._start()

    def _start(self) -> None:
        self._memory, self._time, self._cpu = memory()[0], time.perf_counter(), time.process_time()

    def note(self, name: str) -> None:
        took, cpu = time.perf_counter() - self._time, time.process_time() - self._cpu
        self.found |= {f"{name}_s": took, f"{name}_cpu_s": cpu, f"{name}_mb": memory()[0] - self._memory}
        self._start()


def opened(path: Path) -> Numbers:
    """Open, length, first sample, another sample, a name, a pickle."""
    import recordzoo
    import recordzoo.datasets.image_folder

    meter = Meter()
    dataset: Any = recordzoo.open(path)
    length = len(dataset)
    meter.note("open")
    dataset[length // 2]
    meter.note("first_sample")
    for index in range(0, length, length // 1000):
        dataset[index]
    meter.note("1000_samples")
    meter.found["mapped_mb"] = memory()[1]
    names = dataset._selection.reader.names
    names[length // 2]
    meter.note("first_name")
    for index in range(0, length, length // 1000):
        names[index]
    meter.note("1000_names")
    meter.found["pickle_bytes"] = len(pickle.dumps(dataset))
    return meter.found


def named(path: Path) -> Numbers:
    """From a name to its sample."""
    import recordzoo
    from benchmarks.scale.make import name_of
    from recordzoo.recipes.declared import find_name

    dataset: Any = recordzoo.open(path)
    length = len(dataset)
    names = dataset._selection.reader.names
    names[0]
    meter = Meter()
    for number in range(0, length, length // 1000):
        assert find_name(names, name_of(number)) == number
    meter.note("1000_lookups")
    return meter.found


def sampled(path: Path, shuffle: Any) -> Numbers:
    """A sampler: made, its first index, its state, and resumed in the middle of an epoch."""
    import recordzoo

    dataset: Any = recordzoo.open(path)
    meter = Meter()
    sampler = recordzoo.RecordSampler(dataset, shuffle=shuffle, seed=1)
    meter.note("made")
    iterator = iter(sampler)
    list(itertools.islice(iterator, 1000))
    meter.note("first_1000")
    state = sampler.state_dict()
    meter.found["state_bytes"] = len(json.dumps(state))
    resumed = recordzoo.RecordSampler(dataset, shuffle=shuffle, seed=1)
    meter.note("made_again")
    resumed.load_state_dict({**state, "consumed": len(dataset) // 2})
    list(itertools.islice(resumed, 1000))
    meter.note("resumed_1000")
    return meter.found


def of_torch(path: Path, kind: str) -> Numbers:
    """The same of torch's own sampler."""
    import torch
    from torch.utils.data import DistributedSampler, RandomSampler

    from recordzoo.records.reader import RecordReader

    length = len(RecordReader(path))
    torch.randperm(10)
    meter = Meter()
    before = memory()[0]
    places: Any = range(length)
    sampler: Any = RandomSampler(places) if kind == "random" else DistributedSampler(places, 8, 0)
    iterator = iter(sampler)
    list(itertools.islice(iterator, 1000))
    meter.note("first_1000")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return meter.found | {"first_1000_mb": peak - before}


def loaded(path: Path, shuffle: Any) -> Numbers:
    """`RecordLoader`: the first batch, a state, and the first batch after a resume in the middle."""
    from torch.utils.data import Subset
    from torchvision.transforms import v2

    import recordzoo

    transform = v2.PILToTensor()
    first = Subset(recordzoo.open(path, transform=transform), range(10))
    next(iter(recordzoo.RecordLoader(first, batch_size=2, num_workers=2)))  # loads the compiled code
    dataset: Any = recordzoo.open(path, transform=transform)
    meter = Meter()
    # Threads: the memory of this process is what is measured.
    loader: Any = recordzoo.RecordLoader(dataset, BATCH, shuffle, num_workers=2, seed=1, workers="threads")
    meter.note("made")
    batches = iter(loader)
    next(batches)
    meter.note("first_batch")
    for _ in range(20):
        next(batches)
    meter.note("20_batches")
    state = loader.state_dict()
    batches.close()
    meter.note("closed")
    loader.load_state_dict({**state, "consumed": len(dataset) // 2})
    batches = iter(loader)
    next(batches)
    meter.note("resumed_batch")
    batches.close()
    meter.found["mapped_mb"] = memory()[1]
    return meter.found


def worked(path: Path, start: str) -> Numbers:
    """A stock DataLoader with two worker processes: the first batch, and the memory of all three processes."""
    from torch.utils.data import DataLoader
    from torchvision.transforms import v2

    import recordzoo

    dataset: Any = recordzoo.open(path, transform=v2.PILToTensor())
    sampler = recordzoo.RecordSampler(dataset, shuffle=True, seed=1)
    loader: Any = DataLoader(dataset, BATCH, sampler=sampler, num_workers=2, multiprocessing_context=start)
    before = memory()[0]
    meter = Meter()
    batches = iter(loader)
    next(batches)
    meter.note("first_batch")
    for _ in range(20):
        next(batches)
    meter.note("20_batches")
    meter.found["parent_mb"] = memory()[0] - before
    for number, child in enumerate(multiprocessing.active_children()):
        anonymous, mapped = memory(child.pid or 0)
        meter.found |= {f"worker{number}_mb": anonymous, f"worker{number}_mapped_mb": mapped}
    return meter.found


def listed(path: Path) -> Numbers:
    """The lists that torchvision has of all samples."""
    import recordzoo

    dataset: Any = recordzoo.open(path)
    if len(dataset) > LISTED:
        return {}
    dataset[0]
    meter = Meter()
    assert len(dataset.targets) == len(dataset)
    meter.note("targets")
    assert len(dataset.samples) == len(dataset)
    meter.note("samples")
    return meter.found


def checksums(path: Path) -> Numbers:
    """What the CRC-32 of the index costs, and that of everything."""
    from recordzoo.records.reader import RecordReader

    reader = RecordReader(path)
    meter = Meter()
    reader.array("image.index")
    meter.note("index")
    for name in ("names", "names_offsets", "target"):
        reader.array(name)
    meter.note("others")
    rows = np.random.default_rng(0).integers(0, len(reader), 100_000).tolist()
    meter.note("drawn")
    for row in rows:
        reader.has("image", row)
    meter.note("100000_rows")
    return meter.found


MEASURES: dict[str, Callable[[Path], Numbers]] = {
    "opened": opened,
    "checksums": checksums,
    "named": named,
    "sampler": lambda path: sampled(path, True),
    "block sampler": lambda path: sampled(path, "block"),
    "torch random": lambda path: of_torch(path, "random"),
    "torch distributed": lambda path: of_torch(path, "distributed"),
    "loader": lambda path: loaded(path, True),
    "block loader": lambda path: loaded(path, "block"),
    "forked": lambda path: worked(path, "fork"),
    "spawned": lambda path: worked(path, "spawn"),
    "lists": listed,
}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](Path(sys.argv[2]))))
