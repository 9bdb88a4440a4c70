"""The demo runs from the wheel alone, says what it did, and leaves alone what is not its own."""

import shlex

import pytest
from PIL import Image

from recordzoo.records.verify import verify
from tests.installing import built, install, start
from tests.running import run


@pytest.mark.slow
def test_the_whole_demo_twice_from_the_wheel(tmp_path):
    command = install(built(tmp_path).wheel, tmp_path / "empty") / "recordzoo"
    assert "cub200" in start(command, "list", cwd=tmp_path)
    for _ in range(2):  # the second time it clears away what the first one made
        printed = start(command, "demo", "--output", tmp_path / "out", cwd=tmp_path)
        for told in (
            "killed with",
            "the rest and no more",
            "2,000 of 2,000 samples are the same",
            "epoch 2: 1,000 images",
            "verified: ",
            "All done",
        ):
            assert told in printed
    with Image.open(tmp_path / "out" / "contact-sheet.png") as sheet:
        assert sheet.width == 1600
        assert 1100 < sheet.height < 1300  # five rows; fonts differ a little
        assert len(sheet.getcolors(1 << 20)) > 1000
    assert verify(tmp_path / "out" / "data" / "cub200.records", full=True).ok
    info, show = [shlex.split(line) for line in printed.partition("Look around:")[2].splitlines()[2:]]
    assert [tmp_path / info[0], tmp_path / show[0]] == [command, command]
    assert "record set of cub200" in start(*info, cwd=tmp_path)
    start(*show, cwd=tmp_path)
    assert "<html" in (tmp_path / "cub200.html").read_text(encoding="utf-8")


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    result = run("demo", "--output", tmp_path, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: --output {tmp_path} has files in it that no demo made. Choose another directory.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
