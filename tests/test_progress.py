"""What people read while work goes on: lines, and the log that says it."""

import logging
import os

import pytest

from recordzoo.base import progress
from recordzoo.base.progress import LineProgress
from tests import warm


def test_the_log_says_begin_resume_each_half_minute_and_end(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "recordzoo")
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    told = progress.LogProgress()
    told.begin("downloading x", 100, 40)
    told.note("by the way")
    for now[0] in (1029.0, 1030.0, 1059.0):
        told.advance(20, 1)
    told.end()
    assert [record.message.partition("images, ")[0] for record in caplog.records] == [
        "downloading x, from 40 B on",
        "by the way",
        "downloading x: 80 B of 100 B (80%), 2 ",
        "downloading x: 100 B of 100 B (100%), 3 ",
    ]
    assert caplog.records[-1].message.endswith(": done")


TREE = """
import sys
from pathlib import Path
from PIL import Image
for name in ("cat", "dog"):
    Path("photos", name).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 7)).save(Path("photos", name, "1.png"))
from recordzoo import ImageFolderRecord
"""


@pytest.mark.parametrize(
    ("before", "environment", "start", "count"),
    [
        ("", {}, "recordzoo: ", 4),
        ("", {"RECORDZOO_QUIET": "1"}, "", 0),
        ("import logging; logging.basicConfig(level=logging.WARNING)", {}, "", 0),
        ("import logging; logging.basicConfig(level=logging.INFO)", {}, "INFO:recordzoo:", 4),
    ],
)
@pytest.mark.slow
def test_a_constructor_without_a_terminal_says_what_it_does(before, environment, start, count, tmp_path):
    """With progress off it says nothing; with logging configured, each line once; of ready sets, nothing."""
    code = f"{TREE}\n{before}\nImageFolderRecord('photos', workers=1)"
    first, second = (warm.run(code, cwd=tmp_path, env={**os.environ, **environment}) for _ in range(2))
    assert (first.returncode, second.returncode, second.stderr) == (0, 0, "")
    lines = first.stderr.splitlines()
    assert len(lines) == count
    assert all(line.startswith(start) for line in lines)
    if lines:
        assert "Preparing " in lines[0]
        assert "2 images: done" in lines[2]


def test_lines_come_now_and_then_and_cannot_act_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress.logger, "handlers", [])
    monkeypatch.setattr(progress.logger, "propagate", False)
    told = LineProgress(interval_s=0.0)
    told.begin("converting \x1b[2J", 100)
    told.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "recordzoo: converting \\x1b[2J",
        "recordzoo: converting \\x1b[2J: 10 B of 100 B (10%)",
    ]
