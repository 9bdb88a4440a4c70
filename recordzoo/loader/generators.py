"""The process's generators of random numbers: seeded for one piece of work, and left as they were."""

import contextlib
import random
import threading
from collections.abc import Iterator

import numpy as np
import torch

from recordzoo.system.processes import at_fork


class _ForkSafeLock:
    """A lock that is never held in a forked process: the child gets a new one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # A thread that does not exist in the child may hold it.
        at_fork(in_child=lambda: setattr(self, "lock", threading.Lock()))


_generators = _ForkSafeLock()
"""Who holds it may use the process's generators of random numbers; of several loaders at once too."""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the process's generators for one piece of work, and leave them as they were."""
    with _generators.lock, restored():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        yield


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Leave the process's generators as they were."""
    of_torch, of_python, of_numpy = torch.default_generator.get_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
