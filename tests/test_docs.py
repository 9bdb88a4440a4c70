"""The documentation cannot drift: the program is enumerated and its pages are asked for it; every example runs."""

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest
import torchvision

import recordzoo
from docs import generate
from docs.parts import dataset_page, register
from recordzoo import catalogue
from tests.test_commands import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+?) -->\s*$")
BLOCK = re.compile(r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)


def name_of(page):
    """Return a page's path as the navigation has it; README.md is none of its pages."""
    return page.relative_to(ROOT / "docs").as_posix() if page.is_relative_to(ROOT / "docs") else page.name


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page, language):
    """Find the code blocks of a language that carry no reason for not being run."""
    text = page.read_text(encoding="utf-8")
    found = [match for match in BLOCK.finditer(text) if match["language"] == language]
    return [match["code"] for match in found if not NOT_RUN.search(text[: match.start()].rstrip("\n") + "\n")]


def built(name):
    """Return a page as the site has it, with its generated parts."""
    return register.expanded(text_of(name))


def test_generated_files_are_fresh():
    assert generate.stale() == {}, "run: make generate"


def test_every_generated_part_has_its_place():
    found = [part for page in PAGES[1:] for part in register.names(page.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(register.PARTS)


def test_every_variable_is_explained():
    used = set()
    for path in (ROOT / "recordzoo").rglob("*.py"):
        used |= set(re.findall(r"(?<!_)RECORDZOO_[A-Z]+(?:_[A-Z]+)*", path.read_text(encoding="utf-8")))
    page = built("docs/cli.md")
    assert used
    assert [name for name in sorted(used) if f"`{name}`" not in page] == []


def test_every_public_name_is_on_one_page_of_the_api():
    page = "".join(built(f"docs/{name_of(each)}") for each in PAGES if each.parent.name == "api")
    homes = {name: each for each in map(catalogue.entry, catalogue.names()) for name in each.class_names}
    for name in recordzoo.__all__:
        if name in homes:
            assert f"(../datasets/{homes[name].name}.md#recordzoo.{name})" in page
            assert f"::: recordzoo.{name}" in dataset_page.classes(homes[name])
        elif name not in ("__version__", "datasets"):
            assert page.count(f"::: recordzoo.{name}\n") == 1, name


def not_here():
    """Read the table of datasets that the zoo lacks: a list of cells for each row."""
    table = text_of("docs/datasets.md").partition("\n## Not here\n")[2]
    rows = re.findall(r"^\|.+\|$", table, re.MULTILINE)[2:]
    return [[each.strip() for each in row.strip("|").split(" | ")] for row in rows]


@pytest.mark.parametrize("row", not_here(), ids=lambda row: row[0].partition(",")[0].strip("`"))
def test_the_line_for_an_own_copy_works_today(row):
    """The command takes the options; the functions and classes are there and take the arguments."""
    what, own, why = row
    lines = re.findall(r"`((?:recordzoo)\b[^`]+)`", own)
    assert why
    assert len(lines) == (0 if what == "JFT" else 1)
    for line in lines:
        if line.startswith("recordzoo "):
            command, *words = shlex.split(line)[1:]
            COMMANDS[command].make_context(command, words)
        else:
            for call in ast.walk(ast.parse(line)):
                if isinstance(call, ast.Call):
                    called = eval(ast.unparse(call.func), {"recordzoo": recordzoo, "torchvision": torchvision})
                    inspect.signature(called).bind(*call.args, **{keyword.arg: None for keyword in call.keywords})


def test_what_torchvision_has_is_in_the_catalogue_or_not_here():
    lacking = {name for what, _, _ in not_here() for name in re.findall(r"\w+", what)}
    helpers = {"FakeData", "VisionDataset", "wrap_dataset_for_transforms_v2"}
    theirs = set(torchvision.datasets.__all__) - helpers
    ours = {name.removesuffix("Record") for name in recordzoo.__all__}
    assert theirs - ours - lacking == set()


def test_every_page_is_in_the_navigation():
    navigation = text_of("mkdocs.yml")
    assert [name_of(page) for page in PAGES[1:] if f": {name_of(page)}\n" not in navigation] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shell_examples_use_commands_and_options_that_exist(page):
    """Commands within sentences, too."""
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))
    inline = re.findall(r"`(recordzoo [a-z][^`|]+)`", page.read_text(encoding="utf-8"))
    for line in [*"".join(blocks(page, "sh")).replace("\\\n", " ").splitlines(), *inline]:
        words = shlex.split(line, comments=True)
        if words[:1] == ["recordzoo"]:
            command = words[1] if words[1] in COMMANDS else " ".join(words[1:3])
            known = {name for p in COMMANDS[command].params for name in (*p.opts, *p.secondary_opts)}
            assert {word for word in words if word.startswith("--")} <= {*known, "--help"}, line
        elif words[:1] == ["make"]:
            assert set(words[1:]) <= targets, line
