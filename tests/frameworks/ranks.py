"""Run a script on several ranks of this machine, as ``torchrun`` does."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from torch import distributed

REPOSITORY = Path(__file__).parent.parent.parent
TIMEOUT_S = 840  # a little less than a test of this folder may take
_TRIES = 3 if sys.version_info < (3, 11, 8) else 1
"""Until 3.11.7 a forked process may hang if a thread, such as one of gloo, began or ended just then
(python/cpython#112275). So may a worker process of any DataLoader."""
_MOST_GROUPS = 40


# Any: what the script writes, read from JSON.
def on_ranks(module: str, folder: Path, *arguments: str, ranks: int = 2) -> list[Any]:
    """Run a module of `tests.frameworks` on some ranks, and return what each wrote to `answer_file()`.

    The process group is left to the module, or to what it uses: the environment is that of ``torchrun``. A rank that
    fails, or that does not end in time, fails the test with what it printed.
    """
    command = [sys.executable, "-W", "error", "-m", f"tests.frameworks.{module}", *arguments]
    for number in range(_TRIES):
        if number:  # the checkpoints of the last try are in its folder
            folder = folder.with_name(f"{folder.name}-again")
            folder.mkdir()
        logs = [folder / f"rank{rank}.log" for rank in range(ranks)]
        codes = _run(command, folder, logs)
        if codes is not None:
            break
    assert codes == [0] * ranks, "\n".join(log.read_text(errors="replace") for log in logs)
    return [json.loads(_answer(folder, rank).read_text()) for rank in range(ranks)]


def _run(command: list[str], folder: Path, logs: list[Path]) -> list[int | None] | None:
    """Run a command as a rank for each log; return how each ended, or None if they did not end in time."""
    common = _environment(len(logs), folder)
    processes = []
    for rank, log in enumerate(logs):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "ANSWER": str(_answer(folder, rank))}
        with log.open("wb") as output:
            processes.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env={**common, **own},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
    try:
        return _wait(processes)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its worker processes, too
            process.wait()


def _wait(processes: list[subprocess.Popen[bytes]]) -> list[int | None] | None:
    """Wait until all have ended, or one has failed, for which the others would wait; None if they do not in time."""
    ends = time.monotonic() + TIMEOUT_S / _TRIES
    while time.monotonic() < ends:
        codes = [process.poll() for process in processes]
        if any(codes) or None not in codes:
            return codes
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[codes.index(None)].wait(1)
    return None


def answer_file() -> Path:
    """Return where the script that runs on a rank writes what it found, as JSON."""
    return Path(os.environ["ANSWER"])


def new_group() -> None:
    """Leave the process group, on all ranks; the next one is made at another port, where no rank of the last one is."""
    if distributed.is_initialized():
        distributed.barrier()  # a rank that leaves while another one still joins fails the other one
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
