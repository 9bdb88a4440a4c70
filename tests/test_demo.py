"""examples/demo.py runs with the wheel alone, says what it did, and leaves alone what is not its own."""

import shlex

import pytest
from PIL import Image

from recordzoo.records.verify import verify
from tests.installing import built, install, start
from tests.preparing import REPOSITORY
from tests.running import python

DEMO = REPOSITORY / "examples" / "demo.py"


@pytest.mark.slow
def test_the_whole_demo_twice_from_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("RECORDZOO_COMPILE", "off")  # a new environment would compile all of it
    programs = install(built(tmp_path).wheel, tmp_path / "empty")
    assert "cub200" in start(programs / "recordzoo", "list", cwd=tmp_path)
    for _ in range(2):  # the second time it clears away what the first one made
        printed = start(programs / "python", DEMO, "--output", tmp_path / "out", cwd=tmp_path)
        for told in ("killed with", "the rest and no more", "400 of 400 samples are the same", "All done"):
            assert told in printed
    with Image.open(tmp_path / "out" / "contact-sheet.png") as sheet:
        assert sheet.width == 1600
        assert 1250 < sheet.height < 1400  # five rows; fonts differ a little
        assert len(sheet.getcolors(1 << 20)) > 1000
    assert verify(tmp_path / "out" / "data" / "cub200.records", full=True).ok
    info, show, check = [shlex.split(line) for line in printed.partition("Look around:")[2].splitlines()[1:]]
    assert {tmp_path / words[0] for words in (info, show, check)} == {programs / "python"}
    assert "record set of cub200" in start(*info, cwd=tmp_path)
    assert start(*check, cwd=tmp_path)
    start(*show, cwd=tmp_path)
    assert (tmp_path / "cub200.png").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    result = python(DEMO, "--output", tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: --output {tmp_path} has files in it that no demo made.")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
