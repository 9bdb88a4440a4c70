"""The command line: all commands in the order of the help, each with its summary and examples.

What a command takes is in `recordzoo.cli.commands`; what it does is imported when it runs.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from recordzoo.cli.commands import cache, combining, datasets, exporting, look, transfer
from recordzoo.cli.commands import prepare as preparing
from recordzoo.cli.exits import MEANINGS


def _exit_code_help() -> str:
    # "\b" keeps click from joining the lines.
    lines = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Exit codes:", *lines])


_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="recordzoo",
    help="Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed.",
    epilog=_exit_code_help(),
    rich_markup_mode=None,  # plain text: rich would double the time to the first line
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


def _show_version(value: bool) -> None:
    if value:
        from recordzoo import __version__
        from recordzoo.cli.output import put

        put(f"recordzoo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def recordzoo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed."""
    if context.invoked_subcommand is None:
        from recordzoo.cli.output import put

        put(context.get_help())


def _add(group: typer.Typer, name: str, function: Callable[..., int | None], summary: str, *examples: str) -> None:
    """Add a command; its help ends with the examples, which are run in the order given."""
    lines = ["\b", "Example:" if len(examples) == 1 else "Examples:", *(f"  {example}" for example in examples)]
    group.command(name, short_help=summary, epilog="\n".join(lines))(function)


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        from recordzoo.cli.output import put

        put(context.get_help())


_add(
    app,
    "list",
    datasets.list_command,
    "List the datasets that can be prepared by name.",
    "recordzoo list bird",
    "recordzoo list --task detection --max-size 2GB",
    "recordzoo list --prepared --root data",
)
_add(
    app,
    "info",
    datasets.info,
    "Show a dataset's facts, or what a record set holds.",
    "recordzoo info cub200",
    "recordzoo info data/cub200.records --full",
)
_add(
    app,
    "prepare",
    preparing.prepare,
    "Download, convert once, publish the record set.",
    "recordzoo prepare cub200 --root data",
    "recordzoo prepare photos --short-side 256",
    "recordzoo prepare train.lmdb --output data/train.records",
)
_add(
    app,
    "verify",
    look.verify,
    "Check whether a record set is undamaged, and repair it.",
    "recordzoo verify data/cub200.records --full",
    "recordzoo verify data/cub200.records --repair",
)
_add(
    app,
    "show",
    look.show,
    "See a record set's images: a contact sheet, or a page.",
    "recordzoo show data/cub200.records --number 24",
    "recordzoo show photos --html --class cat",
)
_add(
    app,
    "bench",
    look.bench,
    "Measure how fast your images become batches.",
    "recordzoo bench photos --images 2000 --output speed.png",
)
_add(
    app,
    "copy",
    transfer.copy,
    "Copy a record set to another place.",
    "recordzoo copy data/photos.records /mnt/fast",
    "recordzoo copy photos /mnt/backup/photos-2026.records --verify",
)
_add(
    app,
    "merge",
    combining.merge,
    "Store the records of several sets as one record set.",
    "recordzoo merge 2025.records 2026.records --output all.records",
    "recordzoo merge cats dogs --output pets.records --classes union",
)
_add(
    app,
    "append",
    combining.append,
    "Add records to a record set.",
    "recordzoo append photos.records new-photos",
    "recordzoo append 2025.records 2026.records --output all.records",
)
_add(
    app,
    "add-field",
    combining.add_field,
    "Give each record of a set a value of a new field.",
    "recordzoo add-field photos.records ages.csv --as age",
    "recordzoo add-field photos.records scores.npy --as score --output b.records",
)
_add(
    app,
    "split",
    combining.split,
    "Divide a record set into train and val.",
    "recordzoo split photos.records --val 10%",
    "recordzoo split scans.records --val 0.2 --by patient --seed 7",
)
_add(
    app,
    "subset",
    combining.subset,
    "Store some records of a set as a new record set.",
    "recordzoo subset photos.records --classes cat,dog --output pets.records",
    "recordzoo subset photos --split train --output train.records",
)
_add(
    app,
    "push",
    transfer.push,
    "Copy a record set to object storage.",
    "recordzoo push data/photos.records s3://bucket/datasets",
    "recordzoo push photos s3://bucket/photos.records --verify",
)
_add(
    app,
    "pull",
    transfer.pull,
    "Copy a record set from object storage to this machine.",
    "recordzoo pull s3://bucket/datasets/photos.records data",
    "recordzoo pull s3://bucket/datasets --dry-run",
)
_add(
    app,
    "export",
    exporting.export,
    "Write a record set as files that other programs read.",
    "recordzoo export photos --to folder --output photos-folder",
    "recordzoo export data/cub200.records --to webdataset --output cub-tar",
)
_cache = typer.Typer(rich_markup_mode=None, context_settings=_SETTINGS)
_cache.callback(invoke_without_command=True)(_show_help)
app.add_typer(_cache, name="cache", help="List and delete what recordzoo wrote to the disk.")
_add(
    _cache,
    "ls",
    cache.ls,
    "List what recordzoo wrote, with sizes and last use.",
    "recordzoo cache ls",
    "recordzoo cache ls --root data --json",
)
_add(
    _cache,
    "rm",
    cache.rm,
    "Delete record sets, or other things that recordzoo wrote.",
    "recordzoo cache rm data/cub200.records",
    "recordzoo cache rm s3://bucket/cub200.records",
    "recordzoo cache rm cub200 --root data --yes",
)
_add(
    _cache,
    "prune",
    cache.prune,
    "Delete what is old or no longer needed.",
    "recordzoo cache prune --builds --older-than 7d --dry-run",
    "recordzoo cache prune --keep-size 100GB",
    "recordzoo cache prune --raw --root data --yes",
    "recordzoo cache prune --remote --older-than 30d --yes",
)
_add(
    app,
    "doctor",
    look.doctor,
    "Check the installation and the disk, and say what would help.",
    "recordzoo doctor",
    "recordzoo doctor --root data --json",
)
_add(
    app,
    "demo",
    look.demo,
    "See it all in about a minute, offline.",
    "recordzoo demo --output demo-output",
)
