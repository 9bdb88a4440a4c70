"""Run a script on several ranks of this machine, as ``torchrun`` does."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from torch import distributed

REPOSITORY = Path(__file__).parent.parent.parent
TIMEOUT_S = 840  # a little less than a test of this folder may take
_MOST_GROUPS = 40


# Any: what the script writes, read from JSON.
def on_ranks(module: str, folder: Path, *arguments: str, ranks: int = 2) -> list[Any]:
    """Run a module of `tests.frameworks` on some ranks, and return what each wrote to `answer_file()`.

    The process group is left to the module, or to what it uses: the environment is that of ``torchrun``. A rank that
    fails, or that does not end in time, fails the test with what it printed.
    """
    common = _environment(ranks, folder)
    command = [sys.executable, "-W", "error", "-m", f"tests.frameworks.{module}", *arguments]
    logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "ANSWER": str(_answer(folder, rank))}
        with log.open("wb") as output:
            processes.append(
                subprocess.Popen(command, cwd=folder, env={**common, **own}, stdout=output, stderr=subprocess.STDOUT)
            )
    try:
        _wait(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = [process.returncode for process in processes]
    assert codes == [0] * ranks, "\n".join(log.read_text(errors="replace") for log in logs)
    return [json.loads(_answer(folder, rank).read_text()) for rank in range(ranks)]


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended, or one has failed, for which the others would wait."""
    ends = time.monotonic() + TIMEOUT_S
    while time.monotonic() < ends:
        codes = [process.poll() for process in processes]
        if any(codes) or None not in codes:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[codes.index(None)].wait(1)


def answer_file() -> Path:
    """Return where the script that runs on a rank writes what it found, as JSON."""
    return Path(os.environ["ANSWER"])


def new_group() -> None:
    """Leave the process group, on all ranks; the next one is made at another port, where no rank of the last one is."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
    os.environ["MASTER_PORT"], _, os.environ["PORTS"] = os.environ["PORTS"].partition(",")


def _answer(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.json"


def _environment(ranks: int, folder: Path) -> dict[str, str]:
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(_MOST_GROUPS)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        ports = [str(each.getsockname()[1]) for each in free]
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": ports[0],
        "PORTS": ",".join(ports[1:]),
        "TORCHELASTIC_RUN_ID": "tests",  # by which Lightning knows torchrun
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
