"""What people read while work goes on: sizes, durations, lines; and the log that says it."""

import logging

import pytest

from recordzoo import progress


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


def test_the_log_speaks_now_and_then(caplog):
    caplog.set_level(logging.INFO, "recordzoo")
    told = progress.LogProgress(interval_s=0.0)
    told.begin("converting x", 100)
    told.advance(10)
    assert caplog.records[-1].message.startswith("converting x: 10 B of 100 B (10%)")
