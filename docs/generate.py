"""Write the parts of the documentation that the program knows better: datasets, commands, exit codes, the API's list.

    python docs/generate.py             # writes
    python docs/generate.py --check     # fails where something is stale

A generated part stands between two comments in its page; everything around it is written by hand.
"""

import ast
import html
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import typer.main

import recordzoo
from recordzoo import catalogue
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli.app import app
from recordzoo.cli.exits import MEANINGS
from recordzoo.datasets import CLASSES
from recordzoo.progress import format_bytes

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.faults import NOT_TRIED, PLACES  # noqa: E402


def dataset_overview() -> str:
    """One row for each dataset."""
    rows = [
        (
            f"`{e.name}`",
            f"[{e.title}]({e.homepage})",
            "<br>".join(f"`{name}`" for name in e.class_names),
            _splits(e),
            format_bytes(e.size_bytes) if e.size_bytes else "?",
        )
        for e in map(catalogue.entry, catalogue.names())
    ]
    own = ("*a path*", "any class-per-folder tree", "`ImageFolderRecord`", "", "")
    return _table(("name", "dataset", "class", "splits", "download"), [*rows, own])


def dataset_pages() -> str:
    """Everything that the catalogue knows, a section for each dataset."""
    return "\n\n".join(_dataset_section(catalogue.entry(name)) for name in catalogue.names())


def commands() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)  # Any: click's classes, which newer typers carry inside
    sections = [f"## recordzoo\n\n{_parameters(group)}"]
    for name, command in group.commands.items():
        arguments = [p.metavar for p in command.params if p.param_type_name == "argument"]
        usage = " ".join(["recordzoo", name, *arguments, "[OPTIONS]"])
        sections.append(f"## {name}\n\n```text\n{usage}\n```\n\n{_unwrapped(command.help)}\n\n{_parameters(command)}")
    return "\n\n".join(sections)


def exit_codes() -> str:
    """What each exit code means."""
    return _table(("code", "meaning"), [(str(code.value), meaning) for code, meaning in MEANINGS.items()])


def environment() -> str:
    """The environment variables, from the docstrings of `recordzoo.settings`."""
    from recordzoo import settings

    rows = []
    for function in vars(settings).values():
        match = re.fullmatch(
            r"(.*) \(``(RECORDZOO_\w+)``(?:, (.*))?\)\.", getattr(function, "__doc__", None) or "", re.S
        )
        if match:
            rows.append((f"`{match[2]}`", _unwrapped(match[1]).replace("``", "`"), match[3] or "not set"))
    return _table(("variable", "what it says", "default"), rows)


def api_classes() -> str:
    """A section for each dataset class."""
    return _api(name for name in recordzoo.__all__ if name in CLASSES)


def api_zoo() -> str:
    """A section for each function that works without a dataset object."""
    return _api(recordzoo.ZOO)


def api_own() -> str:
    """A section for each thing that is for everybody's own data."""
    return _api(recordzoo.OWN)


def api_training() -> str:
    """A section for each thing that brings samples to a training loop."""
    return _api(recordzoo.TRAINING)


def _api(names: Iterable[str]) -> str:
    """Show names as they are imported, from the package itself."""
    return "\n\n".join(f"::: recordzoo.{name}" for name in names)


def faults() -> str:
    """The fault catalogue: a table for each place, made of the marks of the tests."""
    found = tried_faults()
    tables = []
    for letter, (heading, _) in PLACES.items():
        numbers = sorted((n for n in {*found, *NOT_TRIED} if n[0] == letter), key=lambda number: int(number[1:]))
        rows = [(number, *_fault_row(number, found.get(number, []))) for number in numbers]
        tables.append(f"### {heading}\n\n{_table(('', 'what happens', 'what you see', 'tested by'), rows)}")
    return "\n\n".join(tables)


def tried_faults() -> dict[str, list[tuple[str, str, str]]]:
    """Read the marks out of the tests: for each fault (test, what happens, what is seen), the texts often empty."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "fault":
                    number, what, seen = (*map(ast.literal_eval, mark.args), "", "")[:3]
                    found[number].append((f"{path.name}::{node.name}", what, seen))
    return found


def _fault_row(number: str, marks: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    if number in NOT_TRIED:
        what, why = NOT_TRIED[number]
        return what, why, "not tested"
    texts = [(what, seen) for _, what, seen in marks if what]
    return *(texts or [("", "")])[0], "<br>".join(f"`{test}`" for test, _, _ in marks)


SECTIONS: dict[str, tuple[tuple[str, Callable[[], str]], ...]] = {
    "README.md": (("datasets", dataset_overview),),
    "docs/datasets.md": (("overview", dataset_overview), ("datasets", dataset_pages)),
    "docs/cli.md": (("commands", commands), ("exit codes", exit_codes), ("environment", environment)),
    "docs/api.md": (("classes", api_classes), ("zoo", api_zoo), ("own data", api_own), ("training", api_training)),
    "docs/faults.md": (("faults", faults),),
}


def updated(page: str) -> str:
    """Return a page with its generated parts made anew."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, make in SECTIONS[page]:
        begin, end = f"<!-- generated: {name} -->", f"<!-- end of generated: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"{page} must have {begin} and {end} once.")
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text


def main(arguments: Sequence[str]) -> None:
    """Write the pages, or say which are stale."""
    stale = [page for page in SECTIONS if (ROOT / page).read_text(encoding="utf-8") != updated(page)]
    if "--check" in arguments:
        sys.exit(f"stale: {', '.join(stale)}; run: make generate" if stale else 0)
    for page in stale:
        (ROOT / page).write_text(updated(page), encoding="utf-8")


def _dataset_section(entry: Entry) -> str:
    parts = [
        (
            f"`{entry.label(p.name)}`",
            f"`{entry.set_name(p.name)}.records`",
            p.description or "everything",
            "only when named" if p.optional else "yes",
        )
        for p in entry.parts
    ]
    classes = [f"[`{path.partition(':')[2]}`](api.md#recordzoo.{path.partition(':')[2]})" for path in entry.class_paths]
    lines = [
        f"## {entry.title}",
        f"{entry.summary} [Homepage]({entry.homepage}).",
        f"- in Python: {', '.join(classes)}\n"
        f"- in a shell: `recordzoo prepare {entry.name} --root DIR`\n"
        f"- splits: {_splits(entry)}\n"
        + (f"- classes: {entry.num_classes:,}\n" if entry.num_classes else "")
        + f"- licence: {entry.licence}\n"
        f"- cite: {entry.citation}",
        _table(("name", "record set", "holds", "prepared with the dataset"), parts),
        _table(("raw file", "bytes", "hash"), map(_file_row, entry.files)),
    ]
    if entry.instructions:
        by_hand = entry.instructions.replace("{folder}", "DIR").replace("{recordzoo}", "recordzoo")
        lines.append(f"By hand:\n\n```text\n{by_hand}\n```")
    return "\n\n".join(lines)


def _file_row(file: FileFacts) -> tuple[str, str, str]:
    name = f"[`{file.name}`]({file.urls[0]})" if file.urls else f"`{file.name}`"
    terms = ", terms of access" if file.needs_terms else ""
    size = f"{file.size_bytes:,}" if file.size_bytes else "?"
    return name + terms, size, f"`{file.digest}`" if file.digest else "none known"


def _splits(entry: Entry) -> str:
    return ", ".join(f"{split.name} {split.count:,}" for split in entry.splits)


def _parameters(command: Any) -> str:  # Any: a click command
    rows = []
    for parameter in command.params:
        names = " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar}`"
        rows.append((names, _unwrapped(parameter.help or "")))
    return _table(("argument or option", "what it does"), rows)


def _unwrapped(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in cells)


def _cell(text: str) -> str:
    """Write a cell with bars so that Python-Markdown and GitHub both show them.

    Python-Markdown keeps the backslash of an escaped bar in code, so such code is written as HTML.
    """
    text = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{html.escape(code[1]).replace('|', '&#124;')}</code>", text)
    return text.replace("|", "&#124;")


if __name__ == "__main__":
    main(sys.argv[1:])
