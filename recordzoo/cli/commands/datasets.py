"""The commands about the catalogue: `list`, `info`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_data, complete_path
from recordzoo.cli.commands.options import Json


def list_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD", help="Only those with all these words in their name, description or task."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only those with this word in their task: detection, ...")
    ] = None,
    license: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only those with this word in their license: CC BY, MIT, ...")
    ] = None,
    obtained: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Only those whose files are had so: download, terms, partly, by-hand."),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Only those whose download is known to be at most so large: 2GB.")
    ] = None,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Only the record sets that are prepared under ROOT, with their sizes.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --prepared: where they are; default: here.", autocompletion=complete_path
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the datasets that can be prepared by name."""
    from recordzoo.cli.listing import Filter, list_datasets, list_prepared
    from recordzoo.errors import ArgumentError

    wanted = Filter.of(task=task, license=license, obtained=obtained, max_size=max_size, words=words or ())
    if prepared:
        list_prepared(wanted, root or Path(), as_json)
    elif root is not None:
        raise ArgumentError("--root says where to look for record sets; it needs --prepared.")
    else:
        list_datasets(wanted, as_json)


def info(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH|URL",
            help="A dataset; or a record set's directory or URL, or the tree or list that it was made from.",
            autocompletion=complete_data,
        ),
    ],
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Of a record set: read the headers of all images, not of 2,000 at random (at a URL 200)."
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what is known of a dataset: size, splits, files, license.

    Of a record set: splits, classes, fields, image sizes and formats, bytes, and where it came from.
    """
    from recordzoo.cli.info import show

    return show(name, full=full, as_json=as_json)
