"""Commands in messages: they can be pasted, whether or not "recordzoo" is on the PATH."""

import os
import subprocess

import pytest

from recordzoo.base import settings
from tests.preparing import REPOSITORY as PACKAGE
from tests.running import python


@pytest.fixture
def script(tmp_path):
    """The script of a virtual environment, with a Python beside it."""
    path = tmp_path / ".venv" / "bin" / "recordzoo"
    path.parent.mkdir(parents=True)
    path.touch(0o755)
    return path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/usr/bin", "{python} -m recordzoo"),
        (".venv/bin:/usr/bin", "recordzoo"),
        ("linked", "recordzoo"),  # of another Python's folder, as pipx installs it
        ("other", "{python} -m recordzoo"),  # another recordzoo is on the path
    ],
)
def test_a_program_is_named_so_that_a_shell_finds_it(script, monkeypatch, tmp_path, path, found):
    for folder in ("linked", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "linked" / "recordzoo").symlink_to(script)
    (tmp_path / "other" / "recordzoo").touch(0o755)
    monkeypatch.setenv("PATH", ":".join(str(tmp_path / each) for each in path.split(":")))
    monkeypatch.setattr(settings, "_program", "")
    python = str(script.with_name("python"))
    settings.set_program(str(script), python)
    assert settings.command("list") == found.format(python=python) + " list"


def test_the_command_of_a_message_runs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin"}
    told = python("-m", "recordzoo", "prepare", cwd=tmp_path, PATH="/usr/bin:/bin").stderr
    suggested = told.partition("See: ")[2]
    again = subprocess.run(suggested, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (again.returncode, again.stdout.split()[0]) == (0, "Usage:")
