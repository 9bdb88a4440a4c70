"""Run a training script with torchrun's own launcher, and note which images its model sees, whatever its sampler says.

    python -m tests.watched_training SCRIPT '[{"ranks": 2, "signalled": [1, 4, "SIGTERM", true]}]' ARGUMENTS

trains in the current directory, launch after launch. Each image has one colour, by which it is known again:
`numbers_of`. In the folder of a launch, 0, 1, ..., each rank appends to ``rank<r>.jsonl`` the images of each forward
pass, and that a checkpoint was replaced. "signalled" is a rank, one of its training steps, the signal that it sends
then, and whether the launcher gets it instead of that rank. A launch may also "remove" folders first. How each one
ended is printed.

Ranks are forked from a process that has imported torch: to do that seven times takes a minute.
"""

import json
import multiprocessing
import os
import runpy
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from tests.fakes.coloured import numbers_of


class Tiny(nn.Module):
    """A model of a few weights that sees colours; it keeps statistics of its batches, as larger ones do."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(3), nn.Linear(3, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(images.mean((2, 3))))


class Watch:
    """Notes what a rank does, and sends a signal where the test wants one.

    Args:
        folder: Where the rank's notes go.
        signalled: As in the module's text; empty for no signal.
        launcher: The process number of the launcher.
    """

    def __init__(self, folder: Path, signalled: list[Any], launcher: int) -> None:
        rank = int(os.environ["RANK"])
        self.notes = (folder / f"rank{rank}.jsonl").open("a", buffering=1)
        self.steps = 0
        self.signalled = signalled[1:] if signalled and signalled[0] == rank else []
        self.launcher = launcher

    # Any: of all modules.
    def before_forward(self, module: Any, arguments: Any) -> None:
        print(json.dumps({"training": module.training, "numbers": numbers_of(arguments[0])}), file=self.notes)
        self.steps += module.training
        if module.training and self.signalled and self.steps == self.signalled[0]:
            self.send(signal.Signals[self.signalled[1]], to_launcher=self.signalled[2])

    def send(self, number: signal.Signals, *, to_launcher: bool) -> None:
        """Send a signal, and go on when the launcher has passed it on to this process."""
        if not to_launcher:
            os.kill(os.getpid(), number)
        handler: Any = signal.getsignal(number)
        came = threading.Event()
        signal.signal(number, lambda *found: (came.set(), handler(*found)))
        os.kill(self.launcher, number)
        while not came.is_set():
            time.sleep(0.01)

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and str(arguments[1]).endswith("checkpoint.pt"):
            print(json.dumps({"saved": True}), file=self.notes)


def on_rank(script: str, words: list[str], folder: Path, signalled: list[Any], launcher: int) -> None:
    """Run the script on this rank."""
    from torchvision.models._api import register_model  # torchvision documents it, but exports it nowhere else

    watch = Watch(folder, signalled, launcher)
    sys.addaudithook(watch.on_event)

    @register_model()
    def tiny(num_classes: int, weights: None = None) -> Tiny:
        model = Tiny(num_classes)
        model.register_forward_pre_hook(watch.before_forward)  # a hook of all modules would be one of the transforms
        return model

    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")


# Any: as above.
def launch(number: int, wanted: dict[str, Any], script: str, words: list[str]) -> str:
    """Launch the ranks as ``torchrun --standalone`` does; return how they ended."""
    from tests.watched_training import on_rank  # under its name, not as one of __main__'s

    for folder in wanted.get("remove", ()):
        shutil.rmtree(folder)
    Path(str(number)).mkdir()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=wanted["ranks"],
        run_id=f"tests-{os.getpid()}-{number}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.1,
        start_method="forkserver",
    )
    try:
        elastic_launch(config, on_rank)(script, words, Path(str(number)), wanted.get("signalled", []), os.getpid())
    except (SignalException, ChildFailedError) as err:
        return type(err).__name__
    return "ended"


if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["tests.watched_training", "recordzoo.loader.loader", "numba"])
    for number, wanted in enumerate(json.loads(sys.argv[2])):
        print(f"== {launch(number, wanted, sys.argv[1], sys.argv[3:])}", flush=True)
