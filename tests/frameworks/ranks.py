"""Run a script on several ranks of this machine, as ``torchrun`` does."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent.parent
TIMEOUT_S = 240


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
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0] * ranks, "\n".join(log.read_text(errors="replace") for log in logs)
    return [json.loads(_answer(folder, rank).read_text()) for rank in range(ranks)]


def answer_file() -> Path:
    """Return where the script that runs on a rank writes what it found, as JSON."""
    return Path(os.environ["ANSWER"])


def _answer(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.json"


def _environment(ranks: int, folder: Path) -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "tests",  # by which Lightning knows torchrun
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
    }
