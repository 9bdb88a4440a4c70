"""The first loader of a machine begins at once: real processes, each test with an empty folder for numba's cache."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.errors import ArgumentError
from tests import warm
from tests.batching import RANDOM
from tests.preparing import wait_for
from tests.terminals import run_on_terminal

needs_numba = pytest.mark.needs("numba", "turbojpeg")

LOADER = """
import sys, time
import torch
from recordzoo import RecordLoader
from recordzoo.datasets import ImageFolderRecord
from recordzoo.loader import compiled as compiling
from tests.batching import FIXED, JITTER, RANDOM
from torchvision import transforms

def loader(transform, **options):
    return RecordLoader(ImageFolderRecord(sys.argv[1], transform), 4, shuffle=True, num_workers=2, seed=0, **options)

def epoch(transform, number=0, **options):
    made = loader(transform, **options)
    made.set_epoch(number)
    return list(made)

def is_switched():
    return compiling.compiled_now() is not None
"""


def environment(folder: Path, mode: str) -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": os.fspath(folder), "RECORDZOO_COMPILE": mode}


def run(code: str, tree: Path, folder: Path, mode: str = "background") -> "subprocess.CompletedProcess[str]":
    return warm.run(LOADER + code, os.fspath(tree), env=environment(folder, mode), timeout_s=300)


def stamps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("recordzoo-*.ready"))


def spares(folder: Path) -> list[int]:
    """Return the spare processes that compile into a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"has_lock" in command and os.fspath(folder).encode() in command:
            found.append(int(path.parent.name))
    return found


def wait_until_compiled(folder: Path) -> None:
    wait_for(lambda: len(stamps(folder)) == 1 and not spares(folder), "the spare process", 300)


@needs_numba
@pytest.mark.slow
def test_pillow_first_then_compiled_code_with_the_same_batches(tree: Path, tmp_path: Path) -> None:
    """To the bit, and the same as with `wait` and `off`. The spare process ends by itself."""
    code = """
made = loader(JITTER)
first, was_there = epoch(JITTER), is_switched()
before = "the compiled code is not ready" in str(made)
while not is_switched():
    list(made)
after = "compiled code (numba)" in str(made)
again = epoch(JITTER)
print(was_there, before, after, all(torch.equal(a, b) for (a, _), (b, _) in zip(first, again, strict=True)))
torch.save(again, sys.argv[2])
"""
    other = "torch.save(epoch(JITTER), sys.argv[2]); print(is_switched())"
    made = []
    modes = {"background": (code, "False True True True"), "wait": (other, "True"), "off": (other, "False")}
    for mode, (program, said) in modes.items():
        out = tmp_path / f"{mode}.pt"
        ended = warm.run(
            LOADER + program, os.fspath(tree), os.fspath(out), env=environment(tmp_path, mode), timeout_s=300
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{said}\n", "")
        made.append(torch.load(out))
    wait_until_compiled(tmp_path)
    for background, wait, off in zip(*made, strict=True):
        assert torch.equal(background[0], wait[0])
        assert torch.equal(off[0], wait[0])


@needs_numba
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_two_ranks_at_once_start_one_process_and_if_it_is_killed_another_loader_starts_one(
    tree: Path, tmp_path: Path
) -> None:
    """On a terminal, the first epochs say once why they are slow, and nothing when all is compiled."""
    code = LOADER + "epoch(RANDOM)"
    ranks = [warm.start(code, os.fspath(tree), env=environment(tmp_path, "background")) for _ in range(2)]
    for rank in ranks:
        out, err = rank.communicate(timeout=120)
        assert (rank.wait(), out, err) == (0, "", "")
    wait_for(lambda: len(spares(tmp_path)) == 1, "one spare process: another one ends when the lock is taken", 30)
    (spare,) = spares(tmp_path)
    assert os.getsid(spare) == spare  # Ctrl-C in the terminal does not reach it
    wait_for(lambda: os.getpriority(os.PRIO_PROCESS, spare) >= 5, "low priority", 30)
    os.kill(spare, signal.SIGKILL)
    wait_for(lambda: not spares(tmp_path), "its end", 30)
    assert stamps(tmp_path) == []
    program, variables = LOADER + "epoch(RANDOM); epoch(RANDOM, 1)", environment(tmp_path, "background")
    shown = run_on_terminal(tree, columns=200, streams=["stderr"], options=["-c", program], **variables)
    assert shown.splitlines() == [
        "recordzoo: compiling for this machine in the background (once, about 20 s); until then about half the speed"
    ]
    wait_until_compiled(tmp_path)  # though the process that started it has ended
    assert run_on_terminal(tree, streams=["stderr"], options=["-c", program], **variables) == ""


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", ["transforms.Compose([transforms.GaussianBlur(3), RANDOM])", "RANDOM, precision='fast'"]
)
def test_where_the_bits_may_differ_it_waits_and_says_so(arguments: str, tree: Path, tmp_path: Path) -> None:
    ended = run(f"epoch({arguments})\nprint(compiling.compiled_now() is not None)", tree, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "True\n")
    assert ended.stderr == "recordzoo: compiling image code for this machine, once; it takes 10 to 60 seconds\n"


@needs_numba
@pytest.mark.slow
def test_no_folder_can_be_written(tree: Path, tmp_path: Path) -> None:
    """A thread compiles, in this process."""
    hide = "\nimport numba.core.caching as caching; caching.CacheImpl._locator_classes = []\n"
    ended = run(hide + "while compiling.compiled_now() is None: epoch(RANDOM)", tree, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert (stamps(tmp_path), spares(tmp_path)) == ([], [])


def test_a_mode_that_is_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_COMPILE", "later")
    with pytest.raises(ArgumentError, match="RECORDZOO_COMPILE is 'later'; it must be background, wait or off"):
        next(iter(RecordLoader(ImageFolderRecord(tree, RANDOM), 4)))
