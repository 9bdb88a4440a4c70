"""examples/train_imagenet.py under torchrun: stopped, killed and resumed on other numbers of ranks.

Three launches, one after the other, train three epochs of 36 images: two ranks, until the launcher gets SIGTERM; three
ranks, until one of them is killed; two ranks to the end, with the record sets alone, without the class folders.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord, RecordLoader
from tests.batching import assert_same
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

    def test_each_epoch_says_how_long_it_waited_for_data(self, launches: list[Launch]) -> None:
        lines = re.findall(r"epoch (\d): (\d+) images, data wait (\d+)%$", launches[2].printed, re.MULTILINE)
        assert [(epoch, seen) for epoch, seen, _ in lines] == [("1", "24"), ("2", "36")]
        assert all(0 <= int(share) <= 100 for *_, share in lines)

    def test_the_loss_goes_down(self, launches: list[Launch]) -> None:
        lines = re.findall(r"loss ([\d.]+), top-1 ([\d.]+)%", "".join(one.printed for one in launches))
        losses = [float(loss) for loss, _ in lines]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0] / 2
        assert float(lines[-1][1]) == 100


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_imagenet", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_imagenet"] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


def test_waits_are_those_of_the_loader_alone(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    def loader() -> Iterator[int]:
        for batch in range(3):
            spend(0.5)
            yield batch
        spend(0.25)

    monkeypatch.setattr(example, "time", SimpleNamespace(perf_counter=lambda: now))
    batches, seen = example.TimedWaits(loader()), []
    for batch in batches:
        spend(8)
        seen.append(batch)
    assert (seen, batches.seconds, now) == ([0, 1, 2], 1.75, 25.75)


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_tree_and_its_records_give_the_same_batches(split: str, example: ModuleType, tmp_path: Path) -> None:
    data = write_trees(tmp_path / "data", TRAINED, VALIDATED)
    transform = example.make_transform(32, is_training=split == "train")
    tree = example.open_split(str(data), split, transform)
    (tmp_path / "records").mkdir()
    shutil.move(tree.records_path, tmp_path / "records")
    records = example.open_split(str(tmp_path / "records"), split, transform)
    assert type(tree) is type(records) is ImageFolderRecord
    tree = example.open_split(str(data), split, transform)  # makes its records anew
    batches = [list(RecordLoader(each, 5, shuffle=split == "train", seed=3)) for each in (tree, records)]
    assert_same(batches[0], batches[1])
    right = ImageFolder(str(data / split), transform)
    assert records.targets == tree.targets == right.targets
    if split == "val":
        images = torch.cat([images for images, _ in batches[1]])
        assert torch.equal(images, torch.stack([image for image, _ in right]))
