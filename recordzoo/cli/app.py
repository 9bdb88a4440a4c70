"""The command line: all commands in the order of the help, each with its summary and examples.

A command's module is imported when the command is called, so that ``--help`` takes no time.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
import typer.core
import typer.main

from recordzoo.cli.exits import MEANINGS
from recordzoo.cli.output import put


class _Command:
    """A command: `place` is module:function; a summary in one line; examples, which a test runs in this order."""

    def __init__(self, place: str, summary: str, *examples: str) -> None:
        self.place = place
        self.summary = summary
        self.examples = examples

    # Any, here and below: click's class, which newer typers bundle.
    def load(self, name: str) -> Any:
        module, _, function = self.place.partition(":")
        lines = ["\b", "Example:" if len(self.examples) == 1 else "Examples:", *(f"  {each}" for each in self.examples)]
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name, short_help=self.summary, epilog="\n".join(lines))(
            getattr(import_module(f"recordzoo.cli.{module}"), function)
        )
        return typer.main.get_command(alone)


class _Group:
    """Commands below a word."""

    def __init__(self, summary: str, **commands: _Command) -> None:
        self.summary = summary
        self.commands = commands

    def load(self, name: str) -> Any:
        return typer.main.get_command(_make_typer(name, self.summary, self.commands, add_completion=False))


COMMANDS: Mapping[str, _Command | _Group] = {
    "list": _Command(
        "listing:list_command",
        "List the datasets that can be prepared by name.",
        "recordzoo list bird",
        "recordzoo list --task detection --license 'open license' --max-size 2GB",
        "recordzoo list --prepared --root data",
    ),
    "info": _Command(
        "info:info",
        "Show a dataset's facts, or what a record set holds.",
        "recordzoo info cub200",
        "recordzoo info data/cub200.records --full",
    ),
    "prepare": _Command(
        "prepare:prepare",
        "Download, convert once, publish the record set.",
        "recordzoo prepare cub200 --root data",
        "recordzoo prepare photos --short-side 256",
        "recordzoo prepare train.lmdb --output data/train.records",
    ),
    "verify": _Command(
        "verify:verify",
        "Check whether a record set is undamaged.",
        "recordzoo verify data/cub200.records",
        "recordzoo verify data/cub200.records --full",
    ),
    "show": _Command(
        "show:show",
        "See a record set's images on a contact sheet.",
        "recordzoo show data/cub200.records --number 24",
        "recordzoo show photos --class cat --order largest",
    ),
    "bench": _Command(
        "bench:bench",
        "Measure how fast your images become batches.",
        "recordzoo bench photos --images 2000",
    ),
    "copy": _Command(
        "transfer:copy",
        "Copy a record set to another place.",
        "recordzoo copy data/photos.records /mnt/fast",
        "recordzoo copy photos /mnt/backup/photos-2026.records --verify",
    ),
    "merge": _Command(
        "combining:merge",
        "Store the records of several sets as one record set.",
        "recordzoo merge 2025.records 2026.records --output all.records",
        "recordzoo merge cats dogs --output pets.records --classes union",
    ),
    "split": _Command(
        "combining:split",
        "Divide a record set into train and val.",
        "recordzoo split photos.records --val 10%",
        "recordzoo split scans.records --val 0.2 --by patient --seed 7",
    ),
    "subset": _Command(
        "combining:subset",
        "Store some records of a set as a new record set.",
        "recordzoo subset photos.records --classes cat,dog --output pets.records",
        "recordzoo subset photos --split train --output train.records",
    ),
    "push": _Command(
        "transfer:push",
        "Copy a record set to object storage.",
        "recordzoo push data/photos.records s3://bucket/datasets",
        "recordzoo push photos s3://bucket/photos.records --verify",
    ),
    "pull": _Command(
        "transfer:pull",
        "Copy a record set from object storage to this machine.",
        "recordzoo pull s3://bucket/datasets/photos.records data",
        "recordzoo pull s3://bucket/datasets --dry-run",
    ),
    "export": _Command(
        "exporting:export",
        "Write a record set as files that other programs read.",
        "recordzoo export photos --to folder --output photos-folder",
        "recordzoo export data/cub200.records --to webdataset --output cub-tar",
    ),
    "cache": _Group(
        "List and delete what recordzoo wrote to the disk.",
        ls=_Command(
            "cache:ls",
            "List what recordzoo wrote, with sizes and last use.",
            "recordzoo cache ls",
            "recordzoo cache ls --root data --json",
        ),
        rm=_Command(
            "cache:rm",
            "Delete record sets, or other things that recordzoo wrote.",
            "recordzoo cache rm data/cub200.records",
            "recordzoo cache rm s3://bucket/cub200.records",
            "recordzoo cache rm data/cub200.records data/CUB_200_2011.tgz --yes",
        ),
    ),
    "doctor": _Command(
        "doctor:doctor",
        "Check the installation and the disk, and say what would help.",
        "recordzoo doctor",
        "recordzoo doctor --root data --json",
    ),
}


class _Loaded(Mapping[str, Any]):
    """Click's commands by name, each loaded when it is asked for."""

    def __init__(self, rows: Mapping[str, _Command | _Group]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Any:
        return self._rows[name].load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class _ListedGroup(typer.core.TyperGroup):
    """A group whose commands are rows of a table; its help imports no command."""

    rows: ClassVar[Mapping[str, _Command | _Group]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded(self.rows)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in self.rows.items()])


def _make_typer(
    name: str, summary: str, rows: Mapping[str, _Command | _Group], *, add_completion: bool = True, epilog: str = ""
) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=type("Group", (_ListedGroup,), {"rows": rows}),
        help=summary,
        epilog=epilog or None,
        callback=_show_help,
        invoke_without_command=True,
        add_completion=add_completion,
        rich_markup_mode=None,  # plain text: rich would double the time to the first line
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        put(context.get_help())


def _exit_code_help() -> str:
    # "\b" keeps click from joining the lines.
    lines = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Exit codes:", *lines])


def _show_version(value: bool) -> None:
    if value:
        from recordzoo import __version__

        put(f"recordzoo {__version__}")
        raise typer.Exit


app = _make_typer(
    "recordzoo",
    "Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed.",
    COMMANDS,
    epilog=_exit_code_help(),
)


@app.callback(invoke_without_command=True)
def recordzoo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed."""
    _show_help(context)
