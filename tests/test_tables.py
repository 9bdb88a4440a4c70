"""Tables and lines on a terminal of 80 columns: wrapped at words, and left alone where programs read them."""

from pathlib import Path

import pytest

from recordzoo import catalogue
from recordzoo.cli.listing import describe
from recordzoo.cli.options import FIXED_SPACE, table, wrapped
from tests.running import run
from tests.terminals import run_on_terminal

PACKAGE = Path(__file__).parent.parent


def test_columns_line_up():
    assert table(("A", "B"), [("long", "1"), ("x", "2")]) == "A     B\nlong  1\nx     2"


def test_wide_cells_are_wrapped_at_words():
    found = table(("NAME", "WHAT"), [("one", "red green blue"), ("two", "-")], width=16)
    assert found == "NAME  WHAT\none   red green\n      blue\ntwo   -"


def test_a_word_is_never_cut():
    word = "x" * 30
    assert word in table(("NAME", "WHAT"), [("one", f"a {word}")], width=16)
    assert wrapped(f"key: a {word}", 16) == f"key: a\n     {word}"


def test_a_fixed_space_holds_together():
    found = table(("A",), [(f"train{FIXED_SPACE}12, val{FIXED_SPACE}3",)], width=12)
    assert found == "A\ntrain 12,\nval 3"


def test_wide_letters_count_for_two():
    assert table(("A", "B"), [("猫犬", "1")]) == "A     B\n猫犬  1"


def test_lines_are_wrapped_behind_their_key():
    assert wrapped("short\nlicense:   see the homepage", 20) == "short\nlicense:   see the\n           homepage"
    assert wrapped("  indented words here", 16) == "  indented words\n    here"


@pytest.mark.parametrize("words", [["list"], ["info", "imagenet"]], ids=" ".join)
def test_a_command_fits_80_columns(words):
    shown = run_on_terminal(*words)
    long = [line for line in shown.split("\n") if len(line) > 80]
    assert all(" " not in line.strip() for line in long)  # an address, which has no place to be wrapped at
    piped = run(*words, cwd=PACKAGE, apart=True).stdout
    assert sorted(shown.split()) == sorted(piped.split())


@pytest.mark.parametrize("name", catalogue.names())
def test_what_is_known_of_a_dataset_fits_80_columns(name):
    text = wrapped(describe(catalogue.entry(name), 80), 80)
    assert all(" " not in line.strip() for line in text.split("\n") if len(line) > 80)


def test_a_pipe_gets_one_line_for_each_dataset():
    lines = run("list", cwd=PACKAGE).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == catalogue.names()
