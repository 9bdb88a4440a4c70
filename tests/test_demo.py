"""The demo runs, says what it did, and leaves alone what is not its own."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from recordzoo.records.verify import verify

PACKAGE = Path(__file__).parent.parent


def demo(folder):
    return run([sys.executable, "-m", "recordzoo", "demo", "--output", folder], folder.parent)


def run(words, folder):
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.mark.slow
def test_the_whole_demo_twice(tmp_path):
    for _ in range(2):  # the second time it clears away what the first one made
        result = demo(tmp_path / "out")
        assert result.returncode == 0, result.stderr
        for told in (
            "killed (SIGKILL)",
            "the rest and no more",
            "2,000 of 2,000 samples are the same",
            "epoch 2: 1,000 images",
            "verified: ",
            "All done",
        ):
            assert told in result.stdout
    with Image.open(tmp_path / "out" / "contact-sheet.png") as sheet:
        assert sheet.width == 1600
        assert 1100 < sheet.height < 1300  # five rows; fonts differ a little
        assert len(sheet.getcolors(1 << 20)) > 1000
    assert verify(tmp_path / "out" / "data" / "cub200.records", full=True).ok
    info, show = [shlex.split(line) for line in result.stdout.partition("Look around:")[2].splitlines()[2:]]
    told = run(info, tmp_path)
    assert told.returncode == 0, told.stderr
    assert "record set of cub200" in told.stdout
    told = run(show, tmp_path)
    assert told.returncode == 0, told.stderr
    assert "<html" in (tmp_path / "cub200.html").read_text(encoding="utf-8")


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    result = demo(tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: --output {tmp_path} has files in it that no demo made. Choose another directory.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
