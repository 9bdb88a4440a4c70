"""Tables on a terminal of 80 columns: wrapped at words, and left alone where programs read them."""

import os
import re
import subprocess
import sys

import pytest

from recordzoo import catalogue
from recordzoo.cli.options import table
from tests.fakes import folder
from tests.preparing import REPOSITORY
from tests.running import run
from tests.terminals import run_on_terminal


def test_columns_line_up_and_are_wrapped_at_words():
    assert table(("A", "B"), [("猫犬", "1"), ("x", "2")]) == "A     B\n猫犬  1\nx     2"  # wide letters count for two
    assert "x" * 30 in table(("NAME", "WHAT"), [("one", f"a {'x' * 30}")], width=16)  # a word is never cut
    found = table(("NAME", "WHAT"), [("one", "red green blue"), ("two", "-")], width=16)
    assert found == "NAME  WHAT\none   red green\n      blue\ntwo   -"


def test_a_list_fits_80_columns():
    shown = run_on_terminal("list")
    assert [line for line in shown.split("\n") if len(line) > 80] == []
    piped = run("list", cwd=REPOSITORY, apart=True).stdout
    assert sorted(shown.split()) == sorted(piped.split())


def test_a_pipe_gets_one_line_for_each_dataset():
    lines = run("list", cwd=REPOSITORY).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == catalogue.names()


@pytest.mark.slow
def test_a_set_is_listed_and_deleted_after_a_question(tmp_path):
    folder.write_tree(tmp_path / "photos")
    assert run("prepare", "photos", cwd=tmp_path).returncode == 0
    both = ("stdout", "stderr")
    shown = run_on_terminal("cache", "ls", tmp_path, streams=both, NO_COLOR="1")
    assert re.match(r"NAME +WHAT +SIZE +USED +ABOUT +PATH\nphotos +record set ", shown)
    assert "\x1b" not in shown
    shown = run_on_terminal("cache", "rm", tmp_path / "photos.records", streams=both, typed="y\n")
    assert re.search(r"Delete 1 record set, .* \[y/N\]: Deleted 1 record set, ", shown)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


@pytest.mark.slow
def test_doctor_on_a_terminal(tmp_path):
    shown = run_on_terminal("doctor", "--root", tmp_path, NO_COLOR="1")
    assert shown.splitlines()[-1] == "recordzoo works here."
    assert "\x1b" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("words", ["list", "cache ls --json"])
@pytest.mark.parametrize(("stdout", "code"), [(">&-", 0), (">/dev/full", 6)])
def test_nowhere_to_print_to(tmp_path, words, stdout, code):
    command = f"{sys.executable} -m recordzoo {words} {stdout}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert ("No space left on device" in done.stderr) == (code == 6)
