"""What a newcomer meets first on the command line: no arguments, wrong places, misspelt paths, Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import folder
from tests.running import run

PACKAGE = Path(__file__).parent.parent


@pytest.fixture
def photos(tmp_path):
    """A class-per-folder tree, called photos."""
    return folder.write_tree(tmp_path / "photos")


class TestNothingSaid:
    def test_the_help_is_printed(self, tmp_path):
        result = run(cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == run("--help", cwd=tmp_path).stdout
        assert "\n  prepare  " in result.stdout

    @pytest.mark.parametrize("name", ["info", "prepare", "import", "verify", "show", "bench"])
    def test_a_missing_argument_is_one_line(self, name, tmp_path):
        result = run(name, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("error: Missing argument '")
        assert result.stderr.endswith(f"See: recordzoo {name} --help\n")
        assert result.stderr.count("\n") == 1


class TestInterrupted:
    def test_bench_does_not_promise_to_go_on(self, tmp_path):
        photos = folder.write_tree(tmp_path / "photos")
        assert run("prepare", photos, cwd=tmp_path).returncode == 0
        (tmp_path / "own.py").write_text("import time\ndef wait(image):\n    print('begun')\n    time.sleep(60)\n")
        words = [sys.executable, "-m", "recordzoo", "bench", "photos", "--transform", "own.py:wait", "--workers", "0"]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(words, cwd=tmp_path, env=environment, start_new_session=True, **pipes) as process:
            assert process.stdout.readline() == "begun\n"
            os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
            said = process.stderr.read()
        assert process.returncode == 130
        assert said.splitlines()[-1] == ("interrupted; nothing of this run is kept, and the same command begins again.")
        assert "Traceback" not in said
