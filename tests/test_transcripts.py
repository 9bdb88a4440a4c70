"""What a terminal of 80 columns shows, sizes and dates normalised; and what happens where stdout is closed or full."""

import re
import subprocess
import sys

import pytest

from tests.fakes import folder
from tests.preparing import REPOSITORY
from tests.running import run
from tests.terminals import run_on_terminal

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path):
    folder.write_tree(tmp_path / "photos")
    assert run("prepare", "photos", cwd=tmp_path).returncode == 0
    return tmp_path


def normalised(text, root):
    text = text.replace(str(root), "ROOT")
    text = re.sub(r"[0-9.]+ [kMG]?B\b", "SIZE", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)
    return re.sub(r" +", " ", text)


def test_a_set_is_listed_and_deleted_after_a_question(root):
    both = ("stdout", "stderr")
    shown = run_on_terminal("cache", "ls", root, streams=both, NO_COLOR="1")
    listed = "NAME WHAT SIZE USED ABOUT PATH\nphotos record set SIZE DATE ROOT/photos.records\n"
    assert normalised(shown, root) == f"{listed}1 record set, SIZE\n"
    assert "\x1b" not in shown
    shown = run_on_terminal("cache", "rm", root / "photos.records", streams=both, typed="y\n")
    asked = "Delete 1 record set, SIZE? [y/N]: Deleted 1 record set, SIZE.\n"
    assert normalised(shown, root) == f"y\n{listed}{asked}"
    assert [path.name for path in root.iterdir()] == ["photos"]


def test_doctor_fits_80_columns_but_for_what_has_no_spaces(root):
    shown = run_on_terminal("doctor", "--root", root, NO_COLOR="1")
    assert [line for line in shown.splitlines() if len(line) > 80 and str(root) not in line] == []
    assert shown.splitlines()[-1] == "recordzoo works here."
    assert "\x1b" not in shown


@pytest.mark.parametrize("words", ["list", "cache ls", "cache ls --json"])
@pytest.mark.parametrize(("stdout", "code"), [(">&-", 0), (">/dev/full", 6)])
def test_nowhere_to_print_to(root, words, stdout, code):
    command = f"{sys.executable} -m recordzoo {words} {stdout}"
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", "RECORDZOO_STATE": "off"}
    environment["RECORDZOO_CACHE_DIR"] = str(root / "cache")
    done = subprocess.run(command, shell=True, cwd=root, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert ("No space left on device" in done.stderr) == (code == 6)
