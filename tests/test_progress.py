"""What people read while work goes on: sizes, durations, lines; and the log that says it."""

import logging
import os

import pytest

from recordzoo.base import progress
from recordzoo.base.progress import LineProgress
from tests import warm


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1_150_585_339, "1.15 GB"),
        (147_897_477_120, "148 GB"),
        (2.5e12, "2.5 TB"),
        (999_600, "1 MB"),
    ],
)
def test_sizes(size, text):
    assert progress.format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations(seconds, text):
    assert progress.format_seconds(seconds) == text


def test_a_line_has_bytes_images_rates_and_what_is_left():
    line = progress.progress_line("converting x", 500_000_000, 2_000_000_000, 5000, 10.0, 250_000_000)
    assert line == ("converting x: 500 MB of 2 GB (25%), 5,000 images, 25 MB/s, 500 images/s, 1 min 00 s left")


def test_a_line_never_passes_the_whole():
    assert "(100%)" in progress.progress_line("x", 11, 10, 0, 1.0, 11)


def test_the_log_says_begin_resume_and_end(caplog):
    caplog.set_level(logging.INFO, "recordzoo")
    told = progress.LogProgress()
    told.begin("downloading x", 100, 40)
    told.advance(60, 3)
    told.note("by the way")
    told.end()
    assert [record.message for record in caplog.records][:3] == [
        "downloading x, resuming at 40 B",
        "by the way",
        "downloading x: 100 B of 100 B (100%), 3 images: done",
    ]


TREE = """
import sys
from pathlib import Path
from PIL import Image
for name in ("cat", "dog"):
    Path("photos", name).mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 7)).save(Path("photos", name, "1.png"))
from recordzoo import ImageFolderRecord
"""


def constructed(folder, before="", **environment):
    """What a constructor that converts writes to stderr in a program of its own, which is no terminal."""
    done = warm.run(
        f"{TREE}\n{before}\nImageFolderRecord('photos', workers=1)", cwd=folder, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.slow
def test_a_constructor_without_a_terminal_says_what_it_does(tmp_path):
    first = constructed(tmp_path)
    assert first[0].startswith("recordzoo: Preparing ")
    assert first[1] == "recordzoo: Stages: convert, read back, publish"
    assert first[2].startswith("recordzoo: converting ")
    assert first[3].startswith(first[2])
    assert first[3].endswith("2 images: done")
    assert first[4].startswith("recordzoo: read back: ")
    assert first[5].startswith("recordzoo: publish: ")
    assert len(first) == 6
    assert constructed(tmp_path) == [], "what is there is opened without a word"


@pytest.mark.parametrize(
    ("before", "environment"),
    [
        ("", {"RECORDZOO_QUIET": "1"}),
        pytest.param("import logging; logging.basicConfig(level=logging.WARNING)", {}, marks=pytest.mark.slow),
        pytest.param(
            "import logging; logging.getLogger('recordzoo').addHandler(logging.NullHandler())",
            {},
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.slow
def test_it_says_nothing_where_that_is_wished(before, environment, tmp_path):
    assert constructed(tmp_path, before, **environment) == []


@pytest.mark.slow
def test_it_says_each_line_once_where_logging_is_configured(tmp_path):
    lines = constructed(tmp_path, "import logging; logging.basicConfig(level=logging.INFO)")
    assert [line.startswith("INFO:recordzoo:") for line in lines] == [True] * 6


def test_a_line_each_half_minute(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "recordzoo")
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    told = progress.LogProgress()
    told.begin("converting x", 100)
    for now[0] in (1029.0, 1030.0, 1059.0, 1060.0):
        told.advance(10)
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "converting x",
        "converting x: 20 B of 100 B (20%)",
        "converting x: 40 B of 100 B (40%)",
    ]


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
