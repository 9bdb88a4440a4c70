"""The command that writes a record set as files of other tools: `export`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_path
from recordzoo.cli.commands.options import Json, RecordSet
from recordzoo.formats import WRITTEN


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in WRITTEN if name.startswith(incomplete)]


def export(
    path: RecordSet,
    to: Annotated[
        str, typer.Option(metavar="|".join(WRITTEN), help="What is written.", autocompletion=_complete_target)
    ],
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The directory that is made; of a zip the file.", autocompletion=complete_path
        ),
    ],
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this split; may be repeated. Default: all, if they share no samples."),
    ] = None,
    shard_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Target size of a file (100M, 1G). Default: 256M."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that write. Default: a core each, at most 8; one for less than 256 MiB."
        ),
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Replace another export that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a record set as files that other programs read.

    The stored bytes of the images are copied; labels, class names, splits, names and other fields go where the format
    has a place for them. The output appears when it is complete; the same command goes on after an interruption.
    """
    from recordzoo.cli.exporting import export_set
    from recordzoo.cli.sizes import parse_bytes

    shard_bytes = None if shard_size is None else parse_bytes("--shard-size", shard_size)
    export_set(path, output, to, split, shard_bytes, workers, refresh=refresh, as_json=as_json)
