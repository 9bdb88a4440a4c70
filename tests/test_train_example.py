"""examples/train_imagenet.py under torchrun: stopped, killed and resumed on other numbers of ranks.

Three launches, one after the other, train three epochs of 36 images: two ranks, until the launcher gets SIGTERM; three
ranks, until one of them is killed; two ranks to the end, with the record sets alone, without the class folders.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.coloured import write_trees
from tests.preparing import REPOSITORY

EXAMPLE = REPOSITORY / "examples" / "train_imagenet.py"
TRAINED, VALIDATED, EPOCHS, BATCH = 36, 13, 3, 6

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("training example")]


@dataclass
class Launch:
    """What one launch did.

    Attributes:
        printed, ended: What its ranks printed, and what the launcher made of it.
        steps: The images of each training step, of all ranks; up to the last checkpoint.
        validated: The images of each evaluation, of all ranks.
        lost: How many training steps no checkpoint has.
    """

    printed: str
    ended: str
    steps: list[list[int]]
    validated: list[list[int]]
    lost: int


LAUNCHES = [
    {"ranks": 2, "signalled": (1, 4, "SIGTERM", True)},
    {"ranks": 3, "signalled": (2, 5, "SIGKILL", False)},
    {"ranks": 2, "remove": ("data/train", "data/val")},
]


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> list[Launch]:
    folder = tmp_path_factory.mktemp("training")
    write_trees(folder / "data", TRAINED, VALIDATED)
    words = f"--data data --arch tiny --epochs {EPOCHS} --batch-size {BATCH} --lr 0.05 --size 32 --workers 1 --resume"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.watched_training", EXAMPLE, json.dumps(LAUNCHES)),
            *(*words.split(), "--save-every", "2"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=550,
    )
    printed = re.split(r"^== (\w+)\n", done.stdout, flags=re.MULTILINE)
    assert (done.returncode, len(printed)) == (0, 2 * len(LAUNCHES) + 1), done.stdout
    return [read(folder / str(number), *printed[2 * number :][:2]) for number in range(len(LAUNCHES))]


def read(folder: Path, printed: str, ended: str) -> Launch:
    files = sorted(folder.glob("rank*.jsonl"))
    notes = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    last = max(place for place, line in enumerate(notes[0]) if "saved" in line)
    saved = sum(line.get("training", False) for line in notes[0][:last])
    steps = [[line["numbers"] for line in mine if line.get("training")] for mine in notes]
    whole = [list(chain(*parts)) for parts in zip(*steps, strict=False)]
    passes = [[line for line in mine if "saved" not in line] for mine in notes]
    return Launch(printed, ended, whole[:saved], evaluations(passes), max(map(len, steps)) - saved)


# Any: passes as they were noted.
def evaluations(ranks: list[list[Any]]) -> list[list[int]]:
    """Return the images of each evaluation, of all ranks: what is seen between two training steps."""
    found: list[list[int]] = []
    for passes in ranks:
        groups = [list(group) for training, group in groupby(passes, lambda each: each["training"]) if not training]
        mine = [list(chain(*(each["numbers"] for each in group))) for group in groups]
        found = [one + other for one, other in zip(found, mine, strict=True)] if found else mine
    return found


class TestRanks:
    def test_sigterm_is_answered_with_a_checkpoint(self, launches: list[Launch]) -> None:
        """Of the very step in which it came to one of the ranks: nothing is trained twice."""
        stopped = launches[0]
        assert stopped.ended == "SignalException"
        assert "stopped by SIGTERM; checkpoint.pt is written" in stopped.printed
        assert (len(stopped.steps), stopped.lost) == (4, 0)

    def test_what_is_killed_loses_the_steps_behind_its_checkpoint(self, launches: list[Launch]) -> None:
        _, killed, last = launches
        assert "resumed in epoch 0, behind 24 images" in killed.printed
        assert (killed.ended, len(killed.steps), killed.lost) == ("ChildFailedError", 4, 1)
        assert "resumed in epoch 1, behind 12 images" in last.printed
        assert last.ended == "ended"

    def test_each_sample_once_an_epoch(self, launches: list[Launch]) -> None:
        """Over all launches, as the model has seen them."""
        seen = list(chain(*(step for each in launches for step in each.steps)))
        parts = [seen[start : start + TRAINED] for start in range(0, len(seen), TRAINED)]
        assert [sorted(part) for part in parts] == [list(range(TRAINED))] * EPOCHS
        assert len({tuple(part) for part in parts}) == EPOCHS

    def test_each_evaluation_counts_each_sample_once(self, launches: list[Launch]) -> None:
        found = [each for one in launches for each in one.validated]
        assert [sorted(each) for each in found] == [list(range(VALIDATED))] * EPOCHS
        lines = re.findall(r"epoch (\d): loss .* of (\d+) images", "".join(one.printed for one in launches))
        assert lines == [(str(epoch), str(VALIDATED)) for epoch in range(EPOCHS)]
