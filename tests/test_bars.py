"""Bars on a terminal of 80 columns: the bar can be seen, and the end is 100 %."""

import contextlib
import re
import sys

from recordzoo.base.progress import BarProgress, close_bars, closed_on_error
from tests.terminals import drawn_by


def shown(work):
    """Call a function while stderr is a terminal of 80 columns; return the lines that were drawn there."""
    return [line for line in re.split(r"[\r\n]+", drawn_by(work)) if line.strip()]


def drawn(stage, total, *advances, done=0):
    """Return the lines of a stage, which is drawn after each advance."""

    def work():
        bar = BarProgress()
        bar.begin(stage, total, done)
        for advance in advances:
            bar.advance(*advance)
            bar._bar.refresh()
        bar.end()

    return shown(work)


def test_a_bar_is_ten_columns_wide_at_least():
    stage = "downloading ILSVRC2012_img_train.tar.part.of.a.long.name"
    lines = drawn(stage, 147_897_477_120, (73_000_000_000,), (73_000_000_000, 1_281_167))
    assert len(lines) >= 4
    assert all(len(re.search(r"\|(.*)\|", line)[1]) >= 10 for line in lines)
    assert max(map(len, lines)) <= 80
    assert "1,281,167 images" in lines[-1]


def test_a_download_shows_bytes_and_the_end_is_the_end():
    first, *_, last = drawn("downloading CUB_200_2011.tgz", 1_150_585_339, (600_585_339,), done=500_000_000)
    assert "500MB/1.15GB" in first
    assert first.endswith(" left")
    assert "100%|" in last
    last = drawn("reading", None, (5_000_000,))[-1]
    assert last.startswith("reading: 5.00MB, ")
    assert "%" not in last


def test_a_traceback_and_a_message_begin_on_lines_of_their_own():
    def work():
        bar = BarProgress()
        with contextlib.suppress(OSError), closed_on_error(bar):
            bar.begin("converting photos", 100)
            raise OSError("full")
        print("Traceback", file=sys.stderr)
        bar.begin("converting photos", 100)
        close_bars()
        print("error: it broke", file=sys.stderr)

    lines = shown(work)
    assert "Traceback" in lines
    assert lines[-1] == "error: it broke"
