"""What type checkers see of the package: a user's program, which mypy checks and nobody runs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = """
from typing import Any, assert_type

import numpy as np
import recordzoo
from numpy.typing import NDArray
from recordzoo import CUB200Record, ImageNetRecord, ImagenetteRecord, MNISTRecord, RecordLoader
from torch import Tensor
from torch.utils.data import DataLoader

birds = recordzoo.datasets.CUB200Record("data", split="train", target_type=["category", "bbox"])
assert_type(birds, CUB200Record)
assert_type(birds.classes, list[str])
assert_type(birds.targets, list[int])
assert_type(birds.samples, list[tuple[str, int]])
assert_type(birds.class_to_idx, dict[str, int])
image, target = birds[0]
birds.transform = None
CUB200Record("data", split="valid")  # type: ignore[arg-type]
CUB200Record("data", target_type=["box"])  # type: ignore[list-item]

assert_type(ImageNetRecord("data", "val").classes, list[tuple[str, ...]])
assert_type(ImagenetteRecord("data", size="160px").classes, list[tuple[str, ...]])
ImageNetRecord("data", "test")  # type: ignore[arg-type]

digits = MNISTRecord("data")
assert_type(digits.data, Tensor)
assert_type(digits.targets, Tensor)
assert_type(recordzoo.QMNISTRecord("data", "test10k").targets, Tensor)
assert_type(recordzoo.CIFAR10Record("data").data, NDArray[np.uint8])
assert_type(recordzoo.Flowers102Record("data", "val").classes, list[str])
assert_type(recordzoo.VOCDetectionRecord("data", "2007", "test").targets, list[str])
first, second, is_same = recordzoo.LFWPairsRecord("data")[0]

opened = recordzoo.open("my.records", split="test")
assert_type(opened[0], tuple[Any, Any])
assert_type(len(opened), int)
assert_type(opened.classes, list[Any])
assert_type(opened.read(0), bytes)

for x, y in RecordLoader(opened, 32, shuffle="block"):
    print(x.shape, y.shape)
assert_type(len(RecordLoader(birds)), int)
for x, y in DataLoader(opened, 32):
    print(x.shape, y.shape)
"""


@pytest.mark.slow  # the first run takes a minute; `make types` leaves it the cache
def test_a_users_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", program]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (result.stdout, result.stderr) == ("Success: no issues found in 1 source file\n", "")
