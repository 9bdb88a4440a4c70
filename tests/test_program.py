"""Commands in messages: they can be pasted, whether or not "recordzoo" is on the PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recordzoo.base.settings import command, find_program

PACKAGE = Path(__file__).parent.parent


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script of a virtual environment below the current directory, with a Python beside it."""
    path = tmp_path / ".venv" / "bin" / "recordzoo"
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    return path


def test_words_are_quoted():
    assert command("prepare", Path("my photos")) == "recordzoo prepare 'my photos'"


def test_a_script_that_is_not_on_the_path_is_named_by_its_place(script):
    assert find_program(str(script), str(script.with_name("python"))) == ".venv/bin/recordzoo"


def test_a_script_elsewhere_is_named_by_its_whole_path(script, monkeypatch):
    (script.parent / "deep").mkdir()
    monkeypatch.chdir(script.parent / "deep")
    assert find_program(str(script), "/usr/bin/python3") == str(script)


def test_a_script_on_the_path_is_called_by_its_name(script, monkeypatch):
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin")
    assert find_program(str(script), "/usr/bin/python3") == "recordzoo"


def test_a_module_is_run_by_its_python(script):
    started_as = PACKAGE / "recordzoo" / "__main__.py"
    assert find_program(str(started_as), str(script.with_name("python"))) == ".venv/bin/python -m recordzoo"


def test_another_recordzoo_on_the_path_is_not_the_one_that_runs(script, monkeypatch, tmp_path):
    other = tmp_path / "other" / "recordzoo"
    other.parent.mkdir()
    other.touch(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}")
    assert find_program(str(script), str(script.with_name("python"))) == ".venv/bin/recordzoo"


def test_the_command_of_a_message_runs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "recordzoo", "prepare"]
    told = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    suggested = told.partition("See: ")[2]
    again = subprocess.run(suggested, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (again.returncode, again.stdout.split()[0]) == (0, "Usage:")
