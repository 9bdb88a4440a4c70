"""Write the parts of the documentation that the program knows better: datasets, commands, exit codes, the API's list.

    python docs/generate.py             # writes
    python docs/generate.py --check     # fails where something is stale

A generated part stands between two comments in its page; everything around it is written by hand.
"""

import ast
import functools
import html
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.main

import recordzoo
from recordzoo import catalogue
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli.app import app
from recordzoo.cli.exits import MEANINGS
from recordzoo.cli.info import number
from recordzoo.cli.listing import download
from recordzoo.errors import RecordZooError

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "docs"))  # not `from docs`: other packages bring a `docs` of theirs

import error_facts  # noqa: E402

from tests.faults import NOT_TRIED, PLACES  # noqa: E402


def dataset_overview() -> str:
    """One row for each dataset."""
    rows = [
        (
            f"`{e.name}`",
            f"[{e.title}]({e.homepage})",
            "<br>".join(f"`{name}`" for name in e.class_names),
            e.task,
            number(e.num_images),
            number(e.num_classes),
            download(e),
        )
        for e in map(catalogue.entry, catalogue.names())
    ]
    own = ("*a path*", "any class-per-folder tree", "`ImageFolderRecord`", "classification", "", "", "")
    return _table(("name", "dataset", "class", "task", "images", "classes", "download"), [*rows, own])


def dataset_names() -> str:
    """The classes by the first word of their task, if that is a usual one; each with a link to its section."""
    classes = defaultdict(list)
    for entry in map(catalogue.entry, catalogue.names()):
        word = re.split(r"[, ]", entry.task)[0]
        task = word if word in ("classification", "detection", "segmentation", "captions") else "others"
        classes[task] += [f"[{name}](docs/datasets.md#{_anchor(entry.title)})" for name in entry.class_names]
    tasks = sorted(classes, key=lambda task: -len(classes[task]))
    return "\n\n".join(f"**{task.capitalize()}**: {', '.join(sorted(classes[task], key=str.lower))}." for task in tasks)


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub and Python-Markdown make it."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def dataset_pages() -> str:
    """Everything that the catalogue knows, a section for each dataset."""
    return "\n\n".join(_dataset_section(catalogue.entry(name)) for name in catalogue.names())


def commands() -> str:
    """Every command with its arguments, options and examples."""
    group: Any = typer.main.get_command(app)  # Any: click's classes, which newer typers carry inside
    sections = [f"## recordzoo\n\n{_parameters(group)}"]
    for name, command in leaf_commands(group):
        arguments = [p.metavar for p in command.params if p.param_type_name == "argument"]
        usage = " ".join(["recordzoo", name, *arguments, "[OPTIONS]"])
        example = textwrap.dedent((command.epilog or "").split("\n", 2)[2])
        sections.append(
            f"## {name}\n\n```text\n{usage}\n```\n\n{_unwrapped(command.help)}\n\n{_parameters(command)}\n\n"
            f"```text\n{example}\n```"
        )
    return "\n\n".join(sections)


def leaf_commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:  # Any: as above
    """Yield each command that does something, by its whole name: "list", "cache ls"."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaf_commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


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
    return _api(sorted(catalogue.class_modules()))


def stub() -> str:
    """The public names for type checkers and editors, which do not run `recordzoo.__getattr__`."""
    modules = recordzoo.ZOO | recordzoo.OWN | recordzoo.TRAINING | catalogue.class_modules()
    lines = [f"from {module} import {name} as {name}" for name, module in modules.items()]
    names = "".join(f"    {name!r},\n" for name in sorted(["__version__", "errors", *modules]))
    return "\n".join(
        [
            "# Generated by `make generate` from the catalogue; do not edit.",
            "from recordzoo import errors as errors",
            *sorted(lines, key=lambda line: line.split()[1].lower()),
            "",
            "__version__: str",
            "ZOO: dict[str, str]",
            "OWN: dict[str, str]",
            "TRAINING: dict[str, str]",
            "",
            "__all__ = [",
            names.replace("'", '"') + "]",
            "",
        ]
    )


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
        tables.append(f"## {heading}\n\n{_table(('', 'what happens', 'what you see', 'tested by'), rows)}")
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


def error_section(kind: type[RecordZooError]) -> str:
    """How an error is caught, its exit code and its attributes."""
    head = ("caught by `except`", "exit code", "attributes")
    return _table(head, [error_facts.facts(kind, error_facts.attributes())])


def error_attributes() -> str:
    """What the attributes of errors say."""
    given = sorted(set().union(*error_facts.attributes().values()))
    return _table(("attribute", "meaning"), [(f"`{name}`", error_facts.MEANINGS[name]) for name in given])


def _fault_row(number: str, marks: Sequence[tuple[str, str, str]]) -> tuple[str, str, str]:
    if number in NOT_TRIED:
        what, why = NOT_TRIED[number]
        return what, why, "not tested"
    texts = [(what, seen) for _, what, seen in marks if what]
    return *(texts or [("", "")])[0], "<br>".join(f"`{test}`" for test, _, _ in marks)


SECTIONS: dict[str, tuple[tuple[str, Callable[[], str]], ...]] = {
    "README.md": (("datasets", dataset_names),),
    "docs/datasets.md": (("overview", dataset_overview), ("datasets", dataset_pages)),
    "docs/cli.md": (("commands", commands), ("exit codes", exit_codes), ("environment", environment)),
    "docs/api.md": (("classes", api_classes), ("zoo", api_zoo), ("own data", api_own), ("training", api_training)),
    "docs/errors.md": (
        ("tree", error_facts.tree),
        *((kind.__name__, functools.partial(error_section, kind)) for kind in error_facts.KINDS),
        ("attributes", error_attributes),
    ),
    "docs/tested-faults.md": (("faults", faults),),
}


STUB = "recordzoo/__init__.pyi"


def updated(page: str) -> str:
    """Return a page with its generated parts made anew; or all of a generated file."""
    if page == STUB:
        return stub()
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
    stale = [page for page in (*SECTIONS, STUB) if _text(page) != updated(page)]
    if "--check" in arguments:
        sys.exit(f"stale: {', '.join(stale)}; run: make generate" if stale else 0)
    for page in stale:
        (ROOT / page).write_text(updated(page), encoding="utf-8")


def _text(page: str) -> str:
    path = ROOT / page
    return path.read_text(encoding="utf-8") if path.exists() else ""


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
    classes = [f"[`{name}`](api.md#recordzoo.{name})" for name in entry.class_names]
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
        by_hand = entry.instructions
        for name, shown in (("folder", "DIR"), ("root", "DIR"), ("recordzoo", "recordzoo")):
            by_hand = by_hand.replace(f"{{{name}}}", shown)
        lines.append(f"By hand:\n\n```text\n{by_hand}\n```")
    if entry.differences:
        lines.append("Unlike torchvision:\n\n" + "\n".join(f"- {difference}" for difference in entry.differences))
    return "\n\n".join(lines)


def _file_row(file: FileFacts) -> tuple[str, str, str]:
    name = f"[`{file.name}`]({file.urls[0]})" if file.urls else f"`{file.name}`"
    name += "".join(f" [mirror]({url})" for url in file.urls[1:])
    terms = ", terms of access" if file.needs_terms else ""
    about = f"about {file.about_bytes:,}" if file.about_bytes else "?"
    size = f"{file.size_bytes:,}" if file.size_bytes else about
    return name + terms, size, f"`{file.digest}`" if file.digest else "none known"


def _splits(entry: Entry) -> str:
    return ", ".join(f"{split.name} {split.count:,}" for split in entry.default_splits)


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
