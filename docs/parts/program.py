"""The command line: commands, exit codes, environment variables."""

import re
import textwrap
from collections.abc import Iterator
from typing import Any

import typer.main

from docs.parts.markdown import fenced, table, unwrapped
from recordzoo.base import settings
from recordzoo.cli.app import Exit, app


def commands() -> str:
    """Every command with its arguments, options and examples."""
    group: Any = typer.main.get_command(app)  # Any: click's classes, which newer typers carry inside
    sections = [f"## recordzoo\n\n{_parameters(group)}"]
    for name, command in leaf_commands(group):
        arguments = [p.metavar for p in command.params if p.param_type_name == "argument"]
        usage = " ".join(["recordzoo", name, *arguments, "[OPTIONS]"])
        example = textwrap.dedent((command.epilog or "").split("\n", 2)[2])
        parts = [fenced("text", usage), unwrapped(command.help), _parameters(command), fenced("text", example)]
        sections.append("\n\n".join([f"## {name}", *parts]))
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
    return table(("code", "meaning"), [(str(code.value), code.meaning) for code in Exit])


def environment() -> str:
    """The environment variables, from the docstrings of `recordzoo.base.settings`."""
    rows = []
    for function in vars(settings).values():
        match = re.fullmatch(
            r"(.*) \(``(RECORDZOO_\w+)``(?:, (.*))?\)\.", getattr(function, "__doc__", None) or "", re.S
        )
        if match:
            rows.append((f"`{match[2]}`", unwrapped(match[1]).replace("``", "`"), match[3] or "not set"))
    return table(("variable", "what it says", "default"), rows)


def _parameters(command: Any) -> str:  # Any: a click command
    rows = []
    for parameter in command.params:
        names = " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar}`"
        rows.append((names, unwrapped(parameter.help or "")))
    return table(("argument or option", "what it does"), rows)
