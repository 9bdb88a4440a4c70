"""Commands in messages: they can be pasted, whether or not "recordzoo" is on the PATH."""

import os
import subprocess

import pytest

from recordzoo.base.settings import find_program
from tests.preparing import REPOSITORY as PACKAGE
from tests.running import python


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script of a virtual environment below the current directory, with a Python beside it."""
    path = tmp_path / ".venv" / "bin" / "recordzoo"
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize(
    ("path", "here", "found"),
    [
        ("/usr/bin", "", ".venv/bin/recordzoo"),
        ("/usr/bin", ".venv/bin/deep", "{script}"),
        (".venv/bin:/usr/bin", "", "recordzoo"),
        ("other", "", ".venv/bin/recordzoo"),  # another recordzoo is on the path
    ],
)
def test_a_script_is_named_so_that_a_shell_here_finds_it(script, monkeypatch, tmp_path, path, here, found):
    for folder in (".venv/bin/deep", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "other" / "recordzoo").touch(0o755)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / each) for each in path.split(":")))
    monkeypatch.chdir(tmp_path / here)
    assert find_program(str(script), str(script.with_name("python"))) == found.format(script=script)


def test_a_module_is_run_by_its_python(script):
    started_as = PACKAGE / "recordzoo" / "__main__.py"
    assert find_program(str(started_as), str(script.with_name("python"))) == ".venv/bin/python -m recordzoo"


def test_the_command_of_a_message_runs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}
    told = python("-m", "recordzoo", "prepare", cwd=tmp_path, PATH="/usr/bin:/bin").stderr
    suggested = told.partition("See: ")[2]
    again = subprocess.run(suggested, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (again.returncode, again.stdout.split()[0]) == (0, "Usage:")
